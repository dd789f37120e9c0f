"""Samplers for distributions that PyTensor has no JAX sampler for, and the domains of parameters.

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

from pytensor_jaxlink.lowering.scalars import ndtri_exp
from pytensor_jaxlink.lowering.values import canonical_dtype

Sampler = Callable[..., Any]


def sampler_of(op: RandomVariable) -> Sampler | None:
    """Our sampler for a distribution, or None."""
    return _found(_SAMPLERS, op)


def domain_of(op: RandomVariable) -> Callable[..., Any] | None:
    """A function of the parameters that tells where NumPy would draw and not raise, or None."""
    return _found(_DOMAINS, op)


def _found(table: dict[str, Any], op: RandomVariable) -> Any:
    for kind in type(op).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in table:
            return table[name]
    return None


# -- samplers --------------------------------------------------------------------------------------


def _real(dtype: str) -> Any:
    """The dtype in which to compute real draws."""
    return jnp.promote_types(canonical_dtype(dtype), "float32")


def _weibull(key: Any, shape: Any, dtype: str, concentration: Any) -> Any:
    return random.weibull_min(key, 1.0, concentration, shape, dtype=_real(dtype))


def _triangular(key: Any, shape: Any, dtype: str, left: Any, mode: Any, right: Any) -> Any:
    return random.triangular(key, left, mode, right, shape, dtype=_real(dtype))


def _truncated_exponential(
    key: Any, shape: Any, dtype: str, bound: Any, loc: Any, scale: Any
) -> Any:
    """By inversion of the distribution function."""
    uniform = random.uniform(key, shape, dtype=_real(dtype))
    return loc - scale * jnp.log1p(uniform * jnp.expm1(-bound))


def _shifted_wald(key: Any, shape: Any, dtype: str, mu: Any, lam: Any, alpha: Any) -> Any:
    mu, lam = jnp.asarray(mu, _real(dtype)), jnp.asarray(lam, _real(dtype))
    return lam * random.wald(key, mu / lam, shape, dtype=_real(dtype)) + alpha


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


def _discrete_uniform(key: Any, shape: Any, dtype: str, lower: Any, upper: Any) -> Any:
    lower, upper = (jnp.asarray(bound, dtype=canonical_dtype(dtype)) for bound in (lower, upper))
    return random.randint(key, shape, lower, upper + 1, dtype=canonical_dtype(dtype))


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


def _categorical(key: Any, shape: Any, dtype: str, p: Any) -> Any:
    """PyTensor 3.3's own sampler takes ``logit(p)`` where the logarithm belongs."""
    return random.categorical(key, jnp.log(p), axis=-1, shape=shape)


def _binomial(key: Any, shape: Any, dtype: str, count: Any, chance: Any) -> Any:
    count, chance = (jnp.broadcast_to(value, shape) for value in (count, chance))
    return random.binomial(key, count, chance, shape, dtype=canonical_dtype("float64"))


def _multinomial(key: Any, shape: Any, dtype: str, count: Any, p: Any) -> Any:
    """One category after the other, binomial among what is left."""
    p = jnp.broadcast_to(p, (*shape, jnp.shape(p)[-1]))
    # The chance of each category among those that are not drawn yet.
    rest = jnp.flip(jnp.cumsum(jnp.flip(p, -1), -1), -1)
    chances = jnp.moveaxis(jnp.clip(jnp.where(rest > 0, p / rest, 0.0), 0.0, 1.0), -1, 0)
    left = jnp.broadcast_to(jnp.asarray(count, chances.dtype), shape)

    def category(left: Any, drawn: Any) -> tuple[Any, Any]:
        key, chance = drawn
        found = jnp.where(left > 0, random.binomial(key, left, chance, shape, left.dtype), 0.0)
        return left - found, found

    keys = random.split(key, chances.shape[0])
    left, found = jax.lax.scan(category, left, (keys[:-1], chances[:-1]))
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
    "pytensor.BinomialRV": _binomial,
    "pytensor.CategoricalRV": _categorical,
    "pytensor.HalfCauchyRV": _half_cauchy,
    "pytensor.HyperGeometricRV": _hypergeometric,
    "pytensor.MultinomialRV": _multinomial,
    "pytensor.TriangularRV": _triangular,
    "pytensor.TruncExponentialRV": _truncated_exponential,
    "pytensor.VonMisesRV": _von_mises,
    "pytensor.WeibullRV": _weibull,
    "pymc.DiscreteUniformRV": _discrete_uniform,
    "pymc.MatrixNormalRV": _matrix_normal,
    "pymc.MoyalRV": _moyal,
    "pymc.RiceRV": _rice,
    "pymc.SkewNormalRV": _skew_normal,
    "pymc.TruncatedNormalRV": _truncated_normal,
    "pymc.WaldRV": _shifted_wald,
}

