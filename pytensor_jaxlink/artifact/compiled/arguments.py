"""Arguments of loaded functions: converted, or refused, as PyTensor's types or JAX do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.artifact.arrays import EXTENDED, extended_dtype, plain_dtype
from pytensor_jaxlink.artifact.signature import Input
from pytensor_jaxlink.artifact.skeletons import implementation_of, key_data_of, plain_text
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.runtime import ARRAY
from pytensor_jaxlink.trees import a_class

Convert = Callable[[object], object]


def argument_converter(spec: Input, float_type: str) -> Convert:
    """A function that gives an argument the type of an input.

    Python floats may lose digits to become ``float_type``, the ``floatX`` where the function was
    saved. The function raises `TypeError` where a rank or length differs, or precision would be
    lost.
    """
    match spec.type.kind:
        case "array" | "number":
            return _Array(spec, float_type)
        case "sparse":
            return _Sparse(spec)
        case "generator":
            return _Generator("an argument", "a numpy.random.Generator")
    return lambda value: value


def leaf_converter(spec: Input, key: str | None, name: str, *, x64: bool) -> Convert:
    """A function that makes a leaf of a tree what an input of a function of JAX is.

    An input that is no array is a static value, whose text selects the code.  ``key`` is the
    implementation of a typed key of random bits.  The function raises `TypeError` for another type.
    """
    if spec.type.kind != "array":
        return lambda value: _static(value, name)
    return _Leaf(spec, key, name, x64=x64)


def _static(value: object, name: str) -> str:
    try:
        return plain_text(value, name)
    except ArtifactError as error:
        raise TypeError(Code.CALL_OF_LOADED.mark(error.text)) from error


class _Converter:
    """Makes an argument what an input is."""

    def __init__(self, name: str | None, expected: str) -> None:
        self._name, self._expected = name or "an unnamed input", expected

    def _wrong(self, found: str) -> TypeError:
        text = f"{self._name}: expected {self._expected}, found {found}"
        return TypeError(Code.CALL_OF_LOADED.mark(text))


class _Array(_Converter):
    """As PyTensor's types filter values."""

    def __init__(self, spec: Input, float_type: str) -> None:
        super().__init__(spec.name, spec.type.text)
        self._spec, self._float_type = spec, float_type
        self._dtype = np.dtype(spec.type.dtype)
        self._shape = spec.type.shape or ()
        self._fixed = [(axis, n) for axis, n in enumerate(self._shape) if n is not None]

    def __call__(self, value: object) -> np.ndarray | jax.Array:
        if not isinstance(value, np.ndarray | jax.Array) or value.dtype != self._dtype:
            value = self._converted(value)
        shape = value.shape
        if len(shape) != len(self._shape):
            raise self._wrong(f"an array with {len(shape)} dimensions")
        if any(shape[axis] != length for axis, length in self._fixed):
            raise self._wrong(f"an array of shape {shape}")
        return value

    def _converted(self, value: object) -> np.ndarray:
        spec, dtype = self._spec, self._dtype
        if spec.strict:
            raise self._wrong(f"{a_class(value)}, and the input is strict")
        if spec.allow_downcast:
            return np.asarray(value).astype(dtype)
        if isinstance(value, np.ndarray):
            if np.result_type(dtype, value.dtype) != dtype:
                raise self._wrong(f"an array of {value.dtype}, which would lose precision")
            return value.astype(dtype)
        is_float = isinstance(value, float | np.floating)
        if spec.allow_downcast is None and is_float and dtype == self._float_type:
            return np.asarray(value, dtype)
        converted, plain = np.asarray(value, dtype), np.asarray(value)
        same = converted == plain
        if plain.dtype.kind in "fc":
            same = same | (np.isnan(converted) & np.isnan(plain))
        if not np.all(same):
            raise self._wrong(f"{value!r:.80}, which would lose precision")
        return converted


class _Sparse(_Converter):
    def __init__(self, spec: Input) -> None:
        super().__init__(spec.name, spec.type.text)
        self._spec = spec

    def __call__(self, value: Any) -> Any:
        from scipy import sparse  # where there are any, it has been imported

        spec, kind = self._spec, self._spec.type
        matrix = getattr(sparse, f"{kind.format}_matrix")
        if isinstance(value, matrix) and value.dtype == kind.dtype:
            return value
        if spec.strict:
            raise self._wrong(f"{a_class(value)}, and the input is strict")
        try:
            found = matrix(value)  # of another format, an array, or dense
        except (TypeError, ValueError) as error:
            raise self._wrong(a_class(value)) from error
        if not spec.allow_downcast and np.result_type(kind.dtype, found.dtype) != kind.dtype:
            raise self._wrong(f"a matrix of {found.dtype}, which would lose precision")
        return found.astype(kind.dtype)


class _Generator(_Converter):
    def __call__(self, value: object) -> np.random.Generator:
        if not isinstance(value, np.random.Generator):
            raise self._wrong(a_class(value))
        return value


_NUMBERS = {bool: "b", int: "iu", float: "f", complex: "c"}


class _Leaf(_Converter):
    """As JAX makes arrays; the shape is checked later."""

    def __init__(self, spec: Input, key: str | None, name: str, *, x64: bool) -> None:
        super().__init__(name, f"a key of {key}" if key else spec.type.text)
        dtype = spec.type.dtype
        self._dtype = extended_dtype(dtype) if dtype in EXTENDED else plain_dtype(dtype)
        self._key, self._x64 = key, x64

    def __call__(self, value: Any) -> Any:
        if type(value) is ARRAY and value.dtype == self._dtype:
            return value
        if not isinstance(value, jax.Array):
            value = self._array(value)
        elif self._key is not None and (key := implementation_of(value)) is not None:
            if key != self._key:
                raise self._wrong(f"a key of {key}")
            value = key_data_of(value)
        if value.dtype != self._dtype:
            raise self._wrong(f"an array of {value.dtype}")
        return value

    def _array(self, value: object) -> np.ndarray:
        if isinstance(value, np.ndarray | np.generic):
            value = np.asarray(value)
            # JAX makes 64-bit arrays 32-bit ones where it is not configured for them.
            return value if self._x64 else value.astype(_canonical(value.dtype), copy=False)
        kinds = _NUMBERS.get(type(value))
        if kinds is None:
            raise self._wrong(a_class(value))
        if _kind(self._dtype) not in kinds:
            raise self._wrong(f"the number {value!r:.40}")
        try:
            return np.asarray(value, self._dtype)
        except OverflowError as error:
            raise self._wrong(f"the number {value!r:.40}") from error


def _kind(dtype: np.dtype) -> str:
    """The kind of a dtype, with those that JAX adds to NumPy's."""
    for kind, category in (("f", jax.numpy.floating), ("iu", jax.numpy.integer)):
        if jax.numpy.issubdtype(dtype, category):
            return kind[0]
    return dtype.kind


def _canonical(dtype: np.dtype) -> np.dtype:
    with jax.enable_x64(False):
        return np.dtype(jax.dtypes.canonicalize_dtype(dtype))
