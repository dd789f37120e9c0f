"""Quotients of quotients; floor division and its remainder, as NumPy rounds and signs them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.scalars.opaque import hiding
from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    common_dtype,
    constant_of,
    integer_dtype,
    scalar_function,
)


@scalar_function.register(basic.TrueDiv)
def _true_div(op: object, node: Apply) -> ScalarFunction | None:
    return hiding(jnp.true_divide, node, basic.TrueDiv)


@scalar_function.register(basic.IntDiv)
def _int_div(op: object, node: Apply) -> ScalarFunction:
    if common_dtype(node).kind == "f":
        return hiding(_floor_divide, node, basic.TrueDiv) or _floor_divide
    result = integer_dtype(node)
    divisor = constant_of(node.inputs[1])
    if divisor is not None and bool(np.all(divisor)):
        return lambda x, y: jnp.floor_divide(jnp.asarray(x, result), jnp.asarray(y, result))

    def divide(x: jax.Array, y: jax.Array) -> jax.Array:
        x, y = jnp.asarray(x, result), jnp.asarray(y, result)
        return jnp.where(y == 0, jnp.zeros((), result), jnp.floor_divide(x, y))

    return divide


@scalar_function.register(basic.Mod)
def _mod(op: object, node: Apply) -> ScalarFunction:
    if common_dtype(node).kind == "f":
        return _remainder
    result = integer_dtype(node)
    return lambda x, y: jnp.remainder(jnp.asarray(x, result), jnp.asarray(y, result))


def _floor_divide(x: jax.Array, y: jax.Array) -> jax.Array:
    """Piecewise constant, so it has no derivative: neither has its formula."""
    x, y = lax.stop_gradient(x), lax.stop_gradient(y)
    left = jnp.fmod(x, y)
    whole = (x - left) / y  # nearly an integer
    across = (left != 0) & ((left < 0) != (y < 0))
    whole = jnp.round(jnp.where(across, whole - 1, whole))
    quotient = x / y
    whole = jnp.where(whole == 0, 0 * quotient, whole)  # cheaper than `copysign`
    return jnp.where(y == 0, quotient, whole)


@jax.custom_jvp
def _remainder(x: jax.Array, y: jax.Array) -> jax.Array:
    left, below = jnp.fmod(x, y), y < 0
    across = (left != 0) & ((left < 0) != below)
    size = jnp.abs(left)
    return jnp.where(across, left + y, jnp.where(below, -size, size))  # a zero has the sign of y


@_remainder.defjvp
def _remainder_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    x, y = primals
    left = _remainder(x, y)
    slope = -_floor_divide(x, y)
    moved = tangents[0] + slope * tangents[1]
    return left, moved.astype(left.dtype)
