"""Arrays as `.npy` members and, where they are small, inside documents.  No pickle, ever."""

from __future__ import annotations

import ast
import base64
import io
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.errors import ArtifactError

SMALL = 256  # bytes; what is smaller is written into the document

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000


def array_member(array: np.ndarray) -> tuple[bytes, memoryview]:
    """The header and the data of a `.npy` file.  Contiguous arrays are not copied."""
    header = io.BytesIO()
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    described = {"descr": array.dtype.str, "fortran_order": fortran, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, described)
    flat = array.ravel(order="F" if fortran else "C")
    return header.getvalue(), flat.view(np.uint8).data


def array_of_member(content: memoryview) -> np.ndarray:
    """The array in the bytes of a `.npy` file, without a copy.

    Raises
    ------
    ValueError
        If the bytes are not what the header says, or hold Python objects.
    """
    length = int.from_bytes(content[8:10], "little")
    if bytes(content[:8]) != _MAGIC + b"\1\0" or length > _LONGEST_HEADER:
        raise ValueError("not an array that this library has written")
    header = ast.literal_eval(bytes(content[10 : 10 + length]).decode("latin1"))
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header of an array is damaged")
    order = "F" if header["fortran_order"] is True else "C"
    return _array(header["descr"], header["shape"], content[10 + length :], order)


def small_array(array: np.ndarray) -> dict[str, str | list[int]]:
    """An array for a document."""
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "base64": base64.b64encode(array.tobytes()).decode(),
    }


def array_of_document(described: Parsed) -> np.ndarray:
    """The array that `small_array` described."""
    content = bytearray(base64.b64decode(described["base64"], validate=True))
    return _array(described["dtype"], described["shape"], memoryview(content), "C")


EXTENDED = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
"""The dtypes of JAX that NumPy does not have; they are kept as unsigned integers."""


def is_extended(dtype: np.dtype) -> bool:
    """Return True for a dtype that JAX adds to those of NumPy."""
    return dtype.name in EXTENDED


def extended_dtype(name: object) -> np.dtype:
    """A dtype that JAX adds, by its name."""
    if name not in EXTENDED:
        raise ValueError(f"{name!r} is not the name of a dtype")
    import ml_dtypes  # where there is such an array

    return np.dtype(getattr(ml_dtypes, name))


def check_dtype(dtype: np.dtype, what: str) -> None:
    """Refuse what has no plain bytes."""
    if not _is_plain(dtype):
        raise ArtifactError(f"{what} has dtype {dtype}, which cannot be saved")


def plain_dtype(text: object) -> np.dtype:
    """The dtype of a text such as ``"<f8"``."""
    if not isinstance(text, str) or len(text) > 16:
        raise ValueError(f"{text!r} is not a dtype")
    dtype = np.dtype(text)
    if not _is_plain(dtype):
        raise ValueError(f"{text!r} is not a dtype of plain values")
    return dtype


def _is_plain(dtype: np.dtype) -> bool:
    return dtype.kind in "biufcSU" and not dtype.hasobject and dtype.fields is None


def _array(
    dtype: object, shape: Sequence[int], content: memoryview, order: Literal["C", "F"]
) -> np.ndarray:
    kind = plain_dtype(dtype)
    if not _is_shape(shape) or math.prod(shape) * kind.itemsize != len(content):
        raise ValueError(f"an array of shape {shape!r} does not have {len(content)} bytes")
    if not len(content):
        return np.empty(shape, kind)
    return np.frombuffer(content, kind).reshape(shape, order=order)


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, Sequence)
        and len(shape) <= 64
        and all(type(length) is int and 0 <= length < 1 << 62 for length in shape)
    )
