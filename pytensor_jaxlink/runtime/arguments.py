"""The arguments of calls: converted, or refused, as PyTensor's types do it, without PyTensor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Filter:
    """The rules by which arguments are converted.

    Attributes
    ----------
    strict, allow_downcast
        As in `pytensor.In`.
    float_type
        PyTensor's ``floatX``: Python's floats may lose digits to become that.
    """

    strict: bool = False
    allow_downcast: bool | None = None
    float_type: str | None = None


def argument_converter(
    name: str | None, kind: Kind, rules: Filter, code: Code = Code.CALL_OF_LOADED
) -> Convert:
    """A function that gives an argument the type of an input.

    It raises `TypeError` (with the code), `ValueError` or `OverflowError` where a rank or length
    differs, or precision would be lost.
    """
    match kind.kind:
        case "array":
            return _Array(name, kind, rules, code)
        case "number":
            return _Number(name, kind, rules, code)
        case "sparse":
            return _Sparse(name, kind, rules, code)
        case "generator":
            return _Generator("an argument", "a numpy.random.Generator")
        case "other":
            return lambda value: value


def fast_converter(convert: Convert) -> Convert:
    """The same for the fast path: it gives None where the slow path says what is wrong."""

    def fast(value: object) -> object:
        try:
            found = convert(value)
            return None if found is value and isinstance(value, Tracer) else found
        except Exception:  # a class of somebody else's may raise anything
            return None

    return fast


class Converter:
    """Makes an argument what an input is."""

    def __init__(self, name: str | None, expected: str, code: Code = Code.CALL_OF_LOADED) -> None:
        self._name, self._expected, self._code = name or "an unnamed input", expected, code

    def _wrong(self, found: str) -> TypeError:
        text = f"{self._name}: expected {self._expected}, found {found}"
        return TypeError(self._code.mark(text))


class _Typed(Converter):
    """Makes an argument an array or a matrix of a type."""

    def __init__(self, name: str | None, kind: Kind, rules: Filter, code: Code) -> None:
        super().__init__(name, kind.text, code)
        self._kind, self._rules, self._dtype = kind, rules, np.dtype(kind.dtype)
        self._shape = kind.shape or ()

    def _check_not_strict(self, value: object) -> None:
        if self._rules.strict:
            raise self._wrong(f"{a_class(value)}, and the input is strict")


class _Array(_Typed):
    """As PyTensor's types filter arrays."""

    def __init__(self, name: str | None, kind: Kind, rules: Filter, code: Code) -> None:
        super().__init__(name, kind, rules, code)
        takes_numbers = kind.shape == () and not rules.strict
        self._own_number = self._dtype.type if takes_numbers else None
        self._takes_floats = takes_numbers and self._dtype == np.float64
        self._lowest, self._highest = _exact_integers(self._dtype) if takes_numbers else (1, 0)

    def __call__(self, value: Any) -> Any:
        kind = class_of(value)
        if kind is float and self._takes_floats:
            return np.array(value)
        if kind is int and self._lowest <= value <= self._highest:
            return np.array(value, self._dtype)
        if kind is self._own_number:
            return np.array(value)
        is_one = kind is np.ndarray or kind is ARRAY or isinstance(value, _ARRAYS)
        if kind is np.ma.MaskedArray:
            value = np.asarray(value)  # JAX refuses it; named in docs/same_results.md
        if not is_one or value.dtype != self._dtype:
            value = self._converted(value)
        if value.shape != self._shape and not fits(value.shape, self._shape):
            raise self._wrong(f"an array of shape {value.shape}")
        return value

    def _converted(self, value: Any) -> Any:
        self._check_not_strict(value)
        if _is_symbolic(value):
            raise self._wrong(f"{a_class(value)}, which is symbolic and has no value here")
        dtype = self._dtype
        if self._rules.allow_downcast:
            with self._named(value):
                return np.asarray(value).astype(dtype)
        if isinstance(value, _NUMPY):
            try:
                is_safe = np.result_type(dtype, value.dtype) == dtype
            except TypeError as error:  # of no numbers
                raise self._wrong(f"an array of {value.dtype}") from error
            if not is_safe:
                raise self._wrong(f"an array of {value.dtype}, which would lose precision")
            return np.asarray(value, dtype)
        with self._named(value):
            converted = np.asarray(value, dtype)
        if self._may_round(value):
            return converted
        plain = np.asarray(value)
        if not np.array_equal(plain, converted, equal_nan=plain.dtype.kind in "fc"):
            raise self._wrong(f"{value!r:.80}, which would lose precision")
        return converted

    @contextmanager
    def _named(self, value: object) -> Generator[None, None, None]:
        """Say in NumPy's errors, which keep their kinds, which input the value is for."""
        try:
            yield
        except TypeError as error:
            raise self._wrong(f"{value!r:.80} ({error})") from error
        except (OverflowError, ValueError) as error:
            kind = OverflowError if isinstance(error, OverflowError) else ValueError
            raise kind(*self._wrong(f"{value!r:.80} ({error})").args) from error

    def _may_round(self, value: object) -> bool:
        """Return True if a number may lose digits, or more."""
        if self._rules.allow_downcast is not None:
            return self._rules.allow_downcast
        return isinstance(value, float | np.floating) and self._dtype == self._rules.float_type


def _is_symbolic(value: object) -> bool:
    """Return True for a variable of a graph, which NumPy takes for a sequence."""
    basic = sys.modules.get("pytensor.graph.basic")  # who has one has imported it
    return basic is not None and isinstance(value, basic.Variable)


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
        try:
            number = self._dtype.type(value)
            exact = self._may_round(value) or np.array_equal(value, number, equal_nan=True)
        except Exception as error:  # PyTensor's types of numbers make a TypeError of any
            raise self._wrong(f"{value!r:.80}") from error
        if not exact:
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
        if (
            not self._rules.allow_downcast
            and np.result_type(self._dtype, found.dtype) != self._dtype
        ):
            raise self._wrong(f"a matrix of {found.dtype}, which would lose precision")
        return found.astype(self._dtype)


class _Generator(Converter):
    def __call__(self, value: object) -> np.random.Generator:
        if not isinstance(value, np.random.Generator):
            raise self._wrong(a_class(value))
        return value
