"""Tails of the gamma and the beta distribution, and their inverses.

Both distributions are looked at on a scale on which their density is log-concave: the logarithm of
a gamma variable, the log-odds of a beta variable.  There the logarithm of a tail is concave too, so
Newton's method for it converges from any side of the root.  A tail is computed as its ratio to the
density, ``R = F / f``.  It is the integral of ``exp(-D(s))`` over the distance ``s`` from the
point, where the fall ``D`` of the logarithm of the density is convex; and Gauss-Legendre's rule is
exact to rounding for it, whatever the parameters, once the range ends where ``exp(-D)`` is
negligible.  No step count depends on the parameters.  Small parameters, for which the integrand has
two scales, are raised by recurrences with positive terms (DLMF 8.8.7 and 8.17.21), or have
convergent series (DLMF 8.7.3 and 8.17.7).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from pytensor_jaxlink.lowering.special.gamma import gammaln1p, stirling_rest
from pytensor_jaxlink.lowering.special.pieces import pieces, weighted_sum

# An integrand is cut off where it is below exp(-DEPTH) of its largest value.
DEPTH = 40.0
_NODES = 40
# From here on the integrand of a lower tail has one scale.
_RAISED = 10
_STEPS = 60

Loop = tuple[jax.Array | int, jax.Array, jax.Array]
"""How many steps were made, the points, and where the search has ended."""


def _log_ratio(value: jax.Array, mean: jax.Array) -> jax.Array:
    """``log(value / mean)``, exact where the two are close."""
    near = jnp.abs(value - mean) < 0.5 * mean
    return jnp.where(
        near,
        jnp.log1p(jnp.where(near, value - mean, 0.0) / mean),
        jnp.log(value) - jnp.log(mean),
    )


def _integral(fall: Callable[[jax.Array], jax.Array], reach: jax.Array) -> jax.Array:
    """The integral of ``exp(-fall(s))`` from 0 to ``reach``."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return reach * weighted_sum(
        lambda place: jnp.exp(-fall(reach * place)), (nodes + 1) / 2, weights / 2, reach
    )


def _reach(
    fall: Callable[[jax.Array], tuple[jax.Array, jax.Array]], beyond: jax.Array
) -> jax.Array:
    """A distance at which a convex fall is about `DEPTH`, by Newton's method from above."""

    def step(loop: Loop) -> Loop:
        count, s, _ = loop
        height, slope = fall(s)
        better = s - (height - DEPTH) / slope
        far = (height > 1.25 * DEPTH) & (better > 0) & (better < s)
        return count + 1, jnp.where(far, better, s), ~far

    return _until_done(step, beyond)


def _until_done(step: Callable[[Loop], Loop], start: jax.Array) -> jax.Array:
    def goes_on(loop: Loop) -> jax.Array:
        return (loop[0] < _STEPS) & ~loop[2].all()

    return jax.lax.while_loop(goes_on, step, (0, start, jnp.zeros(start.shape, bool)))[1]


def log_gamma_density(a: jax.Array, x: jax.Array) -> jax.Array:
    """Logarithm of the density of ``log X``, where X has the gamma distribution."""
    rest = 0.5 * jnp.log(a / (2 * np.pi)) - stirling_rest(a)
    return a * _log_ratio(x, a) - (x - a) + rest


def lower_gamma(a: jax.Array, x: jax.Array) -> jax.Array:
    """Ratio of the lower tail to the density of ``log X`` (DLMF 8.8.7)."""
    total, scale, raised = _raise(lambda k: x / (a + k), a)

    def fall(s: jax.Array) -> jax.Array:
        return raised * s + x * jnp.expm1(-s)

    def with_slope(s: jax.Array) -> tuple[jax.Array, jax.Array]:
        return fall(s), raised - x * jnp.exp(-s)

    return total + scale * _integral(fall, _reach(with_slope, (DEPTH + x) / raised))


