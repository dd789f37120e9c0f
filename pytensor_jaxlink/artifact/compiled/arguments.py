"""Arguments of loaded functions: converted, or refused, as PyTensor's types do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.artifact.signature import Input
from pytensor_jaxlink.catalogue import Code

Convert = Callable[[object], object]


def converter(spec: Input, float_type: str) -> Convert:
    """A function that gives an argument the type of an input.

    Parameters
    ----------
    spec
        The input.
    float_type
        ``floatX`` where the function was saved: Python floats may lose digits to become that.

    Raises
    ------
    TypeError
        From the function, where an argument has another rank or length, or would lose precision.
    """
    match spec.type.kind:
        case "array" | "number":
            return _Array(spec, float_type)
        case "sparse":
            return _Sparse(spec)
        case "generator":
            return _generator
    return lambda value: value


class _Array:
    def __init__(self, spec: Input, float_type: str) -> None:
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
            raise self._wrong(f"{_kind(value)}, and the input is strict")
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

    def _wrong(self, found: str) -> TypeError:
        return _rejection(self._spec, found)


class _Sparse:
    def __init__(self, spec: Input) -> None:
        self._spec = spec

    def __call__(self, value: Any) -> Any:
        from scipy import sparse  # where there are any, it has been imported

        spec, kind = self._spec, self._spec.type
        matrix = getattr(sparse, f"{kind.format}_matrix")
        if isinstance(value, matrix) and value.dtype == kind.dtype:
            return value
        if spec.strict:
            raise self._wrong(f"{_kind(value)}, and the input is strict")
        try:
            found = matrix(value)  # of another format, an array, or dense
        except (TypeError, ValueError) as error:
            raise self._wrong(_kind(value)) from error
        if not spec.allow_downcast and np.result_type(kind.dtype, found.dtype) != kind.dtype:
            raise self._wrong(f"a matrix of {found.dtype}, which would lose precision")
        return found.astype(kind.dtype)

    def _wrong(self, found: str) -> TypeError:
        return _rejection(self._spec, found)


def _generator(value: object) -> np.random.Generator:
    if not isinstance(value, np.random.Generator):
        text = f"expected a numpy.random.Generator, found {_kind(value)}"
        raise TypeError(Code.CALL_OF_LOADED.mark(text))
    return value


def _rejection(spec: Input, found: str) -> TypeError:
    text = f"{spec.name or 'an unnamed input'}: expected {spec.type.text}, found {found}"
    return TypeError(Code.CALL_OF_LOADED.mark(text))


def _kind(value: object) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"
