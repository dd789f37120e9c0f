"""Samplers for distributions that PyTensor has no JAX sampler for, or one that is wrong.

Distributions are found by the name of their class and of the package that defines it, so that
those of PyMC are known without importing PyMC.  A sampler takes a key, the shape and dtype of the
draws, and the parameters in the order of the distribution's own ``rng_fn``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.coercion import canonical_dtype
from pytensor_jaxlink.lowering.domains import by_name, possible_draw
from pytensor_jaxlink.lowering.rejection import (
    Shape,
    accepted,
    binomial,
    gamma,
    log_gamma,
    poisson,
)
from pytensor_jaxlink.lowering.scalars import ndtri_exp
from pytensor_jaxlink.lowering.streams import (
    exponential,
    fork,
    integers,
    next_round,
    normal,
    normal_of,
    real_of,
    uniform,
    uniforms,
    wide,
)

Sampler = Callable[..., jax.Array]


def sampler_of(op: RandomVariable) -> Sampler | None:
    """Our sampler for a distribution, or None; one that somebody has registered goes first."""
    registered = jax_sample_fn.dispatch(type(op))
    if not registered.__module__.startswith("pytensor."):
        return None
    return by_name(_SAMPLERS, op)


# -- samplers --------------------------------------------------------------------------------------


def _scaled(draw: Callable[..., jax.Array]) -> Sampler:
    """The sampler of a family with location and scale, from its standard draws."""

    def scaled(
        key: jax.Array, shape: Shape, dtype: str, loc: jax.Array, scale: jax.Array
    ) -> jax.Array:
        return loc + scale * draw(key, shape, real_of(dtype))

    return scaled


def _cauchy(key: jax.Array, shape: Shape, kind: np.dtype) -> jax.Array:
    return jnp.tan(jnp.pi * (uniform(key, shape, kind) - 0.5))


def _gumbel(key: jax.Array, shape: Shape, kind: np.dtype) -> jax.Array:
    return -jnp.log(exponential(key, shape, kind))


def _laplace(key: jax.Array, shape: Shape, kind: np.dtype) -> jax.Array:
    centred = 2 * uniform(key, shape, kind) - 1
    return -jnp.sign(centred) * jnp.log1p(-jnp.abs(centred))


def _logistic(key: jax.Array, shape: Shape, kind: np.dtype) -> jax.Array:
    drawn = uniform(key, shape, kind)
    return jnp.log(drawn) - jnp.log1p(-drawn)


def _uniform(
    key: jax.Array, shape: Shape, dtype: str, low: jax.Array, high: jax.Array
) -> jax.Array:
    low, high = (jnp.asarray(bound, real_of(dtype)) for bound in (low, high))
    return low + (high - low) * uniform(key, shape, real_of(dtype))


def _bernoulli(key: jax.Array, shape: Shape, dtype: str, p: jax.Array) -> jax.Array:
    return uniform(key, shape, wide()) < p


def _exponential(key: jax.Array, shape: Shape, dtype: str, scale: jax.Array) -> jax.Array:
    return scale * exponential(key, shape, real_of(dtype))


def _pareto(key: jax.Array, shape: Shape, dtype: str, b: jax.Array, scale: jax.Array) -> jax.Array:
    return scale * jnp.exp(exponential(key, shape, real_of(dtype)) / b)


def _weibull(key: jax.Array, shape: Shape, dtype: str, concentration: jax.Array) -> jax.Array:
    concentration = jnp.asarray(concentration, real_of(dtype))
    draws = exponential(key, shape, real_of(dtype)) ** (1 / concentration)
    return jnp.where(concentration == 0, jnp.zeros((), draws.dtype), draws)


def _gamma(
    key: jax.Array, shape: Shape, dtype: str, alpha: jax.Array, scale: jax.Array
) -> jax.Array:
    return scale * gamma(key, shape, alpha, real_of(dtype))


def _beta(key: jax.Array, shape: Shape, dtype: str, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    """The share of one gamma variable in the sum of two; of an infinite one it is NaN."""
    kind = real_of(dtype)
    both = jnp.stack([jnp.broadcast_to(jnp.asarray(each, kind), shape) for each in (alpha, beta)])
    first, second = log_gamma(key, (2, *shape), both, kind)
    first = jnp.where(jnp.isinf(both[0]), jnp.nan, first)
    return 1 / (1 + jnp.exp(second - first))


def _dirichlet(key: jax.Array, shape: Shape, dtype: str, alpha: jax.Array) -> jax.Array:
    """Beside an infinite concentration the finite ones have nothing."""
    kind = real_of(dtype)
    alpha = jnp.asarray(alpha, kind)
    draws = jax.nn.softmax(log_gamma(key, (*shape, alpha.shape[-1]), alpha, kind), axis=-1)
    none = jnp.isinf(alpha.sum(axis=-1, keepdims=True)) & jnp.isfinite(alpha)
    return jnp.where(none, jnp.zeros((), kind), draws)


def _student_t(
    key: jax.Array, shape: Shape, dtype: str, df: jax.Array, loc: jax.Array, scale: jax.Array
) -> jax.Array:
    """A normal variable over the root of a gamma variable of which the mean is 1."""
    kind = real_of(dtype)
    half = jnp.asarray(df, kind) / 2
    return loc + scale * normal(fork(key), shape, kind) / jnp.sqrt(
        gamma(key, shape, half, kind) / half
    )


def _half_normal(
    key: jax.Array, shape: Shape, dtype: str, loc: jax.Array, scale: jax.Array
) -> jax.Array:
    return loc + scale * jnp.abs(normal(key, shape, real_of(dtype)))


def _half_cauchy(
    key: jax.Array, shape: Shape, dtype: str, loc: jax.Array, scale: jax.Array
) -> jax.Array:
    return loc + scale * jnp.tan(jnp.pi / 2 * uniform(key, shape, real_of(dtype)))


def _log_normal(
    key: jax.Array, shape: Shape, dtype: str, mean: jax.Array, sigma: jax.Array
) -> jax.Array:
    return jnp.exp(mean + sigma * normal(key, shape, real_of(dtype)))


def _inverse_gamma(
    key: jax.Array, shape: Shape, dtype: str, alpha: jax.Array, scale: jax.Array
) -> jax.Array:
    rate = 1 / jnp.asarray(scale, real_of(dtype))
    return 1 / (gamma(key, shape, alpha, real_of(dtype)) * rate)


def _generalised_gamma(
    key: jax.Array, shape: Shape, dtype: str, alpha: jax.Array, power: jax.Array, scale: jax.Array
) -> jax.Array:
    power = jnp.asarray(power, real_of(dtype))
    return gamma(key, shape, alpha / power, real_of(dtype)) ** (1 / power) * scale


def _wald(key: jax.Array, shape: Shape, dtype: str, mean: jax.Array, scale: jax.Array) -> jax.Array:
    """Michael, Schucany & Haas, "Generating random variates" (1976), in NumPy's form."""
    mean, scale = jnp.asarray(mean, wide()), jnp.asarray(scale, wide())
    first, second = uniforms(key, 2, shape, wide())
    y = mean * normal_of(first) ** 2
    smaller = mean * (1 - 2 / (1 + jnp.sqrt(1 + 4 * scale / y)))
    draws = jnp.where(second <= mean / (mean + smaller), smaller, mean * mean / smaller)
    return jnp.where(jnp.isinf(scale), mean, draws)


