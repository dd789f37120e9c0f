"""Modified Bessel functions of real order, scaled: ``exp(-|x|) I_v(x)`` and ``exp(x) K_v(x)``.

- Orders from 25 on: the uniform expansions of DLMF 10.41.3 and 10.41.4, with 14 terms.
- K of lower order: for arguments from 1 on the integral DLMF 10.32.9 by the trapezoidal rule, which
  converges exponentially for it (Trefethen and Weideman 2014); for smaller ones Temme's series
  (Temme 1975) at an order in [-1/2, 1/2] and the recurrence DLMF 10.29.1, upward.
- I of lower order: the power series DLMF 10.25.2 for small arguments; otherwise the uniform
  expansion 25 orders above, and the recurrence, downward, in which it is stable.
- Negative orders: DLMF 10.27.1 to 10.27.3.

No part of it has a number of steps that depends on the arguments.  Far above an order or an
argument of 2^30 SciPy gives NaN, and so do these functions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from pytensor_jaxlink.lowering.special.gamma import reciprocal_gamma_parts
from pytensor_jaxlink.lowering.special.pieces import pieces, sum_of_ratios, weighted_sum

_UNIFORM = 25
_UNIFORM_TERMS = 14
_TRAPEZOIDS = 48
# SciPy's library counts in 32-bit integers, and has no digits left beyond half of their range.
_LIMIT = 2.0**30 - 0.5


@cache
def _uniform_polynomials() -> np.ndarray:
    """The polynomials U_k of DLMF 10.41.10 by ``t**k``, by powers of ``t**2``."""
    polynomial = [Fraction(1)]
    found = [polynomial]
    for _ in range(_UNIFORM_TERMS - 1):
        result = [Fraction(0)] * (len(polynomial) + 3)
        for power, factor in enumerate(polynomial):
            # t^2 (1 - t^2) U' / 2, and the integral of (1 - 5 t^2) U / 8.
            result[power + 1] += factor * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            result[power + 3] -= factor * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        polynomial = result
        found.append(polynomial)
    table = np.zeros((_UNIFORM_TERMS, _UNIFORM_TERMS))
    for k, polynomial in enumerate(found):
        table[k, : k + 1] = [float(factor) for factor in polynomial[k::2]]
    return table


def _uniform_sum(order: jax.Array, t: jax.Array, sign: int) -> jax.Array:
    """``sum(U_k(t) (sign / order)**k)``; each U_k is ``t**k`` times a polynomial of ``t**2``."""
    table, square = jnp.asarray(_uniform_polynomials(), t.dtype), t * t

    def add(step: jax.Array, total: jax.Array) -> jax.Array:
        row = table[_UNIFORM_TERMS - 1 - step]
        value = jnp.zeros_like(t)
        for column in range(_UNIFORM_TERMS - 1, -1, -1):
            value = value * square + row[column]
        return total * (sign * t / order) + value

    return jax.lax.fori_loop(0, _UNIFORM_TERMS, add, jnp.zeros_like(t))


def _uniform(sign: int, order: jax.Array, x: jax.Array) -> jax.Array:
    """For large orders: the scaled I for the sign 1, the scaled K for the sign -1."""
    radius = jnp.hypot(order, x)
    quotient = order / x
    # asinh(order / x), without the loss of a small quotient's digits.
    area = jnp.where(
        quotient < 1,
        jnp.log1p(quotient + quotient**2 / (1 + jnp.hypot(1.0, quotient))),
        jnp.log(order + radius) - jnp.log(x),
    )
    exponent = order * (order / (radius + x)) - order * area
    t = order / radius
    scale = 2 * np.pi if sign == 1 else 2 / np.pi
    return jnp.exp(sign * exponent) / jnp.sqrt(scale * radius) * _uniform_sum(order, t, sign)


def _power_series(v: jax.Array, x: jax.Array) -> jax.Array:
    """The scaled I_v for small arguments; ``v`` may be negative if it is not an integer."""
    square = x * x / 4
    total = sum_of_ratios(lambda k: square / (k * (v + k)), 32, x)
    scale = jnp.exp(v * jnp.log(x / 2) - special.gammaln(v + 1) - x)
    return special.gammasgn(v + 1) * scale * total


def _recurred(v: jax.Array, x: jax.Array) -> jax.Array:
    """The scaled I_v for orders from 0 to 25 and arguments that are not small."""
    order = v + _UNIFORM

    def down(k: jax.Array, pair: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        above, here = pair
        return here, above + 2 * (order - k) / x * here

    pair = _uniform(1, order + 1, x), _uniform(1, order, x)
    return jax.lax.fori_loop(0, _UNIFORM, down, pair)[1]


def _trapezoidal_k(v: jax.Array, x: jax.Array) -> jax.Array:
    """The scaled K_v for orders from 0 to 25 and arguments from 1 on."""
    # Around its peak the integrand falls at least as cosh(s) - 1, times this.
    radius = jnp.hypot(v, x)
    end = jnp.arcsinh(v / x) + jnp.arccosh(1 + 45 / radius)
    width = end / _TRAPEZOIDS

    def integrand(k: jax.Array) -> jax.Array:
        t = k * width
        fall = 2 * x * jnp.sinh(t / 2) ** 2
        growth = jnp.exp(v * t)
        return 0.5 * jnp.exp(-fall) * (growth + 1 / growth)

    nodes = np.arange(_TRAPEZOIDS + 1)
    return width * weighted_sum(integrand, nodes, np.where(nodes == 0, 0.5, 1.0), x)


def _temme_k(v: jax.Array, x: jax.Array) -> jax.Array:
    """The scaled K_v for orders from 0 to 25 and arguments to 1."""
    nearest = jnp.round(v)
    mu = v - nearest
    even, odd = reciprocal_gamma_parts(mu)
    plus, minus = even + mu * odd, even - mu * odd  # 1 / gamma(1 + mu), 1 / gamma(1 - mu)
    log = -jnp.log(x / 2)
    sigma = mu * log
    near = jnp.abs(sigma) < 1e-4
    shc = jnp.where(near, 1 + sigma**2 / 6, jnp.sinh(sigma) / jnp.where(near, 1.0, sigma))
    sinc = jnp.sinc(mu)
    f = (jnp.cosh(sigma) * -odd + shc * log * even) / sinc
    p = 0.5 * jnp.exp(sigma) / plus
    q = 0.5 * jnp.exp(-sigma) / minus
    square, one = x * x / 4, jnp.ones_like(x)

    def add(k: jax.Array, loop: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        f, p, q, term, total, raised = loop
        f = (k * f + p + q) / (k * k - mu * mu)
        p, q, term = p / (k - mu), q / (k + mu), term * square / k
        return f, p, q, term, total + term * f, raised + term * (p - k * f)

    *_, total, raised = jax.lax.fori_loop(1, 16, add, (f, p, q, one, f, p))

    def up(k: jax.Array, pair: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        here, above = pair
        following = 2 * (mu + k) / x * above + here
        going = k < nearest
        return jnp.where(going, above, here), jnp.where(going, following, above)

    pair = total, raised * 2 / x
    pair = jax.lax.fori_loop(1, _UNIFORM + 1, up, pair)
    return jnp.exp(x) * jnp.where(nearest == 0, total, pair[1])


def kve(v: jax.Array, x: jax.Array) -> jax.Array:
    """The scaled modified Bessel function of the second kind."""
    order = jnp.abs(v)
    valid = (x > 0) & (x <= _LIMIT) & (order <= _LIMIT)
    value = _second_kind(order, x, valid)
    return jnp.where(x == 0, jnp.inf, value)


def _second_kind(order: jax.Array, x: jax.Array, where: jax.Array) -> jax.Array:
    low = order < _UNIFORM
    return pieces(
        (where & low & (x < 1), _temme_k, ((order, 1.0), (x, 0.5))),
        (where & low, _trapezoidal_k, ((order, 1.0), (x, 1.0))),
        (where, partial(_uniform, -1), ((order, _UNIFORM), (x, 1.0))),
    )


def ive(v: jax.Array, x: jax.Array) -> jax.Array:
    """The scaled modified Bessel function of the first kind."""
    order, distance, whole = jnp.abs(v), jnp.abs(x), v == jnp.round(v)
    valid = (distance > 0) & (distance <= _LIMIT) & (order <= _LIMIT) & ((x > 0) | whole)
    reflected = valid & (v < 0) & ~whole
    series = reflected & (distance < 2) & (order < _UNIFORM)
    low = valid & (order < _UNIFORM)
    value = pieces(
        (series, _power_series, ((v, 0.5), (distance, 1.0))),
        (low & (x * x < 20 * (order + 1)), _power_series, ((order, 0.5), (distance, 1.0))),
        (low, _recurred, ((order, 0.5), (distance, 20.0))),
        (valid, partial(_uniform, 1), ((order, _UNIFORM), (distance, 1.0))),
    )
    reflected &= ~series
    other = jnp.exp(-2 * distance) * _second_kind(order, distance, reflected)
    value = jnp.where(reflected, value + 2 / np.pi * _sine_of_pi(order) * other, value)
    # SciPy's library gives no infinities here.
    value = jnp.where(jnp.isinf(value), jnp.nan, value)
    value = jnp.where((x < 0) & whole & (order % 2 == 1), -value, value)
    at_zero = jnp.where(v == 0, 1.0, jnp.where((v > 0) | whole, 0.0, jnp.nan))
    return jnp.where((x == 0) & (order <= _LIMIT), at_zero, value)


def _sine_of_pi(value: jax.Array) -> jax.Array:
    """``sin(pi value)``, exactly 0 at the integers."""
    nearest = jnp.round(value)
    sine = jnp.sin(np.pi * (value - nearest))
    return jnp.where(nearest % 2 == 0, sine, -sine)
