"""The arguments of calls: converted, or refused, as PyTensor's types do it, without PyTensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.plan import Kind, fits
from pytensor_jaxlink.runtime.typed_jax import ARRAY, Tracer, class_of
from pytensor_jaxlink.sparse_values import scipy_class
from pytensor_jaxlink.trees import a_class

_NUMPY: Any = np.ndarray  # whose dtype is not known
_ARRAYS: Any = np.ndarray | jax.Array

Convert = Callable[[object], object]


def argument_converter(
    name: str | None,
    kind: Kind,
    float_type: str | None,
    *,
    strict: bool = False,
    allow_downcast: bool | None = None,
) -> Convert:
    """A function that gives an argument the type of an input.

    ``strict`` and ``allow_downcast`` are those of `pytensor.In`.  Python's floats may lose digits
    to become ``float_type``, which is PyTensor's ``floatX``.  The function raises `TypeError`,
    `ValueError` or `OverflowError` where a rank or length differs, or precision would be lost.
    """
    match kind.kind:
        case "array" | "number":
            make = _Array if kind.kind == "array" else _Number
            return make(name, kind, strict, allow_downcast, float_type)
        case "sparse":
            return _Sparse(name, kind, strict, allow_downcast)
        case "generator":
            return _Generator("an argument", "a numpy.random.Generator")
        case "other":
            return lambda value: value


def fast_converter(convert: Convert) -> Convert:
    """The same for the fast path: it gives None where the slow path says what is wrong."""

    def fast(value: object) -> object:
        try:
            return None if isinstance(value, Tracer) else convert(value)
        except Exception:  # a class of somebody else's may raise anything
            return None

    return fast


class Converter:
    """Makes an argument what an input is."""

    def __init__(self, name: str | None, expected: str) -> None:
        self._name, self._expected = name or "an unnamed input", expected

    def _wrong(self, found: str) -> TypeError:
        text = f"{self._name}: expected {self._expected}, found {found}"
        return TypeError(Code.CALL_OF_LOADED.mark(text))


class _Typed(Converter):
    """Makes an argument an array or a matrix of a type."""

    def __init__(
        self, name: str | None, kind: Kind, strict: bool, allow_downcast: bool | None
    ) -> None:
        super().__init__(name, kind.text)
        self._kind, self._dtype = kind, np.dtype(kind.dtype)
        self._strict, self._allow_downcast = strict, allow_downcast

    def _check_not_strict(self, value: object) -> None:
        if self._strict:
            raise self._wrong(f"{a_class(value)}, and the input is strict")


class _Array(_Typed):
    """As PyTensor's types filter arrays."""

    def __init__(
        self,
        name: str | None,
        kind: Kind,
        strict: bool,
        allow_downcast: bool | None,
        float_type: str | None,
    ) -> None:
        super().__init__(name, kind, strict, allow_downcast)
        self._float_type = float_type
        self._shape = self._kind.shape or ()
        takes_numbers = self._shape == () and not self._strict
        self._takes_floats = takes_numbers and self._dtype == np.float64
        self._lowest, self._highest = _exact_integers(self._dtype) if takes_numbers else (1, 0)

    def __call__(self, value: Any) -> Any:
        kind = class_of(value)
        if kind is float and self._takes_floats:
            return np.array(value)
        if kind is int and self._lowest <= value <= self._highest:
            return np.array(value, self._dtype)
        is_one = kind is np.ndarray or kind is ARRAY or isinstance(value, _ARRAYS)
        if not is_one or value.dtype != self._dtype:
            value = self._converted(value)
        if not fits(value.shape, self._shape):
            raise self._wrong(f"an array of shape {value.shape}")
        return value

    def _converted(self, value: Any) -> Any:
        self._check_not_strict(value)
        dtype = self._dtype
        if self._allow_downcast:
            return np.asarray(value).astype(dtype)
        if isinstance(value, _NUMPY):
            if np.result_type(dtype, value.dtype) != dtype:
                raise self._wrong(f"an array of {value.dtype}, which would lose precision")
            return np.asarray(value, dtype)
        if self._may_round(value):
            return np.asarray(value, dtype)
        converted, plain = np.asarray(value, dtype), np.asarray(value)
        same = converted == plain
        if plain.dtype.kind in "fc":
            same = same | (np.isnan(converted) & np.isnan(plain))
        if not np.all(same):
            raise self._wrong(f"{value!r:.80}, which would lose precision")
        return converted

    def _may_round(self, value: object) -> bool:
        """Return True if a number may lose digits, or more."""
        if self._allow_downcast is not None:
            return self._allow_downcast
        return isinstance(value, float | np.floating) and self._dtype == self._float_type


def _exact_integers(dtype: np.dtype) -> tuple[int, int]:
    """The least and the largest of the integers that a dtype has all."""
    if dtype.isbuiltin != 1 or dtype.kind not in "iuf":
        return 1, 0
    if dtype.kind == "f":
        largest = 2 ** (np.finfo(dtype).nmant + 1)
        return -largest, largest
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


class _Number(_Array):
    """As PyTensor's types of numbers filter: numbers of NumPy, which are no arrays."""

    def __call__(self, value: Any) -> Any:
        if isinstance(value, self._dtype.type):
            return value
        self._check_not_strict(value)
        found = super().__call__(value)
        return found if class_of(found) is ARRAY else found[()]

    def _converted(self, value: Any) -> object:
        number = self._dtype.type(value)
        if not self._may_round(value) and not np.array_equal(value, number, equal_nan=True):
            raise self._wrong(f"{value!r:.80}, which would lose precision")
        return np.asarray(number)


class _Sparse(_Typed):
    def __call__(self, value: Any) -> Any:
        matrix = scipy_class(self._kind.format)
        if isinstance(value, matrix) and value.dtype == self._dtype:
            return value
        self._check_not_strict(value)
        try:
            found = matrix(value)  # of another format, an array, or dense
        except (TypeError, ValueError) as error:
            raise self._wrong(a_class(value)) from error
        if not self._allow_downcast and np.result_type(self._dtype, found.dtype) != self._dtype:
            raise self._wrong(f"a matrix of {found.dtype}, which would lose precision")
        return found.astype(self._dtype)


class _Generator(Converter):
    def __call__(self, value: object) -> np.random.Generator:
        if not isinstance(value, np.random.Generator):
            raise self._wrong(a_class(value))
        return value