def _triangular(
    key: jax.Array, shape: Shape, dtype: str, left: jax.Array, mode: jax.Array, right: jax.Array
) -> jax.Array:
    """By inversion of the distribution function."""
    drawn, width = uniform(key, shape, real_of(dtype)), jnp.asarray(right, real_of(dtype)) - left
    below = left + jnp.sqrt(drawn * width * (mode - left))
    above = right - jnp.sqrt((1 - drawn) * width * (right - mode))
    return jnp.where(drawn * width < mode - left, below, above)


def _truncated_exponential(
    key: jax.Array, shape: Shape, dtype: str, bound: jax.Array, loc: jax.Array, scale: jax.Array
) -> jax.Array:
    """By inversion of the distribution function."""
    drawn = uniform(key, shape, real_of(dtype))
    return loc - scale * jnp.log1p(drawn * jnp.expm1(-bound))


def _shifted_wald(
    key: jax.Array, shape: Shape, dtype: str, mu: jax.Array, lam: jax.Array, alpha: jax.Array
) -> jax.Array:
    return _wald(key, shape, dtype, mu, lam) + alpha


def _truncated_normal(
    key: jax.Array,
    shape: Shape,
    dtype: str,
    mu: jax.Array,
    sigma: jax.Array,
    lower: jax.Array,
    upper: jax.Array,
) -> jax.Array:
    """By inversion of the logarithm of the distribution function, in the tail that is lighter.

    ``jax.random.truncated_normal`` loses its digits a few standard deviations out.
    """
    kind = real_of(dtype)
    low, high = ((jnp.asarray(bound, kind) - mu) / sigma for bound in (lower, upper))
    mirrored = low > 0  # there log_ndtr is close to 0: the mirror image has the digits
    low, high = jnp.where(mirrored, -high, low), jnp.where(mirrored, -low, high)
    log_low, log_high = special.log_ndtr(low), special.log_ndtr(high)
    drawn = uniform(key, shape, kind)
    # log(Phi(low) + u (Phi(high) - Phi(low)))
    log_share = log_high + jnp.log(drawn + (1 - drawn) * jnp.exp(log_low - log_high))
    value = jnp.clip(ndtri_exp(log_share), low, high)
    return mu + sigma * jnp.where(mirrored, -value, value)


