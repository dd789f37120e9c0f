"""Samplers for distributions that PyTensor has no JAX sampler for, or one that is wrong.

Distributions are found by the name of their class and of the package that defines it, so that
those of PyMC are known without importing PyMC.  A sampler takes a key, the shape and dtype of the
draws, and the parameters in the order of the distribution's own ``rng_fn``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.scipy import special
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.domains import by_name, possible_draw
from pytensor_jaxlink.lowering.scalars import ndtri_exp
from pytensor_jaxlink.lowering.values import canonical_dtype

Sampler = Callable[..., Any]


def sampler_of(op: RandomVariable) -> Sampler | None:
    """Our sampler for a distribution, or None."""
    return by_name(_SAMPLERS, op)


# -- samplers --------------------------------------------------------------------------------------


def _real(dtype: str) -> Any:
    """The dtype in which to compute real draws."""
    return jnp.promote_types(canonical_dtype(dtype), "float32")


def _wide() -> Any:
    """The dtype in which counts are drawn: NumPy's, where JAX has it."""
    return canonical_dtype("float64")


def _weibull(key: Any, shape: Any, dtype: str, concentration: Any) -> Any:
    draws = random.weibull_min(key, 1.0, concentration, shape, dtype=_real(dtype))
    return jnp.where(jnp.asarray(concentration) == 0, jnp.zeros((), draws.dtype), draws)


def _beta(key: Any, shape: Any, dtype: str, alpha: Any, beta: Any) -> Any:
    draws = random.beta(key, alpha, beta, shape, dtype=_real(dtype))
    certain = jnp.isinf(jnp.asarray(beta, _real(dtype))) & jnp.isfinite(alpha)
    return jnp.where(certain, jnp.zeros((), draws.dtype), draws)


def _half_normal(key: Any, shape: Any, dtype: str, loc: Any, scale: Any) -> Any:
    return loc + scale * jnp.abs(random.normal(key, shape, _real(dtype)))


def _log_normal(key: Any, shape: Any, dtype: str, mean: Any, sigma: Any) -> Any:
    return jnp.exp(mean + sigma * random.normal(key, shape, _real(dtype)))


def _inverse_gamma(key: Any, shape: Any, dtype: str, alpha: Any, scale: Any) -> Any:
    rate = 1 / jnp.asarray(scale, _real(dtype))
    return 1 / (random.gamma(key, alpha, shape, _real(dtype)) * rate)


def _generalised_gamma(key: Any, shape: Any, dtype: str, alpha: Any, power: Any, scale: Any) -> Any:
    power = jnp.asarray(power, _real(dtype))
    return random.gamma(key, alpha / power, shape, _real(dtype)) ** (1 / power) * scale


def _wald(key: Any, shape: Any, dtype: str, mean: Any, scale: Any) -> Any:
    """Michael, Schucany & Haas, "Generating random variates" (1976), in NumPy's form."""
    kind = _wide()
    mean, scale = jnp.asarray(mean, kind), jnp.asarray(scale, kind)
    normal, uniform = random.split(key)
    y = mean * random.normal(normal, shape, kind) ** 2
    smaller = mean * (1 - 2 / (1 + jnp.sqrt(1 + 4 * scale / y)))
    is_smaller = random.uniform(uniform, shape, kind) <= mean / (mean + smaller)
    draws = jnp.where(is_smaller, smaller, mean * mean / smaller)
    return jnp.where(jnp.isinf(scale), mean, draws)


def _triangular(key: Any, shape: Any, dtype: str, left: Any, mode: Any, right: Any) -> Any:
    return random.triangular(key, left, mode, right, shape, dtype=_real(dtype))


def _truncated_exponential(
    key: Any, shape: Any, dtype: str, bound: Any, loc: Any, scale: Any
) -> Any:
    """By inversion of the distribution function."""
    uniform = random.uniform(key, shape, dtype=_real(dtype))
    return loc - scale * jnp.log1p(uniform * jnp.expm1(-bound))


