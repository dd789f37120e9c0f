"""Orders of complex numbers: by the real part, then by the imaginary part, as in NumPy.

JAX compares NaN in one part and goes on to the other; NumPy does not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    common_dtype,
    scalar_function,
)


def _is_less(x: Any, y: Any, *, or_equal: bool = False) -> Any:
    numbers = ~(jnp.isnan(jnp.imag(x)) | jnp.isnan(jnp.imag(y)))
    below = jnp.less_equal if or_equal else jnp.less
    first = (jnp.real(x) < jnp.real(y)) & numbers
    return first | ((jnp.real(x) == jnp.real(y)) & below(jnp.imag(x), jnp.imag(y)))


def _is_greater(x: Any, y: Any, *, or_equal: bool = False) -> Any:
    return _is_less(y, x, or_equal=or_equal)


def _extreme(wins: ScalarFunction, x: Any, y: Any) -> Any:
    """The first of two that are equal; NaN where one is."""
    return jnp.where(wins(x, y, or_equal=True) | jnp.isnan(x), x, y)


_FUNCTIONS: dict[Any, ScalarFunction] = {
    basic.LT: _is_less,
    basic.GT: _is_greater,
    basic.LE: partial(_is_less, or_equal=True),
    basic.GE: partial(_is_greater, or_equal=True),
    basic.Maximum: partial(_extreme, _is_greater),
    basic.Minimum: partial(_extreme, _is_less),
}


def _compare(op: Any, node: Apply) -> ScalarFunction | None:
    return _FUNCTIONS[type(op)] if common_dtype(node).kind == "c" else None


for _kind in _FUNCTIONS:
    scalar_function.register(_kind, _compare)
