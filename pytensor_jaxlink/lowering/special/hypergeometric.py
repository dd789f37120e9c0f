"""Gauss's hypergeometric function of real numbers.

To 1/2 its series is summed (DLMF 15.2.1).  From there to the singular point 1 the solution of its
differential equation (DLMF 15.10.1) is continued by Taylor series, each of which halves the
distance to 1; this has no special cases where differences of the parameters are integers.  Negative
arguments are moved into this range by Pfaff's transformation (DLMF 15.8.1).  Polynomials are
summed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy import special

from pytensor_jaxlink.lowering.special.pieces import pieces

_MOST_TERMS = 10_000


def _is_pole(value: jax.Array) -> jax.Array:
    """Where a number is 0, -1, -2 and so on."""
    return (value <= 0) & (value == jnp.round(value))


def _series(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The sum of the series and its derivative."""
    precision = jnp.finfo(z.dtype).eps / 8

    def add(loop: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        k, term, total, slope, _, small = loop
        upper = (a + k) * (b + k)
        # A polynomial has ended before the denominator vanishes.
        term = jnp.where((term == 0) | (upper == 0), 0.0, term * upper / ((c + k) * (k + 1)) * z)
        k = k + 1
        moved = k * term
        # Two terms in a row: one may vanish by chance.
        negligible = ~(jnp.abs(moved) > precision * (jnp.abs(total) + jnp.abs(slope)))
        return k, term, total + term, slope + moved, small, negligible

    def goes_on(loop: tuple[jax.Array, ...]) -> jax.Array:
        k, *_, before, small = loop
        return (k < _MOST_TERMS) & ~(before & small).all()

    one, zero, false = jnp.ones_like(z), jnp.zeros_like(z), jnp.zeros(z.shape, bool)
    start = (jnp.zeros((), z.dtype), one, one, zero, false, false)
    _, _, total, slope, *_ = jax.lax.while_loop(goes_on, add, start)
    return total, slope / z


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
    terminates = degree < jnp.inf
    excess = c - a - b
    # Euler's transformation (DLMF 15.8.1): to a polynomial, or to a finite value at 1.
    shorter = (z < 1) & (_is_pole(c - a) | _is_pole(c - b))
    larger = (excess <= -1) & ((z < 1) | (excess == jnp.round(excess)))
    euler = finite & ~terminates & (shorter | larger)
    a, b = jnp.where(euler, c - a, a), jnp.where(euler, c - b, b)
    factor = jnp.where(euler, (1 - z) ** excess, 1.0)
    polynomial = terminates | _is_pole(a) | _is_pole(b)
    # Pfaff's transformation, the one of the two with the parameters that are less negative.
    pfaff = finite & ~polynomial & (z < 0)
    first = jnp.minimum(a, c - b) >= jnp.minimum(b, c - a)
    power = jnp.where(first, a, b)
    factor = jnp.where(pfaff, factor * (1 - z) ** -power, factor)
    a, b = jnp.where(pfaff & ~first, c - a, a), jnp.where(pfaff & first, c - b, b)
    point = jnp.where(pfaff, z / (z - 1), z)
    limit = (degree == -c) & (b == c) & (z >= -1) & (z < 1)
    pole = _is_pole(c) & ~(terminates & ((degree < -c) | limit))
    valid = finite & ~pole
    pairs = (a, 0.5), (b, 0.5), (c, 1.5), (point, 0.25)
    value = pieces(
        (valid & (polynomial | (jnp.abs(point) <= 0.5)), _sum, pairs),
        (valid & (point < 1), _continued, ((a, 0.5), (b, 0.5), (c, 1.5), (point, 0.6))),
        (valid & (point == 1) & (c - a - b > 0), _at_one, pairs),
        (finite, lambda *values: jnp.full_like(values[-1], jnp.inf), pairs),
    )
    return factor * value
