"""Sums, products, exponentials and complex numbers."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import plus_zero
from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    function_of,
    scalar_function,
)
from pytensor_jaxlink.ops import is_zero_elsewhere


def _chained(plain: ScalarFunction, broadcasting: ScalarFunction, *values: jax.Array) -> jax.Array:
    """An operation of two numbers on any number of arrays; the plain one is traced faster."""
    result = values[0]
    for value in values[1:]:
        same = np.shape(result) == np.shape(value) and _plain_dtype(result) == _plain_dtype(value)
        result = plain(result, value) if same else broadcasting(result, value)
    return result


def _plain_dtype(value: jax.Array) -> object:
    """The dtype; nothing is equal to that of a boolean, whose sum is no sum."""
    dtype = getattr(value, "dtype", None)
    return object() if dtype in (None, np.dtype("bool")) else dtype


_sum = partial(_chained, lax.add, jnp.add)


@scalar_function.register(basic.Add)
def _add(op: basic.Add, node: Apply) -> ScalarFunction:
    if not any(map(is_zero_elsewhere, node.inputs)):
        return _sum
    return lambda *values: plus_zero(_sum(*values))


function_of("Mul")(partial(_chained, lax.mul, jnp.multiply))


@function_of("Softplus")
def _softplus(x: jax.Array) -> jax.Array:
    """With one exponential; PyTensor's, by cases, computes three, and XLA all cases."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


# XLA takes these three from one exponential of the whole argument, and an argument near the end of
# the range, rounded once, costs the last two digits of a float32.


@function_of("Exp2")
def _exp2(x: jax.Array) -> jax.Array:
    if jnp.iscomplexobj(x):
        return jnp.exp2(x)
    whole = jnp.round(x)
    exponent = jnp.clip(jnp.nan_to_num(whole), -3000, 3000).astype("int32")
    exact = jnp.ldexp(jnp.exp2(x - whole), exponent)
    return jnp.where(jnp.isinf(x), jnp.exp2(x), exact)


@function_of("Sinh")
def _sinh(x: jax.Array) -> jax.Array:
    if jnp.iscomplexobj(x):
        return jnp.sinh(x)
    root = jnp.exp(jnp.abs(x) / 2)  # its square would overflow before the result does
    large = jnp.sign(x) * (root / 2 * root - 0.5 / root / root)
    return jnp.where(jnp.abs(x) < 1, jnp.sinh(x), large)


@function_of("Cosh")
def _cosh(x: jax.Array) -> jax.Array:
    if jnp.iscomplexobj(x):
        return jnp.cosh(x)
    root = jnp.exp(jnp.abs(x) / 2)
    return root / 2 * root + 0.5 / root / root


# Integers come in the declared type, which is complex.
function_of("Complex")(lambda x, y: lax.complex(jnp.real(x), jnp.real(y)))


@function_of("ComplexFromPolar")
def _complex_from_polar(radius: jax.Array, angle: jax.Array) -> jax.Array:
    require(~(radius < 0))  # PyTensor raises
    return lax.complex(radius * jnp.cos(angle), radius * jnp.sin(angle))