def _shifted_wald(key: Any, shape: Any, dtype: str, mu: Any, lam: Any, alpha: Any) -> Any:
    return _wald(key, shape, dtype, mu, lam) + alpha


def _truncated_normal(
    key: Any, shape: Any, dtype: str, mu: Any, sigma: Any, lower: Any, upper: Any
) -> Any:
    """By inversion of the logarithm of the distribution function, in the tail that is lighter.

    ``jax.random.truncated_normal`` loses its digits a few standard deviations out.
    """
    kind = _real(dtype)
    low, high = ((jnp.asarray(bound, kind) - mu) / sigma for bound in (lower, upper))
    mirrored = low > 0  # there log_ndtr is close to 0: the mirror image has the digits
    low, high = jnp.where(mirrored, -high, low), jnp.where(mirrored, -low, high)
    log_low, log_high = special.log_ndtr(low), special.log_ndtr(high)
    uniform = random.uniform(key, shape, dtype=kind, minval=jnp.finfo(kind).tiny)
    # log(Phi(low) + u (Phi(high) - Phi(low)))
    log_share = log_high + jnp.log(uniform + (1 - uniform) * jnp.exp(log_low - log_high))
    value = jnp.clip(ndtri_exp(log_share), low, high)
    return mu + sigma * jnp.where(mirrored, -value, value)


def _integers(key: Any, shape: Any, dtype: str, low: Any, high: Any) -> Any:
    """As NumPy draws them: in 64 bits, before the dtype of the draws."""
    kind = canonical_dtype("int64")
    return random.randint(key, shape, jnp.asarray(low, kind), jnp.asarray(high, kind), kind)


def _discrete_uniform(key: Any, shape: Any, dtype: str, lower: Any, upper: Any) -> Any:
    return _integers(key, shape, dtype, lower, jnp.asarray(upper) + 1)


def _moyal(key: Any, shape: Any, dtype: str, mu: Any, sigma: Any) -> Any:
    """``-log(z**2)`` for a standard normal z (SciPy, ``moyal``)."""
    normal = random.normal(key, shape, dtype=_real(dtype))
    return mu - 2 * sigma * jnp.log(jnp.abs(normal))


def _rice(key: Any, shape: Any, dtype: str, b: Any, sigma: Any) -> Any:
    """The length of a normal vector in the plane, with mean of length b."""
    first, second = random.normal(key, (2, *shape), dtype=_real(dtype))
    return sigma * jnp.hypot(first + b, second)


def _skew_normal(key: Any, shape: Any, dtype: str, mu: Any, sigma: Any, alpha: Any) -> Any:
    """Azzalini, "A class of distributions which includes the normal ones" (1985), section 2."""
    first, second = random.normal(key, (2, *shape), dtype=_real(dtype))
    delta = alpha / jnp.sqrt(1 + jnp.asarray(alpha, _real(dtype)) ** 2)
    return mu + sigma * (delta * jnp.abs(first) + jnp.sqrt(1 - delta**2) * second)


def _matrix_normal(key: Any, shape: Any, dtype: str, mu: Any, rows: Any, columns: Any) -> Any:
    normal = random.normal(key, (*shape, *jnp.shape(mu)[-2:]), dtype=_real(dtype))
    return mu + rows @ normal @ jnp.swapaxes(columns, -1, -2)


