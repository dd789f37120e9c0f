"""Gauss's hypergeometric function of real numbers.

To 1/2 its series is summed (DLMF 15.2.1).  From there to the singular point 1 the solution of its
differential equation (DLMF 15.10.1) is continued by Taylor series, each of which halves the
distance to 1; this has no special cases where differences of the parameters are integers.  Negative
arguments are moved into this range by Pfaff's transformation (DLMF 15.8.1).  Polynomials are
summed.

For large parameters a continuation loses all digits.  A series of positive terms and Euler's
integral do not; where neither applies, the value is NaN, and so it is where a sum cancels.
"""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
from jax.scipy import special

from pytensor_jaxlink.lowering.special.euler_integral import euler_integral
from pytensor_jaxlink.lowering.special.pieces import pieces

_MOST_TERMS = 10_000
_MODERATE = 10
"""Parameters up to this one lose few digits, whatever the method."""
_LOST = 1e-10
"""The relative error of a sum from which on it is no value."""


def _is_pole(value: jax.Array) -> jax.Array:
    """Where a number is 0, -1, -2 and so on."""
    return (value <= 0) & (value == jnp.round(value))


def _are_large(*parameters: jax.Array) -> jax.Array:
    return reduce(jnp.maximum, map(jnp.abs, parameters)) > _MODERATE


