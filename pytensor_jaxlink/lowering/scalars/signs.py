"""Functions that differ from JAX's in the sign of a zero."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    common_dtype,
    function_of,
    scalar_function,
)


@scalar_function.register(basic.Sign)
def _sign(op: object, node: Apply) -> ScalarFunction | None:
    if common_dtype(node).kind == "c":
        return _complex_sign
    if common_dtype(node).kind != "f":
        return None
    return lambda x: jnp.where(x == 0, 0.0, jnp.sign(x))


def _complex_sign(x: jax.Array) -> jax.Array:
    """A number of length 1; of an infinite part only the sign counts."""
    real, imaginary = jnp.real(x), jnp.imag(x)
    endless = jnp.isinf(real) ^ jnp.isinf(imaginary)
    ends = lax.complex(*(jnp.where(jnp.isinf(p), jnp.sign(p), 0.0) for p in (real, imaginary)))
    length = jnp.hypot(real, imaginary)
    unit = lax.complex(real / length, imaginary / length)
    unit = jnp.where(jnp.isnan(real) | jnp.isnan(imaginary), x * jnp.nan, unit)
    return jnp.where(x == 0, jnp.zeros_like(x), jnp.where(endless, ends, unit))


@function_of("RoundHalfAwayFromZero")
def _round_half_away_from_zero(x: jax.Array) -> jax.Array:
    # PyTensor rounds both zeros to the negative one.
    return jnp.where(x == 0, -0.0, jnp.trunc(x + jnp.copysign(0.5, x)))


function_of("Erfinv")(lambda x: lax.erf_inv(positive_zero(x)))


def positive_zero(x: jax.Array) -> jax.Array:
    """The argument with the positive zero for the negative one, and a derivative of 1."""
    return jnp.where(x == 0, x - lax.stop_gradient(x), x)
