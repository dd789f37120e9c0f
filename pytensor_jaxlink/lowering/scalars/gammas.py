"""The gamma function, its logarithm, derivatives and incomplete integrals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
from jax.scipy import special

from pytensor_jaxlink.lowering.coercion import as_dtype
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction, function_of
from pytensor_jaxlink.lowering.special.distributions import upper_tail_below_one
from pytensor_jaxlink.lowering.special.pieces import pieces

function_of("Psi")(lambda x: jnp.where(x == 0, -jnp.copysign(jnp.inf, x), special.digamma(x)))
function_of("GammaL")(lambda k, x: _not_regularised(gammainc, k, x))
function_of("GammaU")(lambda k, x: _not_regularised(gammaincc, k, x))


@function_of("GammaLn")
def _gammaln(x: jax.Array) -> jax.Array:
    """XLA's formula cancels at its roots, and to what depends on how the loop is vectorised."""
    value = jnp.where(x == -jnp.inf, -jnp.inf, special.gammaln(x))
    left = jnp.where((x == 1) | (x == 2), value, 0)
    return value - jax.lax.stop_gradient(left)  # the slope is not 0 there


@function_of("TriGamma")
def _trigamma(x: jax.Array) -> jax.Array:
    """Reflected at zero: ``jax.scipy.special.polygamma`` is right for positive numbers only."""
    negative, large = x < 0, x > 1e6
    value = special.polygamma(1, jnp.where(negative, 1 - x, jnp.where(large, 1, x)))
    # In float32 polygamma underflows; this is its asymptotic series.
    inverse = 1 / jnp.where(large, x, 1)
    value = jnp.where(large, inverse * (1 + inverse / 2), value)
    sine = jnp.sin(jnp.pi * (x - jnp.round(x)))  # exactly 0 at the poles
    reflected = jnp.where(negative & ~jnp.isinf(x), (jnp.pi / sine) ** 2 - value, value)
    return jnp.where(x == -jnp.inf, jnp.inf, reflected)  # as PyTensor's own formula


@function_of("GammaInc")
def gammainc(a: jax.Array, x: jax.Array) -> jax.Array:
    """The regularised lower incomplete gamma function."""
    near = _is_uniform(a, x)
    far = ~near & _is_step(a, x)
    value = special.gammainc(jnp.where(near | far, 1, a), jnp.where(near | far, 1, x))
    value = jnp.where(near, _uniform(a, x, near, -1), value)
    value = jnp.where((a == 0) & (x > 0), 1, value)
    return jnp.where(far, _step(a, x, -1), value)


@function_of("GammaIncC")
def gammaincc(a: jax.Array, x: jax.Array) -> jax.Array:
    """The regularised upper incomplete gamma function."""
    near = _is_uniform(a, x)
    far = ~near & _is_step(a, x)
    value = special.gammaincc(jnp.where(near | far, 1, a), jnp.where(near | far, 1, x))
    value = jnp.where(near, _uniform(a, x, near, 1), value)
    # JAX subtracts the lower function from 1, which leaves no digits of a small difference.
    small = (a > 0) & (a <= 1) & (x > 0) & (x <= 1)
    value = jnp.where(small, pieces((small, upper_tail_below_one, ((a, 0.5), (x, 0.5)))), value)
    value = jnp.where((a == 0) & (x > 0), 0, value)
    return jnp.where(far, _step(a, x, 1), value)


def _not_regularised(function: ScalarFunction, k: jax.Array, x: jax.Array) -> jax.Array:
    """The product with the gamma function, in double precision as in PyTensor 3.0."""
    wide = as_dtype(k, "float64"), as_dtype(x, "float64")
    value = function(*wide) * special.gamma(wide[0])
    return as_dtype(value, jnp.result_type(k, x, float))


# Of arguments beyond this both functions are 0 or 1, unless the arguments are near each other.
# JAX's series and fraction overflow in float32, and they have no limit for infinities.
_FAR = 1e30


def _is_step(a: jax.Array, x: jax.Array) -> jax.Array:
    return (a >= 0) & (x >= 0) & (jnp.maximum(a, x) >= _FAR)


def _step(a: jax.Array, x: jax.Array, sign: int) -> jax.Array:
    return jnp.where(a == x, jnp.nan, jnp.where(sign * a > sign * x, 1.0, 0.0))


# Where both arguments are large and near each other, JAX's series needs as many terms as the root
# of the argument, and its continued fraction stops after 2,000.  Temme's uniform expansion
# (SIAM J. Math. Anal. 10, 1979; DLMF 8.12) converges there.
_LARGE, _NEAR = 200, 0.3
_ORDERS, _TERMS = 6, 18


def _is_uniform(a: jax.Array, x: jax.Array) -> jax.Array:
    return (a > _LARGE) & (a < jnp.inf) & (jnp.abs(x - a) < _NEAR * a)


def _uniform(a: jax.Array, x: jax.Array, near: jax.Array, sign: int) -> jax.Array:
    """The upper (1) or lower (-1) function; other elements are computed at a harmless place."""
    a, x = jnp.where(near, a, 2.0 * _LARGE), jnp.where(near, x, 2.0 * _LARGE)
    distance = (x - a) / a
    # eta**2 / 2 is distance - log1p(distance), without the cancellation.
    shrink = 1 / (2 + distance)
    ratio = distance * shrink
    series = _polynomial([1 / (2 * n + 3) for n in range(13)], ratio * ratio)
    eta = distance * jnp.sqrt(2 * (shrink - 2 * ratio * shrink * shrink * series))
    correction = _polynomial([_polynomial(row, eta) for row in _coefficients()], 1 / a)
    correction = correction * jnp.exp(-a * eta * eta / 2) / jnp.sqrt(2 * jnp.pi * a)
    return special.erfc(sign * eta * jnp.sqrt(a / 2)) / 2 + sign * correction


def _polynomial(coefficients: Sequence[jax.Array | float], x: jax.Array) -> jax.Array | float:
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


@cache
def _coefficients() -> tuple[tuple[float, ...], ...]:
    """Those of eta**n / a**k, by the recurrence that the expansion satisfies."""
    count = _TERMS + 2 * _ORDERS + 2
    # distance = sum m[n] eta**n solves distance * distance' = eta * (1 + distance).
    m = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        products = sum((m[i] * m[n + 1 - i] for i in range(2, n)), Fraction(0))
        m.append(m[n - 1] / (n + 1) - products / 2)
    # f = eta / distance
    f = [Fraction(1)]
    for n in range(1, count):
        f.append(-sum((m[i + 1] * f[n - i] for i in range(1, n + 1)), Fraction(0)))
    rows = [f[1:]]
    for _ in range(_ORDERS - 1):
        last = rows[-1]
        stirling = -last[1]
        rows.append([(n + 2) * last[n + 2] + stirling * f[n + 1] for n in range(len(last) - 2)])
    return tuple(tuple(float(each) for each in row[:_TERMS]) for row in rows)