def _raise(
    ratio: Callable[[jax.Array], jax.Array], a: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The term that raising a small first parameter adds, the ratio of densities, the parameter.

    The argument is the ratio of the densities of one step.
    """
    raised = a < _RAISED

    def add(k: jax.Array, loop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        total, scale = loop
        k = jnp.asarray(k, a.dtype)
        return total + scale / (a + k), scale * ratio(k)

    total, scale = jax.lax.fori_loop(0, _RAISED, add, (jnp.zeros_like(a), jnp.ones_like(a)))
    total, scale = jnp.where(raised, total, 0.0), jnp.where(raised, scale, 1.0)
    return total, scale, jnp.where(raised, a + _RAISED, a)


def upper_gamma(a: jax.Array, x: jax.Array) -> jax.Array:
    """Ratio of the upper tail to the density of ``log X``."""

    def fall(s: jax.Array) -> jax.Array:
        return x * jnp.expm1(s) - a * s

    def with_slope(s: jax.Array) -> tuple[jax.Array, jax.Array]:
        return fall(s), x * jnp.exp(s) - a

    # (x - a) s + x s^2 / 2 is below the fall.
    excess = x - a
    beyond = 2 * DEPTH / (excess + jnp.sqrt(excess**2 + 2 * x * DEPTH))
    return _integral(fall, _reach(with_slope, beyond))


def _upper_gamma_below_one(a: jax.Array, x: jax.Array) -> jax.Array:
    """The same where both are below 1."""
    return upper_tail_below_one(a, x) / jnp.exp(log_gamma_density(a, x))


def upper_tail_below_one(a: jax.Array, x: jax.Array) -> jax.Array:
    """The upper tail of a gamma variable where both arguments are at most 1 (DLMF 8.7.3)."""
    series = _series(lambda n: -x / n, a, 20, x)
    return _complement(gammaln1p(a), a, jnp.log(x), series)


def _complement(
    log_scale: jax.Array, a: jax.Array, log_x: jax.Array, series: jax.Array
) -> jax.Array:
    """``1 - exp(a log_x - log_scale) (1 + a series)``, exact where the difference is small."""
    return -jnp.expm1(a * log_x - log_scale + jnp.log1p(a * series))


def solve(
    tail: Callable[[jax.Array], tuple[jax.Array, jax.Array, jax.Array]],
    target: jax.Array,
    start: jax.Array,
    decreasing: jax.Array,
) -> jax.Array:
    """Where the logarithm of a tail is the logarithm of ``target``, by Halley's method.

    Parameters
    ----------
    tail
        The logarithm of the density, the slope of that logarithm, and the ratio of the tail to the
        density at a point.
    target, start
        The tails, and where to begin.
    decreasing
        Where the tail is an upper one.
    """
    sign = jnp.where(decreasing, -1.0, 1.0).astype(start.dtype)
    goal = jnp.log(target)
    tolerance = 1e-6 if start.dtype == np.float64 else 1e-3

    def body(loop: Loop) -> Loop:
        step, u, _ = loop
        log_density, slope, ratio = tail(u)
        rate = 1 / ratio
        newton = (log_density + jnp.log(ratio) - goal) * ratio
        curvature = sign * slope - rate
        change = newton / jnp.clip(1 - 0.5 * newton * curvature, 0.5, 2.0)
        # Where a tail is flat the steps would leave all numbers.
        bound = 1 + jnp.abs(u)
        change = jnp.clip(change, -bound, bound)
        done = ~(jnp.abs(change) * (1 + rate) > tolerance)
        change = jnp.where(jnp.isfinite(change), change, 0.0)
        return step + 1, u - sign * change, done

    return _until_done(body, start)


def inverse_gamma(a: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """Where the tails of a gamma distribution are ``p`` and ``q``, which are complements."""
    valid = (a > 0) & (a < jnp.inf) & (p > 0) & (q > 0)
    # Below all numbers, where the first term of the power series has only that term left.
    tiny = valid & (_log_lower_bound(a, p, q) < np.log(np.finfo(a.dtype).tiny))
    # Where a step of the search is less than the last digit, and Wilson and Hilferty's is exact.
    huge = valid & (a > 1e13)
    solved = valid & ~tiny & ~huge
    last = a * _wilson_hilferty(a, p, q) ** 3
    a, p, q = (jnp.where(solved, v, 0.5) for v in (a, p, q))
    upper = p > 0.5

    def tail(u: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        x = jnp.exp(u)
        pairs = (a, 0.5), (x, 0.5)
        ratio = pieces(
            (upper & (a < 1) & (x < 1), _upper_gamma_below_one, pairs),
            (upper, upper_gamma, pairs),
            (~upper, lower_gamma, pairs),
        )
        return log_gamma_density(a, x), a - x, ratio

    u = solve(tail, jnp.where(upper, q, p), _gamma_guess(a, p, q), upper)
    value = jnp.where(huge, last, jnp.where(tiny, 0.0, jnp.exp(u)))
    return jnp.where(valid, value, jnp.nan)


def _gamma_guess(a: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    power = _log_lower_bound(a, p, q)
    cubed = jnp.log(a) + 3 * jnp.log(jnp.maximum(_wilson_hilferty(a, p, q), 1e-10))
    tail = -jnp.log(q) - special.gammaln(a)
    tail = jnp.log(jnp.maximum(tail - (1 - a) * jnp.log(jnp.maximum(tail, 1.0)), 1e-300))
    small = jnp.where(tail > 0, tail, power)
    return jnp.where(a < 1, small, jnp.maximum(cubed, power))


def _log_lower_bound(a: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """From the first term of the power series."""
    return (jnp.where(p > 0.5, jnp.log1p(-q), jnp.log(p)) + gammaln1p(a)) / a


def _wilson_hilferty(a: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """The cube root of a gamma variable by its mean is nearly normal (Wilson, Hilferty 1931)."""
    normal = jnp.where(p < 0.5, special.ndtri(p), -special.ndtri(q))
    return 1 - 1 / (9 * a) + normal / (3 * jnp.sqrt(a))


def log_beta_density(a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    """Logarithm of the density of the log-odds ``u`` of a variable with the beta distribution."""
    total = a + b
    x, y = jax.nn.sigmoid(u), jax.nn.sigmoid(-u)
    mean, other = a / total, b / total
    # One difference for both, the one that is exact, so that what is linear in it cancels.
    excess = jnp.where(u < 0, x - mean, other - y)
    log_x, log_y = -jax.nn.softplus(-u), -jax.nn.softplus(u)

    def part(
        weight: jax.Array, change: jax.Array, value: jax.Array, middle: jax.Array
    ) -> jax.Array:
        near = jnp.abs(change) < 0.5 * middle
        close = jnp.log1p(jnp.where(near, change, 0.0) / middle)
        return weight * jnp.where(near, close, value - jnp.log(middle))

    rest = stirling_rest(total) - stirling_rest(a) - stirling_rest(b)
    scale = 0.5 * (jnp.log(mean) + jnp.log(b) - np.log(2 * np.pi))
    return part(a, excess, log_x, mean) + part(b, -excess, log_y, other) + scale + rest


def lower_beta(a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    """Ratio of the lower tail to the density of the log-odds ``u``."""
    y = jax.nn.sigmoid(-u)
    late = (b < 1) & (y < 0.5) & (y * (a + 1) < 1)
    pairs = (a, 0.5), (b, 0.5), (u, 0.0)
    return pieces((late, _lower_beta_near_one, pairs), (~late, _lower_beta, pairs))


def _lower_beta_near_one(a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    """From the upper tail, for ``b`` below 1 and points near 1 (DLMF 8.17.7)."""
    y = jax.nn.sigmoid(-u)
    series = _series(lambda n: y * (n - a) / n, b, 50, y)
    scale = gammaln1p(b) + _log_gamma_fall(a, b)
    tail = _complement(scale, b, -jax.nn.softplus(u), series)
    return tail / jnp.exp(log_beta_density(a, b, u))


def _lower_beta(a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    """By raising the first parameter (DLMF 8.17.21) and integration."""
    x = jax.nn.sigmoid(u)
    total, scale, raised = _raise(lambda k: x * (a + b + k) / (a + k), a)
    both = raised + b
    beyond = (DEPTH + both * jax.nn.softplus(u)) / raised
    # The fall in two ways, of which one does not cancel.
    right = (u > 0) & (beyond < 500)
    linear, side = jnp.where(right, -b, raised), jnp.where(right, -1.0, 1.0)
    part = jax.nn.sigmoid(side * u)

    def fall(s: jax.Array) -> jax.Array:
        return linear * s + both * jnp.log1p(part * jnp.expm1(-side * s))

    def with_slope(s: jax.Array) -> tuple[jax.Array, jax.Array]:
        return fall(s), linear - side * both * jax.nn.sigmoid(side * (u - s))

    return total + scale * _integral(fall, _reach(with_slope, beyond))


def _log_gamma_fall(a: jax.Array, b: jax.Array) -> jax.Array:
    """``gammaln(a) - gammaln(a + b)`` for small ``b``, without the cancellation."""
    power = b - (a - 0.5) * jnp.log1p(b / a) - b * jnp.log(a + b)
    large = power + stirling_rest(a) - stirling_rest(a + b)
    difference = special.gammaln(a) - special.gammaln(a + b)
    slope = jnp.where(b < 1e-5 * a, -b * special.digamma(a + b / 2), difference)
    return jnp.where(a > 10, large, slope)


def _series(
    ratio: Callable[[jax.Array], jax.Array], parameter: jax.Array, count: int, like: jax.Array
) -> jax.Array:
    """The sum of ``ratio(1) ... ratio(n) / (parameter + n)``."""

    def add(n: jax.Array, loop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        term, total = loop
        n = jnp.asarray(n, like.dtype)
        term = term * ratio(n)
        return term, total + term / (parameter + n)

    start = jnp.ones_like(like), jnp.zeros_like(like)
    return jax.lax.fori_loop(1, count, add, start)[1]


def inverse_beta(a: jax.Array, b: jax.Array, p: jax.Array) -> jax.Array:
    """Where the lower tail of a beta distribution is ``p``."""
    valid = (a > 0) & (a < jnp.inf) & (b > 0) & (b < jnp.inf) & (p > 0) & (p < 1)
    a, b, p = (jnp.where(valid, v, 0.5) for v in (a, b, p))
    upper = p > 0.5
    first, second = jnp.where(upper, b, a), jnp.where(upper, a, b)
    target = jnp.where(upper, 1 - p, p)

    def tail(u: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        slope = first * jax.nn.sigmoid(-u) - second * jax.nn.sigmoid(u)
        return log_beta_density(first, second, u), slope, lower_beta(first, second, u)

    start = _beta_guess(first, second, target)
    u = solve(tail, target, start, jnp.zeros(start.shape, bool))
    x = jnp.where(upper, jax.nn.sigmoid(-u), jax.nn.sigmoid(u))
    return jnp.where(valid, x, jnp.nan)


def _beta_guess(a: jax.Array, b: jax.Array, p: jax.Array) -> jax.Array:
    """Log-odds: Abramowitz and Stegun 26.5.22, or the powers at both ends."""
    normal = -special.ndtri(p)
    mean = (normal**2 - 3) / 6
    first, second = 1 / (2 * jnp.maximum(a, 1) - 1), 1 / (2 * jnp.maximum(b, 1) - 1)
    h = 2 / (first + second)
    w = normal * jnp.sqrt(jnp.maximum(h + mean, 0.0)) / h
    w = w - (second - first) * (mean + 5 / 6 - 2 / (3 * h))
    log_a, log_b = -jnp.log1p(b / a), -jnp.log1p(a / b)
    low, high = jnp.exp(a * log_a) / a, jnp.exp(b * log_b) / b
    both = low + high
    left = jnp.minimum(jnp.log(a * both * p) / a, -1e-3)
    right = jnp.minimum(jnp.log(b * both * (1 - p)) / b, -1e-3)
    ends = jnp.where(
        p < low / both, left - jnp.log1p(-jnp.exp(left)), jnp.log1p(-jnp.exp(right)) - right
    )
    normal_guess = jnp.log(a / b) - 2 * w
    return jnp.where((a >= 1) & (b >= 1) & (h + mean > 0), normal_guess, ends)
