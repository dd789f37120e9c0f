"""Special functions, as exact as SciPy's and equal to them at the ends of their domains."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    function_of,
)
from pytensor_jaxlink.lowering.scalars.signs import positive_zero
from pytensor_jaxlink.lowering.special.error_function import erfcx

function_of("I0")(lambda x: _unscaled(special.i0e, x))
function_of("I1")(lambda x: _unscaled(special.i1e, positive_zero(x)))


def _unscaled(scaled: ScalarFunction, x: jax.Array) -> jax.Array:
    size = x * jnp.sign(x)  # unlike that of `abs`, its derivative at 0 is 0
    root = jnp.exp(size / 2)  # its square would overflow before the result does
    return scaled(x) * root * root


@function_of("Owens_t")
def _owens_t(h: jax.Array, a: jax.Array) -> jax.Array:
    h, a = jnp.broadcast_arrays(h, positive_zero(a))
    endless = jnp.isinf(a)
    value = special.owens_t(jnp.where(endless, 1, h), jnp.where(endless, 1, a))
    far = special.erfc(jnp.abs(h) / np.sqrt(2)) / 4  # the whole half plane
    return jnp.where(endless, jnp.copysign(far, a), value)


# Newton's steps for `ndtri_exp`: they converge quadratically from the asymptote, and from -2 on
# nothing is gained after this many (checked against SciPy over the whole range).
_NEWTON_STEPS = 8


@function_of("NdtriExp")
def ndtri_exp(y: jax.Array) -> jax.Array:
    """The inverse of the logarithm of the normal distribution function.

    ``ndtri(exp(y))`` underflows below -745; there the equation ``log_ndtr(x) = y`` is solved.
    """
    y = jnp.asarray(y)
    low = jnp.where(y < -2, y, -2.0)
    # The square is kept from overflowing; for such arguments the first guess is exact.
    x = guess = -jnp.sqrt(2.0) * jnp.sqrt(-low)
    for _ in range(_NEWTON_STEPS):
        scaled = erfcx(-x / np.sqrt(2))  # JAX's `log_ndtr` has three terms of a series for it
        value = jnp.log(scaled / 2) - 0.5 * x**2
        x = x - (value - low) * scaled * np.sqrt(np.pi / 2)
    x = jnp.where(jnp.isfinite(x), x, guess)
    near_zero = -special.ndtri(-jnp.expm1(y))
    middle = special.ndtri(jnp.exp(y))
    return jnp.where(y < -2, x, jnp.where(y > -0.1, near_zero, middle))