def _integers(
    key: jax.Array, shape: Shape, dtype: str, low: jax.Array, high: jax.Array
) -> jax.Array:
    """As NumPy draws them: in 64 bits, before the dtype of the draws."""
    return integers(key, shape, low, high)


def _discrete_uniform(
    key: jax.Array, shape: Shape, dtype: str, lower: jax.Array, upper: jax.Array
) -> jax.Array:
    return _integers(key, shape, dtype, lower, jnp.asarray(upper) + 1)


def _moyal(key: jax.Array, shape: Shape, dtype: str, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    """``-log(z**2)`` for a standard normal z (SciPy, ``moyal``)."""
    return mu - 2 * sigma * jnp.log(jnp.abs(normal(key, shape, real_of(dtype))))


def _rice(key: jax.Array, shape: Shape, dtype: str, b: jax.Array, sigma: jax.Array) -> jax.Array:
    """The length of a normal vector in the plane, with mean of length b."""
    first, second = normal(key, (2, *shape), real_of(dtype))
    return sigma * jnp.hypot(first + b, second)


def _skew_normal(
    key: jax.Array, shape: Shape, dtype: str, mu: jax.Array, sigma: jax.Array, alpha: jax.Array
) -> jax.Array:
    """Azzalini, "A class of distributions which includes the normal ones" (1985), section 2."""
    first, second = normal(key, (2, *shape), real_of(dtype))
    delta = alpha / jnp.sqrt(1 + jnp.asarray(alpha, real_of(dtype)) ** 2)
    return mu + sigma * (delta * jnp.abs(first) + jnp.sqrt(1 - delta**2) * second)


def _matrix_normal(
    key: jax.Array, shape: Shape, dtype: str, mu: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    drawn = normal(key, (*shape, *jnp.shape(mu)[-2:]), real_of(dtype))
    return mu + rows @ drawn @ jnp.swapaxes(columns, -1, -2)


def _hypergeometric(
    key: jax.Array, shape: Shape, dtype: str, good: jax.Array, bad: jax.Array, drawn: jax.Array
) -> jax.Array:
    """Draw without replacement, one by one; the cost grows with the largest number drawn."""
    kind = canonical_dtype(dtype)
    good, bad, drawn = (
        jnp.broadcast_to(jnp.asarray(count, kind), shape) for count in (good, bad, drawn)
    )
    # What the domain excludes is not drawn: it can be of any length.
    good, bad, drawn = (
        jnp.where(possible_draw(jnp, good, bad, drawn), count, 0) for count in (good, bad, drawn)
    )
    total = good + bad
    left = jnp.minimum(drawn, total - drawn)  # what is drawn, or what is left behind

    def step(made: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        found, key = state
        chance = (good - found) / (total - made)
        hit = uniform(key, shape, wide()) < chance
        return jnp.where((made < left) & hit, found + 1, found), next_round(key)

    steps = jnp.max(left, initial=0)
    found, _ = jax.lax.fori_loop(0, steps, step, (jnp.zeros(shape, kind), key))
    return jnp.where(left == drawn, found, good - found)


def _categorical(key: jax.Array, shape: Shape, dtype: str, p: jax.Array) -> jax.Array:
    """By inversion, as PyTensor draws: what is left of 1 is a category after the last one."""
    drawn = uniform(key, shape, wide())[..., None]
    return (jnp.cumsum(jnp.asarray(p, wide()), axis=-1) < drawn).sum(axis=-1)


def _geometric(key: jax.Array, shape: Shape, dtype: str, p: jax.Array) -> jax.Array:
    """By inversion; what is beyond the largest integer is that."""
    kind = canonical_dtype(dtype)
    trials = jnp.ceil(-exponential(key, shape, wide()) / jnp.log1p(-jnp.asarray(p, wide())))
    largest = jnp.iinfo(kind).max
    draws = jnp.maximum(trials, 1).astype(kind)
    return jnp.where(trials >= float(largest), largest, draws)


def _poisson(key: jax.Array, shape: Shape, dtype: str, rate: jax.Array) -> jax.Array:
    return poisson(key, shape, rate)


def _negative_binomial(
    key: jax.Array, shape: Shape, dtype: str, count: jax.Array, chance: jax.Array
) -> jax.Array:
    chance = jnp.asarray(chance, wide())
    rate = gamma(key, shape, count, wide()) * ((1 - chance) / chance)
    return poisson(fork(key), shape, rate)


def _binomial(
    key: jax.Array, shape: Shape, dtype: str, count: jax.Array, chance: jax.Array
) -> jax.Array:
    return binomial(key, shape, count, chance)


def _beta_binomial(
    key: jax.Array, shape: Shape, dtype: str, count: jax.Array, alpha: jax.Array, beta: jax.Array
) -> jax.Array:
    return binomial(fork(key), shape, count, _beta(key, shape, "float64", alpha, beta))


def _multinomial(
    key: jax.Array, shape: Shape, dtype: str, count: jax.Array, p: jax.Array
) -> jax.Array:
    """One category after the other, binomial among the rest; the last takes what is left."""
    p = jnp.broadcast_to(jnp.asarray(p, wide()), (*shape, jnp.shape(p)[-1]))
    first = jnp.moveaxis(p[..., :-1], -1, 0)
    last = jnp.maximum(1 - first.sum(axis=0, keepdims=True), 0)
    # The chance of each category among those that are not drawn yet.
    rest = jnp.cumsum(jnp.concatenate([last, first[::-1]]), axis=0)[:0:-1]
    chances = jnp.clip(jnp.where(rest > 0, first / rest, 0.0), 0.0, 1.0)
    left = jnp.broadcast_to(jnp.asarray(count, p.dtype), shape)

    def category(
        state: tuple[jax.Array, ...], chance: jax.Array
    ) -> tuple[tuple[jax.Array, ...], jax.Array]:
        left, key = state
        found = jnp.where(left > 0, binomial(key, shape, left, chance), 0.0)
        return (left - found, fork(fork(key))), found

    (left, _), found = jax.lax.scan(category, (left, key), chances)
    return jnp.concatenate([jnp.moveaxis(found, 0, -1), left[..., None]], axis=-1)


_NARROW = 1e6  # from this concentration on NumPy draws from a normal distribution, too


def _von_mises(
    key: jax.Array, shape: Shape, dtype: str, mu: jax.Array, kappa: jax.Array
) -> jax.Array:
    """By rejection: Best & Fisher, "Efficient simulation of the von Mises distribution" (1979)."""
    kind = real_of(dtype)
    kappa = jnp.broadcast_to(jnp.asarray(kappa, kind), shape)
    safe = jnp.clip(kappa, 1e-5, _NARROW)
    tau = 1 + jnp.sqrt(1 + 4 * safe**2)
    rho = (tau - jnp.sqrt(2 * tau)) / (2 * safe)
    r = (1 + rho**2) / (2 * rho)

    def propose(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = uniforms(key, 2, shape, kind)
        z = jnp.cos(jnp.pi * first)
        c = safe * (r - (1 + r * z) / (r + z))
        accept = (c * (2 - c) > second) | (jnp.log(c / second) + 1 - c >= 0)
        return (1 + r * z) / (r + z), accept

    first, second = uniforms(key, 2, shape, kind)
    cosine = accepted(key, shape, jnp.zeros((), kind), jnp.isnan(kappa), propose)
    angle = jnp.arccos(jnp.clip(cosine, -1, 1)) * jnp.where(first < 0.5, -1, 1)
    angle = jnp.where(kappa > _NARROW, normal_of(second) / jnp.sqrt(kappa), angle)
    angle = jnp.where(jnp.isnan(kappa), jnp.nan, angle)
    return jnp.mod(mu + angle + jnp.pi, 2 * jnp.pi) - jnp.pi


_SAMPLERS: dict[str, Sampler] = {
    "pytensor.BernoulliRV": _bernoulli,
    "pytensor.BetaBinomialRV": _beta_binomial,
    "pytensor.BetaRV": _beta,
    "pytensor.BinomialRV": _binomial,
    "pytensor.CategoricalRV": _categorical,
    "pytensor.CauchyRV": _scaled(_cauchy),
    "pytensor.DirichletRV": _dirichlet,
    "pytensor.ExponentialRV": _exponential,
    "pytensor.GammaRV": _gamma,
    "pytensor.GenGammaRV": _generalised_gamma,
    "pytensor.GeometricRV": _geometric,
    "pytensor.GumbelRV": _scaled(_gumbel),
    "pytensor.HalfCauchyRV": _half_cauchy,
    "pytensor.HalfNormalRV": _half_normal,
    "pytensor.HyperGeometricRV": _hypergeometric,
    "pytensor.IntegersRV": _integers,
    "pytensor.InvGammaRV": _inverse_gamma,
    "pytensor.LaplaceRV": _scaled(_laplace),
    "pytensor.LogNormalRV": _log_normal,
    "pytensor.LogisticRV": _scaled(_logistic),
    "pytensor.MultinomialRV": _multinomial,
    "pytensor.NegBinomialRV": _negative_binomial,
    "pytensor.NormalRV": _scaled(normal),
    "pytensor.ParetoRV": _pareto,
    "pytensor.PoissonRV": _poisson,
    "pytensor.StudentTRV": _student_t,
    "pytensor.TriangularRV": _triangular,
    "pytensor.TruncExponentialRV": _truncated_exponential,
    "pytensor.UniformRV": _uniform,
    "pytensor.VonMisesRV": _von_mises,
    "pytensor.WaldRV": _wald,
    "pytensor.WeibullRV": _weibull,
    "pymc.DiscreteUniformRV": _discrete_uniform,
    "pymc.MatrixNormalRV": _matrix_normal,
    "pymc.MoyalRV": _moyal,
    "pymc.RiceRV": _rice,
    "pymc.SkewNormalRV": _skew_normal,
    "pymc.TruncatedNormalRV": _truncated_normal,
    "pymc.WaldRV": _shifted_wald,
}
