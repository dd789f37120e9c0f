"""The arguments of pure functions, of graphs that were built here and of loaded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.runtime.typed_jax import Tracer
from pytensor_jaxlink.trees import a_class


def as_one_array(value: object) -> object:
    """A sequence of numbers of which JAX traces some as the vector that it stands for."""
    numbers: Any = value
    if type(value) in (tuple, list) and any(isinstance(n, Tracer) for n in numbers):
        return jax.numpy.stack(numbers)
    return value


def check_argument(
    value: object, dtype: str, shape: Sequence[int | None], name: str, expected: str
) -> None:
    """Raise `TypeError` for an argument that PyTensor would not take, whatever its precision.

    A graph for vectors may have a value for a matrix, and it would be the wrong one.
    """
    array: Any = value if isinstance(value, jax.Array) else np.asarray(value)
    fits = len(array.shape) == len(shape) and all(
        length is None or not isinstance(found, int) or found == length
        for found, length in zip(array.shape, shape, strict=True)
    )
    if not fits:
        found = f"an array of shape {array.shape}" if hasattr(value, "shape") else a_class(value)
    elif np.dtype(array.dtype).kind == "c" and not dtype.startswith("complex"):
        found = "complex numbers"
    else:
        return
    raise TypeError(Code.CALL_OF_PURE.mark(f"{name}: expected {expected}, found {found}"))