def _hypergeometric(key: Any, shape: Any, dtype: str, good: Any, bad: Any, drawn: Any) -> Any:
    """Draw without replacement, one by one; the cost grows with the largest number drawn."""
    kind = canonical_dtype(dtype)
    good, bad, drawn = (
        jnp.broadcast_to(jnp.asarray(count, kind), shape) for count in (good, bad, drawn)
    )
    # What the domain excludes is not drawn: it can be of any length.
    good, bad, drawn = (
        jnp.where(possible_draw(good, bad, drawn), count, 0) for count in (good, bad, drawn)
    )
    total = good + bad
    left = jnp.minimum(drawn, total - drawn)  # what is drawn, or what is left behind

    def step(made: Any, state: Any) -> Any:
        found, key = state
        key, now = random.split(key)
        chance = (good - found) / (total - made)
        hit = random.uniform(now, shape, dtype="float64") < chance
        return jnp.where((made < left) & hit, found + 1, found), key

    steps = jnp.max(left, initial=0)
    found, _ = jax.lax.fori_loop(0, steps, step, (jnp.zeros(shape, kind), key))
    return jnp.where(left == drawn, found, good - found)


def _half_cauchy(key: Any, shape: Any, dtype: str, loc: Any, scale: Any) -> Any:
    return loc + scale * jnp.abs(random.cauchy(key, shape, dtype=_real(dtype)))


def _dirichlet(key: Any, shape: Any, dtype: str, alpha: Any) -> Any:
    """Beside an infinite concentration the others have nothing; JAX divides all by infinity."""
    alpha = jnp.asarray(alpha, _real(dtype))
    draws = random.dirichlet(key, alpha, shape, _real(dtype))
    none = jnp.isinf(alpha.sum(axis=-1, keepdims=True)) & jnp.isfinite(alpha)
    return jnp.where(none, jnp.zeros((), draws.dtype), draws)


def _categorical(key: Any, shape: Any, dtype: str, p: Any) -> Any:
    """By inversion, as PyTensor draws: what is left of 1 is a category after the last one."""
    drawn = random.uniform(key, shape, _wide())[..., None]
    return (jnp.cumsum(jnp.asarray(p, _wide()), axis=-1) < drawn).sum(axis=-1)


def _geometric(key: Any, shape: Any, dtype: str, p: Any) -> Any:
    """By inversion; what is beyond the largest integer is that."""
    kind = canonical_dtype(dtype)
    uniform = random.uniform(key, shape, _wide(), minval=jnp.finfo(_wide()).tiny)
    trials = jnp.ceil(jnp.log(uniform) / jnp.log1p(-jnp.asarray(p, _wide())))
    largest = jnp.iinfo(kind).max
    draws = jnp.maximum(trials, 1).astype(kind)
    return jnp.where(trials >= float(largest), largest, draws)


def _negative_binomial(key: Any, shape: Any, dtype: str, count: Any, chance: Any) -> Any:
    mixing, key = random.split(key)
    chance = jnp.asarray(chance, _wide())
    rate = random.gamma(mixing, count, shape, _wide()) * ((1 - chance) / chance)
    return random.poisson(key, rate, shape, canonical_dtype(dtype))


def _binomial(key: Any, shape: Any, dtype: str, count: Any, chance: Any) -> Any:
    count, chance = (jnp.broadcast_to(value, shape) for value in (count, chance))
    return _successes(key, count, chance)


def _successes(key: Any, count: Any, chance: Any) -> Any:
    """Binomial draws; the loop of `jax.random.binomial` never ends where a chance is -0.0."""
    chance = jnp.asarray(chance, _wide())
    chance = jnp.where(chance == 0, jnp.zeros((), chance.dtype), chance)
    return random.binomial(key, count, chance, jnp.shape(chance), dtype=_wide())


def _beta_binomial(key: Any, shape: Any, dtype: str, count: Any, alpha: Any, beta: Any) -> Any:
    mixing, key = random.split(key)
    count = jnp.broadcast_to(count, shape)
    return _successes(key, count, _beta(mixing, shape, "float64", alpha, beta))