# -- domains ---------------------------------------------------------------------------------------

# As NumPy and SciPy check them: a parameter that is not a number passes where they let it pass.


def _all(*conditions: Any) -> Any:
    return jnp.stack([jnp.all(condition) for condition in conditions]).all()


def _not_negative(*positions: int) -> Callable[..., Any]:
    return lambda *parameters: _all(*(~(jnp.asarray(parameters[p]) < 0) for p in positions))


def _positive(*positions: int) -> Callable[..., Any]:
    return lambda *parameters: _all(*(~(jnp.asarray(parameters[p]) <= 0) for p in positions))


def _binomial_domain(count: Any, chance: Any) -> Any:
    chance = jnp.asarray(chance)
    return _all(jnp.asarray(count) >= 0, chance >= 0, chance <= 1)


def _chance_domain(*parameters: Any) -> Any:
    chance = jnp.asarray(parameters[-1])
    return _all(chance >= 0, chance <= 1)


def _hypergeometric_domain(good: Any, bad: Any, drawn: Any) -> Any:
    good, bad, drawn = map(jnp.asarray, (good, bad, drawn))
    return _all(good >= 0, bad >= 0, drawn >= 0, drawn <= good + bad)


def _triangular_domain(left: Any, mode: Any, right: Any) -> Any:
    return _all(
        ~(jnp.asarray(left) > mode), ~(jnp.asarray(mode) > right), jnp.asarray(left) != right
    )


_DOMAINS: dict[str, Callable[..., Any]] = {
    "pytensor.BernoulliRV": _chance_domain,
    "pytensor.BetaRV": _positive(0, 1),
    "pytensor.BinomialRV": _binomial_domain,
    "pytensor.CauchyRV": _not_negative(1),
    "pytensor.DirichletRV": _positive(0),
    "pytensor.ExponentialRV": _not_negative(0),
    "pytensor.GammaRV": _not_negative(0, 1),
    "pytensor.GumbelRV": _not_negative(1),
    "pytensor.HalfCauchyRV": _not_negative(1),
    "pytensor.HyperGeometricRV": _hypergeometric_domain,
    "pytensor.LaplaceRV": _not_negative(1),
    "pytensor.LogisticRV": _not_negative(1),
    "pytensor.NormalRV": _not_negative(1),
    "pytensor.ParetoRV": _positive(0),
    "pytensor.PoissonRV": lambda rate: _all(jnp.asarray(rate) >= 0),
    "pytensor.StudentTRV": _positive(0),
    "pytensor.TriangularRV": _triangular_domain,
    "pytensor.VonMisesRV": _not_negative(1),
    "pytensor.WeibullRV": _not_negative(0),
    "pymc.DiscreteUniformRV": lambda low, high: _all(jnp.asarray(low) <= high),
    "pymc.MoyalRV": _positive(1),
    "pymc.RiceRV": lambda b, sigma: _all(jnp.asarray(b) >= 0, jnp.asarray(sigma) > 0),
    "pymc.SkewNormalRV": _positive(1),
    "pymc.TruncatedNormalRV": lambda mu, sigma, low, high: _all(
        jnp.asarray(sigma) > 0, jnp.asarray(low) < high
    ),
    "pymc.WaldRV": _positive(0, 1),
}
