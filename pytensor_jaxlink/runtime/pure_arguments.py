"""The arguments of pure functions, of graphs that were built here and of loaded ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.plan import ARRAYS, Kind, fits
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.arguments import Filter, argument_converter
from pytensor_jaxlink.runtime.typed_jax import Tracer
from pytensor_jaxlink.sparse_values import SparseValue
from pytensor_jaxlink.trees import a_class

_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
"""Of each kind of numbers.  The narrow types of JAX, as bfloat16, are of NumPy's kind V."""


def pure_arguments(
    values: Sequence[object], names: Sequence[str], kinds: Sequence[Kind | None]
) -> list[object]:
    """The arguments of a pure function, as many as it has names.

    ``kinds`` are the types of those that are read, None of the others.  Raises `TypeError` for one
    that PyTensor would not take.
    """
    if len(values) != len(names):
        text = f"expected {len(names)} arguments ({', '.join(names)}), found {len(values)}"
        raise TypeError(Code.CALL_OF_PURE.mark(text))
    found = list(map(_as_one_array, values, kinds))
    for place, (value, name, kind) in enumerate(zip(found, names, kinds, strict=True)):
        if kind is not None and kind.kind in ARRAYS:
            _check_argument(value, kind, name)
        elif kind is not None and kind.kind == "sparse":
            found[place] = _as_matrix(value, kind, name)
        elif kind is not None and kind.kind == "generator":
            _check_generator(value, name)
    return found


def _check_generator(value: Any, name: str) -> None:
    """Raise `TypeError` for what no draw takes for a generator."""
    if isinstance(value, np.random.Generator | dict):
        return
    words, is_array = value, isinstance(value, jax.Array | np.ndarray)
    if is_array and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        words = jax.random.key_data(value)
    if is_array and words.dtype == np.uint32 and words.shape == (2,):
        return
    found = f"an array of {value.dtype}, of shape {value.shape}" if is_array else a_class(value)
    expected = "a numpy.random.Generator or a key of JAX (two words of uint32)"
    raise TypeError(Code.CALL_OF_PURE.mark(f"{name}: expected {expected}, found {found}"))


def _as_matrix(value: object, kind: Kind, name: str) -> object:
    """A sparse matrix in the format that is declared, into which PyTensor converts others.

    `jax.jit` takes a matrix of SciPy for an array, of which it traces the shape alone.
    """
    if isinstance(value, Tracer):
        found = f"an array that JAX traces. {Remedy.BIND_MATRIX.text()}"
        raise TypeError(Code.CALL_OF_PURE.mark(f"{name}: expected {kind.text}, found {found}"))
    if isinstance(value, SparseValue):  # its arrays may be traced
        return value
    return argument_converter(name, kind, Filter(), Code.CALL_OF_PURE)(value)


def _as_one_array(value: object, kind: Kind | None) -> object:
    """A sequence of numbers as the array that it stands for; JAX may trace some of them.

    NumPy makes real numbers of integers of which some only fit into uint64 and others do not need
    it, so an array of integers is made in its type, as PyTensor does.
    """
    numbers: Any = value
    if type(value) not in (tuple, list):
        return value
    if any(isinstance(n, Tracer) for n in numbers):
        return jax.numpy.stack(numbers)
    if kind is not None and kind.kind in ARRAYS and np.dtype(kind.dtype).kind in "iu":
        with suppress(TypeError, ValueError, OverflowError):  # which the check explains
            array = np.asarray(numbers, kind.dtype)
            return array if np.array_equal(array, numbers) else value
    return value


def _check_argument(value: object, kind: Kind, name: str) -> None:
    """Raise `TypeError` for an argument that PyTensor would not take, whatever its precision.

    A graph for vectors may have a value for a matrix, and it would be the wrong one.
    """
    array: Any = value if isinstance(value, jax.Array) else np.asarray(value)
    has_shape = fits(array.shape, kind.shape or ())
    if not has_shape and hasattr(value, "shape"):
        found = f"an array of shape {array.shape}"
    elif not has_shape or np.dtype(array.dtype).kind not in _RANK:
        found = a_class(value)
    elif _holds(np.dtype(kind.dtype), array):
        return
    else:
        found = _numbers(np.dtype(array.dtype).kind, are_traced=isinstance(array, Tracer))
    raise TypeError(Code.CALL_OF_PURE.mark(f"{name}: expected {kind.text}, found {found}"))


def _holds(dtype: np.dtype[Any], array: Any) -> bool:
    """Return True if an array of a dtype may have these numbers, rounded to its precision.

    PyTensor takes 2.0 for an integer, and refuses 2.5.  Of a tracer only the dtype is known.
    """
    found = np.dtype(array.dtype)
    higher = _RANK[found.kind] > _RANK[dtype.kind]
    if isinstance(array, Tracer) or found.kind == "c":
        return not higher
    if _RANK[dtype.kind] > 1 or np.can_cast(found, dtype):
        return True
    values = np.asarray(array)
    with np.errstate(invalid="ignore"):  # NaN as an integer
        return bool(np.array_equal(values.astype(dtype), values))


def _numbers(kind: str, *, are_traced: bool) -> str:
    """The numbers of an array in words."""
    names = {"c": "complex numbers", "f": "real numbers", "V": "real numbers"}
    return names.get(kind, "integers" if are_traced else "integers out of its range")
