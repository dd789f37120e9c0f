"""Bessel functions of the first kind, of real order.

- Small arguments: the power series DLMF 10.2.2.
- Arguments from 25 on that are large beside the square of the order: Hankel's expansion, DLMF
  10.17.3.
- Between them: the recurrence DLMF 10.6.1 from two orders in [0, 2), upward where the order is
  below the argument, downward to negative orders; and from far above the order downward (Miller's
  algorithm, DLMF 3.6(iii)) where it is above the argument, scaled to the values at the two orders.
  These have Hankel's expansion, or, for arguments below 25, Neumann's expansion DLMF 10.23.15.

The recurrences take about as many steps as the order.
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special

from pytensor_jaxlink.lowering.special.pieces import pieces, sum_of_ratios

_HANKEL = 25.0
_HANKEL_TERMS = 24
# Orders above it have a value where one of the two expansions holds, and NaN elsewhere.
_MOST_STEPS = 2.0**22


def _hankel(v: jax.Array, x: jax.Array) -> jax.Array:
    """J_v for large arguments; the phase is reduced before it is subtracted."""
    square = 4 * v * v

    def add(k: jax.Array, loop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
        term, real, imaginary = loop
        k = jnp.asarray(k, x.dtype)
        term = term * (square - (2 * k - 1) ** 2) / (8 * k * x)
        sign = jnp.where(k % 4 < 2, 1.0, -1.0).astype(x.dtype)
        odd = k % 2 == 1
        return (
            term,
            real + jnp.where(odd, 0.0, sign * term),
            imaginary + jnp.where(odd, sign * term, 0.0),
        )

    one, zero = jnp.ones_like(x), jnp.zeros_like(x)
    start = one, one, zero
    _, real, imaginary = jax.lax.fori_loop(1, _HANKEL_TERMS, add, start)
    phase = np.pi / 2 * ((v + 0.5) % 4)
    cosine = jnp.cos(x) * jnp.cos(phase) + jnp.sin(x) * jnp.sin(phase)
    sine = jnp.sin(x) * jnp.cos(phase) - jnp.cos(x) * jnp.sin(phase)
    return np.sqrt(2 / np.pi) / jnp.sqrt(x) * (cosine * real - sine * imaginary)


def _power_series(v: jax.Array, x: jax.Array) -> jax.Array:
    """J_v for small arguments; ``v`` may be negative if it is not an integer."""
    square = -x * x / 4
    total = sum_of_ratios(lambda k: square / (k * (v + k)), 30, x)
    scale = jnp.exp(v * jnp.log(x / 2) - special.gammaln(v + 1))
    return special.gammasgn(v + 1) * scale * total


def _recurred(v: jax.Array, x: jax.Array) -> jax.Array:
    """J_v from orders far above, or from two orders in [0, 2)."""
    whole = jnp.floor(v)
    mu = v - whole
    near = jnp.maximum(x, _HANKEL)
    at_mu, at_one = _hankel(jnp.stack([mu, mu + 1]), jnp.stack([near, near]))
    falls = v > x
    value, low, one = _downward(jnp.where(falls, whole, 0.0), mu, x, falls | (x < _HANKEL))
    # Neumann's expansion gives the factor, or the two orders, which are not both small, give it.
    matched = (low * at_mu + one * at_one) / (low**2 + one**2)
    value = jnp.where(x < _HANKEL, value, value * matched)
    at_mu, at_one = jnp.where(x < _HANKEL, low, at_mu), jnp.where(x < _HANKEL, one, at_one)
    return jnp.where(falls, value, _along(jnp.where(falls, 0.0, whole), mu, x, (at_mu, at_one)))


def _downward(
    whole: jax.Array, mu: jax.Array, x: jax.Array, needed: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """J of the orders ``mu + whole``, ``mu``, and ``mu + 1``; above 25 up to a factor."""
    # There the function is below the rounding of its values at ``v`` and at the turning point.
    highest = jnp.maximum(whole, jnp.ceil(x))
    first = jnp.where(needed, jnp.ceil(highest + 12 * jnp.cbrt(highest) + 45), 1.0)
    # The weights of Neumann's expansion, which belong to the even orders above ``mu``.
    half = jnp.floor(first / 2)
    weight = jnp.exp(special.gammaln(mu + half) - special.gammaln(half + 1))

    def step(loop: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        k, above, here, at_v, norm, weight = loop
        here = jnp.where(k == first, 1.0, here)
        at_v = jnp.where(k == whole, here, at_v)
        even = (k % 2 == 0) & (k <= first)
        norm = norm + jnp.where(even, (mu + k) * weight, 0.0) * here
        weight = jnp.where(even & (k > 2), weight * (k / 2) / (mu + k / 2 - 1), weight)
        below = 2 * (mu + k) / x * here - above
        # Before numbers overflow.
        scale = jnp.where(jnp.abs(below) > 1e100, 1e-100, 1.0).astype(x.dtype)
        return k - 1, here * scale, below * scale, at_v * scale, norm * scale, weight

    zero = jnp.zeros_like(x)
    loop = (first.max(initial=0), zero, zero, zero, zero, weight)
    _, one, low, at_v, norm, _ = jax.lax.while_loop(lambda loop: loop[0] >= 1, step, loop)
    at_v = jnp.where(whole == 0, low, at_v)
    norm = norm + jnp.exp(special.gammaln(mu + 1)) * low
    factor = jnp.where(x < _HANKEL, jnp.exp(mu * jnp.log(x / 2)) / norm, 1.0)
    return at_v * factor, low * factor, one * factor


def _along(
    whole: jax.Array, mu: jax.Array, x: jax.Array, given: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """J of the order ``mu + whole`` below x or below 0, from those of ``mu`` and ``mu + 1``."""
    negative = whole < 0
    at_mu, at_one = given
    side = jnp.where(negative, -1.0, 1.0).astype(x.dtype)
    previous, here = jnp.where(negative, at_one, at_mu), jnp.where(negative, at_mu, at_one)
    start = jnp.where(negative, mu, mu + 1)
    count = jnp.where(negative, -whole, whole - 1)
    last = count.max(initial=0)

    def step(loop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
        k, previous, here = loop
        following = 2 * (start + side * k) / x * here - previous
        goes_on = k < count
        return k + 1, jnp.where(goes_on, here, previous), jnp.where(goes_on, following, here)

    loop = (jnp.zeros((), x.dtype), previous, here)
    _, previous, here = jax.lax.while_loop(lambda loop: loop[0] < last, step, loop)
    return jnp.where(count < 0, previous, here)


def jv(v: jax.Array, x: jax.Array) -> jax.Array:
    """The Bessel function of the first kind."""
    whole = v == jnp.round(v)
    order, distance = jnp.where(whole, jnp.abs(v), v), jnp.abs(x)
    valid = (distance > 0) & (distance < jnp.inf) & ((x > 0) | whole) & (jnp.abs(v) < jnp.inf)
    square = distance * distance
    small = valid & (square < 4 * jnp.maximum(order + 1, 1.0))
    far = valid & (distance >= _HANKEL) & (2 * distance >= order * order)
    counted = valid & (jnp.abs(order) <= _MOST_STEPS)
    safe = (order, 0.5), (distance, 30.0)
    value = pieces(
        (small, _power_series, ((order, 0.5), (distance, 1.0))),
        (far, _hankel, safe),
        (counted, _recurred, safe),
    )
    value = jnp.where((x < 0) & whole & (jnp.abs(v) % 2 == 1), -value, value)
    value = jnp.where(whole & (v < 0) & (order % 2 == 1), -value, value)
    sign = special.gammasgn(jnp.where(v < 0, v, 0.5) + 1)
    at_zero = jnp.where(v == 0, 1.0, jnp.where((v > 0) | whole, 0.0, sign * jnp.inf))
    at_zero = jnp.where(whole & (v < 0) & (order % 2 == 1), -at_zero, at_zero)
    return jnp.where((x == 0) & ~jnp.isnan(v), at_zero, value)


@cache
def _series_below(order: int) -> np.ndarray:
    """Chebyshev's coefficients of ``J_order(x) / x**order`` in ``2 (x / 25)**2 - 1``.

    For order 0 Graf's addition theorem (DLMF 10.23.7) gives them; ``J_1`` is ``-J_0'``.
    """
    k = np.arange(36)
    squares = scipy.special.jv(k, _HANKEL / 2) ** 2
    of_zero = np.where(k == 0, 1, 2) * (-1) ** k * squares
    return -4 / _HANKEL**2 * np.polynomial.chebyshev.chebder(of_zero) if order else of_zero


def _of_order(order: int, x: jax.Array) -> jax.Array:
    """J_0 or J_1."""
    distance = jnp.abs(x)
    table = jnp.asarray(_series_below(order), x.dtype)
    last = len(_series_below(order)) - 1
    # How far Chebyshev's argument is from -1; Reinsch's form of the sum keeps the digits there.
    rise = 2 * jnp.square(jnp.minimum(distance, _HANKEL) / _HANKEL)

    def add(k: jax.Array, pair: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        here, step = pair
        step = table[last - k] + 2 * rise * here - step
        return step - here, step

    zero = jnp.zeros_like(rise)
    here, step = jax.lax.fori_loop(0, last, add, (zero, zero), unroll=5)
    value = table[0] + rise * here - step
    far = _hankel(jnp.full_like(x, order), jnp.clip(distance, _HANKEL, np.finfo(x.dtype).max))
    value = jnp.where(distance < _HANKEL, value * x if order else value, far)
    if order:
        value = jnp.where((distance >= _HANKEL) & (x < 0), -value, value)
    value = jnp.where(x == 0, x if order else 1.0, value)
    return jnp.where(jnp.isinf(x), jnp.nan, value)


def j0(x: jax.Array) -> jax.Array:
    """The Bessel function of the first kind of order 0."""
    return _of_order(0, x)


def j1(x: jax.Array) -> jax.Array:
    """The Bessel function of the first kind of order 1."""
    return _of_order(1, x)
