"""The leaves of arguments of functions of trees: converted, or refused, as JAX does it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.artifact.arrays import EXTENDED, extended_dtype, plain_dtype
from pytensor_jaxlink.artifact.signature import Input
from pytensor_jaxlink.artifact.skeletons import implementation_of, key_data_of, plain_text
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.runtime import ARRAY, Convert, Converter
from pytensor_jaxlink.trees import a_class


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


_NUMBERS = {bool: "b", int: "iu", float: "f", complex: "c"}


class _Leaf(Converter):
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