def _multinomial(key: Any, shape: Any, dtype: str, count: Any, p: Any) -> Any:
    """One category after the other, binomial among the rest; the last takes what is left."""
    p = jnp.broadcast_to(jnp.asarray(p, _wide()), (*shape, jnp.shape(p)[-1]))
    first = jnp.moveaxis(p[..., :-1], -1, 0)
    last = jnp.maximum(1 - first.sum(axis=0, keepdims=True), 0)
    # The chance of each category among those that are not drawn yet.
    rest = jnp.cumsum(jnp.concatenate([last, first[::-1]]), axis=0)[:0:-1]
    chances = jnp.clip(jnp.where(rest > 0, first / rest, 0.0), 0.0, 1.0)
    left = jnp.broadcast_to(jnp.asarray(count, p.dtype), shape)

    def category(left: Any, drawn: Any) -> tuple[Any, Any]:
        key, chance = drawn
        found = jnp.where(left > 0, _successes(key, left, chance), 0.0)
        return left - found, found

    left, found = jax.lax.scan(category, left, (random.split(key, len(first)), chances))
    return jnp.concatenate([jnp.moveaxis(found, 0, -1), left[..., None]], axis=-1)


_NARROW = 1e6  # from this concentration on NumPy draws from a normal distribution, too


def _von_mises(key: Any, shape: Any, dtype: str, mu: Any, kappa: Any) -> Any:
    """By rejection: Best & Fisher, "Efficient simulation of the von Mises distribution" (1979)."""
    kind = _real(dtype)
    kappa = jnp.broadcast_to(jnp.asarray(kappa, kind), shape)
    safe = jnp.clip(kappa, 1e-5, _NARROW)
    tau = 1 + jnp.sqrt(1 + 4 * safe**2)
    rho = (tau - jnp.sqrt(2 * tau)) / (2 * safe)
    r = (1 + rho**2) / (2 * rho)

    def draw(state: Any) -> Any:
        cosine, accepted, key = state
        key, now = random.split(key)
        first, second = random.uniform(now, (2, *shape), kind, minval=jnp.finfo(kind).tiny)
        z = jnp.cos(jnp.pi * first)
        found = (1 + r * z) / (r + z)
        c = safe * (r - found)
        accept = (c * (2 - c) > second) | (jnp.log(c / second) + 1 - c >= 0)
        return jnp.where(accepted, cosine, found), accepted | accept, key

    key, sign, normal = random.split(key, 3)
    start = (jnp.zeros(shape, kind), jnp.isnan(kappa), key)
    cosine, _, _ = jax.lax.while_loop(lambda state: ~state[1].all(), draw, start)
    angle = jnp.arccos(jnp.clip(cosine, -1, 1)) * random.rademacher(sign, shape, kind)
    angle = jnp.where(kappa > _NARROW, random.normal(normal, shape, kind) / jnp.sqrt(kappa), angle)
    angle = jnp.where(jnp.isnan(kappa), jnp.nan, angle)
    return jnp.mod(mu + angle + jnp.pi, 2 * jnp.pi) - jnp.pi


_SAMPLERS: dict[str, Sampler] = {
    "pytensor.BetaBinomialRV": _beta_binomial,
    "pytensor.BetaRV": _beta,
    "pytensor.BinomialRV": _binomial,
    "pytensor.CategoricalRV": _categorical,
    "pytensor.DirichletRV": _dirichlet,
    "pytensor.GenGammaRV": _generalised_gamma,
    "pytensor.GeometricRV": _geometric,
    "pytensor.HalfCauchyRV": _half_cauchy,
    "pytensor.HalfNormalRV": _half_normal,
    "pytensor.HyperGeometricRV": _hypergeometric,
    "pytensor.IntegersRV": _integers,
    "pytensor.InvGammaRV": _inverse_gamma,
    "pytensor.LogNormalRV": _log_normal,
    "pytensor.MultinomialRV": _multinomial,
    "pytensor.NegBinomialRV": _negative_binomial,
    "pytensor.TriangularRV": _triangular,
    "pytensor.TruncExponentialRV": _truncated_exponential,
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