def _series(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The sum of the series, NaN where large parameters let it cancel, and its derivative."""
    eps = jnp.finfo(z.dtype).eps
    precision = eps / 8

    def add(loop: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        k, term, total, slope, size, _, small = loop
        upper = (a + k) * (b + k)
        # A polynomial has ended before the denominator vanishes.
        term = jnp.where((term == 0) | (upper == 0), 0.0, term * upper / ((c + k) * (k + 1)) * z)
        k = k + 1
        moved = k * term
        # Two terms in a row: one may vanish by chance.
        negligible = ~(jnp.abs(moved) > precision * (jnp.abs(total) + jnp.abs(slope)))
        size = size + jnp.abs(moved)
        return k, term, total + term, slope + moved, size, small, negligible

    def goes_on(loop: tuple[jax.Array, ...]) -> jax.Array:
        k, *_, before, small = loop
        return (k < _MOST_TERMS) & ~(before & small).all()

    one, zero, false = jnp.ones_like(z), jnp.zeros_like(z), jnp.zeros(z.shape, bool)
    start = (jnp.zeros((), z.dtype), one, one, zero, one, false, false)
    _, _, total, slope, size, _, ended = jax.lax.while_loop(goes_on, add, start)
    # The k-th term has k rounding errors.
    good = (ended & (eps * size <= _LOST * jnp.abs(total))) | jnp.isinf(total)
    return jnp.where(good | ~_are_large(a, b, c), total, jnp.nan), slope / z


def _sum(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> jax.Array:
    return _series(a, b, c, z)[0]


def _continued(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> jax.Array:
    """From 1/2 to arguments between it and 1."""
    precision = jnp.finfo(z.dtype).eps / 8

    def move(loop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
        place, value, slope = loop
        step = jnp.minimum((1 - place) / 2, z - place)
        scale = place * (1 - place)
        linear, constant = 1 - 2 * place, c - (a + b + 1) * place

        def add(inner: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            n, here, following, value, moved, _, small = inner
            # Coefficients of the Taylor series, times powers of the step.
            forward = (n + a) * (n + b) * step * step * here
            forward = forward - (n + 1) * (linear * n + constant) * step * following
            here, following = following, forward / (scale * (n + 1) * (n + 2))
            n = n + 1
            value, moved = value + here, moved + n * here
            negligible = ~(n * jnp.abs(here) > precision * (jnp.abs(value) + jnp.abs(moved)))
            return n, here, following, value, moved, small, negligible

        def counts(inner: tuple[jax.Array, ...]) -> jax.Array:
            n, *_, before, small = inner
            return (n < _MOST_TERMS) & ~(before & small).all()

        false = jnp.zeros(z.shape, bool)
        zero = jnp.zeros((), z.dtype)
        start = (zero, value, slope * step, value, jnp.zeros_like(z), false, false)
        _, _, _, total, moved, *_ = jax.lax.while_loop(counts, add, start)
        going = step > 0
        return (
            place + step,
            jnp.where(going, total, value),
            jnp.where(going, moved / jnp.where(going, step, 1.0), slope),
        )

    half = jnp.full_like(z, 0.5)
    start = (half, *_series(a, b, c, half))
    return jax.lax.while_loop(lambda loop: (loop[0] < z).any(), move, start)[1]


def _at_one(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> jax.Array:
    """Gauss's sum (DLMF 15.4.20)."""
    upper, lower = (c, c - a - b), (c - a, c - b)
    log = sum(map(special.gammaln, upper)) - sum(map(special.gammaln, lower))
    sign = 1.0
    for value in (*upper, *lower):
        sign = sign * special.gammasgn(value)
    return jnp.where(_is_pole(c - a) | _is_pole(c - b), 0.0, sign * jnp.exp(log))


def hyp2f1(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> jax.Array:
    """The hypergeometric function; infinite beyond 1, as in SciPy, unless it is a polynomial."""
    degree = jnp.minimum(jnp.where(_is_pole(a), -a, jnp.inf), jnp.where(_is_pole(b), -b, jnp.inf))
    ends = degree < jnp.inf
    value = _general(a, b, c, jnp.clip(z, jnp.where(ends, -1e150, -jnp.inf), 1e150), degree)
    value = jnp.where(ends & jnp.isinf(z) & (degree > 0), jnp.sign(value) * jnp.inf, value)
    # DLMF 15.4.6, which SciPy takes for the poles of c too.
    confluent = _is_pole(c) & (a == c) & (z >= -1) & (z < 1)
    value = jnp.where(confluent, (1 - z) ** -b, value)
    value = jnp.where((degree == 0) & (c != 0), 1.0, value)
    return jnp.where(z == 0, 1.0, value)


def _general(
    a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array, degree: jax.Array
) -> jax.Array:
    """The function where it is no elementary one; ``degree`` is infinite if it does not end."""
    finite = jnp.isfinite(a) & jnp.isfinite(b) & jnp.isfinite(c) & jnp.isfinite(z)
    large = finite & _are_large(a, b, c)
    # Euler's integral is one of positive numbers for one of the parameters, and for the other one.
    first, second = (a > 0) & (a < c), (b > 0) & (b < c)
    integral = large & (z < 1) & (first | second)
    a, b = jnp.where(integral & ~second, b, a), jnp.where(integral & ~second, a, b)
    growing = large & (z > 0) & (z < 1) & (a > 0) & (b > 0) & (c > 0) & (~integral | (z < 0.9))
    terminates = degree < jnp.inf
    excess = c - a - b
    # Euler's transformation (DLMF 15.8.1): to a polynomial, or to a finite value at 1.
    shorter = (z < 1) & (_is_pole(c - a) | _is_pole(c - b))
    larger = (excess <= -1) & ((z < 1) | (excess == jnp.round(excess)))
    euler = finite & ~terminates & (shorter | larger) & ~integral & ~growing
    a, b = jnp.where(euler, c - a, a), jnp.where(euler, c - b, b)
    factor = jnp.where(euler, (1 - z) ** excess, 1.0)
    polynomial = terminates | _is_pole(a) | _is_pole(b)
    # Pfaff's transformation, the one of the two with the parameters that are less negative.
    pfaff = finite & ~polynomial & (z < 0) & ~integral
    first = jnp.minimum(a, c - b) >= jnp.minimum(b, c - a)
    power = jnp.where(first, a, b)
    factor = jnp.where(pfaff, factor * (1 - z) ** -power, factor)
    a, b = jnp.where(pfaff & ~first, c - a, a), jnp.where(pfaff & first, c - b, b)
    point = jnp.where(pfaff, z / (z - 1), z)
    limit = (degree == -c) & (b == c) & (z >= -1) & (z < 1)
    pole = _is_pole(c) & ~(terminates & ((degree < -c) | limit))
    valid = finite & ~pole
    pairs = (a, 0.5), (b, 0.5), (c, 1.5), (point, 0.25)
    beyond = (a, 0.5), (b, 0.5), (c, 1.5), (point, 0.6)
    summed = growing | (~integral & (polynomial | (jnp.abs(point) <= 0.5)))
    value = pieces(
        (valid & summed, _sum, pairs),
        (valid & integral, euler_integral, beyond),
        (valid & (point < 1) & ~large, _continued, beyond),
        (valid & (point == 1) & (c - a - b > 0), _at_one, pairs),
        (finite & (pole | (point >= 1)), lambda *values: jnp.full_like(values[-1], jnp.inf), pairs),
    )
    return factor * value
