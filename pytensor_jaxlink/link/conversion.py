"""Tests of values against the types that a function declares: in calls, and while JAX traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.link.basic import Container
from pytensor.sparse.type import SparseTensorType

from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.runtime import ARRAY, accepts_array
from pytensor_jaxlink.sparse_values import accepts_sparse


def converter(container: Container) -> Callable[[Any], Any]:
    """A function that gives a value as it goes to the device, or None where PyTensor must look."""
    kind = container.type
    if not isinstance(kind, ArrayType):
        return lambda value: None
    dtype, ndim = np.dtype(kind.dtype), kind.ndim
    fixed = [(axis, length) for axis, length in enumerate(kind.shape) if length is not None]
    lowest, highest = 1, 0  # no Python integers
    if ndim == 0 and dtype.kind in "iu" and not container.strict:
        lowest, highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    takes_float = ndim == 0 and dtype == np.float64 and not container.strict

    def convert(value: Any) -> Any:
        if type(value) is int and lowest <= value <= highest:
            return np.array(value, dtype)
        if takes_float and type(value) is float:
            return np.array(value)
        if type(value) is not np.ndarray and type(value) is not ARRAY:
            return None
        if value.dtype != dtype or value.ndim != ndim:
            return None
        if fixed and any(value.shape[axis] != length for axis, length in fixed):
            return None
        return value

    return convert


def accepts(value: Any, kind: Any) -> bool:
    """Return True if a value that JAX traces has a type, in the types that JAX now has."""
    if isinstance(kind, SparseTensorType):
        return accepts_sparse(value, kind.dtype, kind.format, kind.shape)
    return isinstance(kind, ArrayType) and accepts_array(value, kind.dtype, kind.shape)
