"""Samplers for distributions that PyTensor has no JAX sampler for, or one that is wrong.

Distributions are found by the name of their class and of the package that defines it, so that
those of PyMC are known without importing PyMC.  A sampler takes what every draw has, and the
parameters in the order of the distribution's own ``rng_fn``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.scipy import special
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.coercion import canonical_dtype
from pytensor_jaxlink.lowering.domains import of_distribution, possible_draw
from pytensor_jaxlink.lowering.draw import Draw, Sampler
from pytensor_jaxlink.lowering.rejection import (
    Gammas,
    Shape,
    accepted,
    binomial,
    hypergeometric,
    poisson,
)
from pytensor_jaxlink.lowering.scalars import ndtri_exp
from pytensor_jaxlink.lowering.streams import (
    exponential,
    fork,
    integers,
    normal,
    normal_of,
    uniform,
    uniforms,
    wide,
)
from pytensor_jaxlink.ops import is_foreign_module


def sampler_of(op: RandomVariable) -> Sampler | None:
    """Our sampler for a distribution, or None; one that somebody has registered goes first.

    It is called as PyTensor's are: with a key, a shape, a dtype, and the parameters.
    """
    registered = jax_sample_fn.dispatch(type(op))
    if is_foreign_module(registered.__module__):
        return None
    sampler = of_distribution(SAMPLERS, op)
    if sampler is None:
        return None
    return lambda key, shape, dtype, *parameters: sampler(Draw(key, shape, dtype), *parameters)


def is_known_draw(op: object) -> bool:
    """Return True for a distribution of PyMC's that is drawn by our sampler.

    PyMC defines the class alone, so nothing that a user can change takes part in the draw.
    """
    return (
        isinstance(op, RandomVariable)
        and type(op).__module__.startswith("pymc.")
        and not is_foreign_module(jax_funcify.dispatch(type(op)).__module__)
        and sampler_of(op) is not None
    )


# -- samplers --------------------------------------------------------------------------------------


def _scaled(standard: Callable[[Draw], jax.Array]) -> Sampler:
    """The sampler of a family with location and scale, from its standard draws."""
    return lambda draw, loc, scale: loc + scale * standard(draw)


def _laplace(draw: Draw) -> jax.Array:
    centred = 2 * draw.uniform() - 1
    return -jnp.sign(centred) * jnp.log1p(-jnp.abs(centred))


def _logistic(draw: Draw) -> jax.Array:
    drawn = draw.uniform()
    return jnp.log(drawn) - jnp.log1p(-drawn)


def _uniform(draw: Draw, low: jax.Array, high: jax.Array) -> jax.Array:
    low, high = (jnp.asarray(bound, draw.real) for bound in (low, high))
    return low + (high - low) * draw.uniform()


def _weibull(draw: Draw, concentration: jax.Array) -> jax.Array:
    concentration = jnp.asarray(concentration, draw.real)
    draws = draw.exponential() ** (1 / concentration)
    return jnp.where(concentration == 0, jnp.zeros((), draws.dtype), draws)


def _beta(draw: Draw, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    """The share of one gamma variable in the sum of two; of an infinite one it is NaN."""
    kind, shape = draw.real, draw.shape
    alpha, beta = jnp.broadcast_arrays(jnp.asarray(alpha, kind), jnp.asarray(beta, kind))
    lengths = (1,) * (len(shape) - alpha.ndim) + alpha.shape
    both = Gammas.drawn(draw.key, (2, *shape), jnp.stack([alpha, beta]).reshape(2, *lengths), kind)
    (part, other_part), rest = both.part, jnp.broadcast_to(both.log_rest, (2, *shape))
    # Where both are too small for numbers, their logarithms are not.
    ratio = other_part / part * jnp.exp(rest[1] - rest[0])
    return 1 / (1 + jnp.where(jnp.isinf(alpha), jnp.nan, ratio))


def _beta_in_open_interval(draw: Draw, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    """PyMC's, which is neither 0 nor 1; JAX takes numbers below the least normal one for 0."""
    limits = jnp.finfo(draw.real)
    return jnp.clip(_beta(draw, alpha, beta), limits.tiny, 1 - limits.epsneg)


def _skew_student_t(
    draw: Draw, a: jax.Array, b: jax.Array, mu: jax.Array, sigma: jax.Array
) -> jax.Array:
    """From a beta variable: Jones & Faddy, "A skew extension of the t-distribution" (2003)."""
    share = _beta(draw, a, b)
    return mu + sigma * (2 * share - 1) * jnp.sqrt(a + b) / (2 * jnp.sqrt(share * (1 - share)))


def _dirichlet(draw: Draw, alpha: jax.Array) -> jax.Array:
    """Beside an infinite concentration the finite ones have nothing."""
    kind = draw.real
    alpha = jnp.asarray(alpha, kind)
    gammas = Gammas.drawn(draw.key, (*draw.shape, alpha.shape[-1]), alpha, kind)
    draws = jax.nn.softmax(gammas.logarithms(), axis=-1)
    none = jnp.isinf(alpha.sum(axis=-1, keepdims=True)) & jnp.isfinite(alpha)
    return jnp.where(none, jnp.zeros((), kind), draws)


def _student_t(draw: Draw, df: jax.Array, loc: jax.Array, scale: jax.Array) -> jax.Array:
    """A normal variable over the root of a gamma variable of which the mean is 1."""
    half = jnp.asarray(df, draw.real) / 2
    return loc + scale * draw.fork().normal() / jnp.sqrt(draw.gamma(half) / half)


def _inverse_gamma(draw: Draw, alpha: jax.Array, scale: jax.Array) -> jax.Array:
    rate = 1 / jnp.asarray(scale)  # in its own dtype, as in NumPy
    return 1 / (draw.gamma(alpha) * rate)


def _generalised_gamma(
    draw: Draw, alpha: jax.Array, power: jax.Array, scale: jax.Array
) -> jax.Array:
    power = jnp.asarray(power)
    return draw.gamma(alpha / power) ** (1 / power) * scale


def _wald(draw: Draw, mean: jax.Array, scale: jax.Array) -> jax.Array:
    """Michael, Schucany & Haas, "Generating random variates" (1976), in NumPy's form."""
    mean, scale = jnp.asarray(mean, wide()), jnp.asarray(scale, wide())
    first, turn, second = uniforms(draw.key, 3, draw.shape, wide())
    y = mean * normal_of(first, turn) ** 2
    smaller = mean * (1 - 2 / (1 + jnp.sqrt(1 + 4 * scale / y)))
    return jnp.where(second <= mean / (mean + smaller), smaller, mean * mean / smaller)


def _triangular(draw: Draw, left: jax.Array, mode: jax.Array, right: jax.Array) -> jax.Array:
    """By inversion of the distribution function."""
    left, mode, right = (jnp.asarray(each, draw.real) for each in (left, mode, right))
    drawn, width = draw.uniform(), right - left
    below = left + jnp.sqrt(drawn * width * (mode - left))
    above = right - jnp.sqrt((1 - drawn) * width * (right - mode))
    return jnp.where(drawn * width < mode - left, below, above)


def _interpolated(draw: Draw, x: jax.Array, density: jax.Array, chances: jax.Array) -> jax.Array:
    """By inversion of the distribution function; between two points the density is linear.

    The root of the quadratic equation is taken in the form that does not divide by the slope.
    """
    x, density, chances = map(jnp.asarray, (x, density, chances))
    x, density, chances = (v.reshape(v.shape[-1]) for v in (x, density, chances))
    drawn = draw.chances()
    piece = jnp.clip(jnp.searchsorted(chances, drawn) - 1, 0, len(x) - 2)
    slope = (jnp.diff(density) / jnp.diff(x))[piece]
    start, left = density[piece], drawn - chances[piece]
    end = jnp.sqrt(jnp.maximum(start**2 + 2 * slope * left, 0))
    return x[piece] + jnp.where(left > 0, 2 * left / (start + end), 0)


def _truncated_exponential(
    draw: Draw, bound: jax.Array, loc: jax.Array, scale: jax.Array
) -> jax.Array:
    """By inversion of the distribution function."""
    return loc - scale * jnp.log1p(draw.uniform() * jnp.expm1(-jnp.asarray(bound, draw.real)))


def _truncated_normal(
    draw: Draw, mu: jax.Array, sigma: jax.Array, lower: jax.Array, upper: jax.Array
) -> jax.Array:
    """By inversion of the logarithm of the distribution function, in the tail that is lighter.

    ``jax.random.truncated_normal`` loses its digits a few standard deviations out.
    """
    low, high = ((jnp.asarray(bound, draw.real) - mu) / sigma for bound in (lower, upper))
    mirrored = low > 0  # there log_ndtr is close to 0: the mirror image has the digits
    low, high = jnp.where(mirrored, -high, low), jnp.where(mirrored, -low, high)
    log_low, log_high = special.log_ndtr(low), special.log_ndtr(high)
    drawn = draw.uniform()
    # log(Phi(low) + u (Phi(high) - Phi(low)))
    log_share = log_high + jnp.log(drawn + (1 - drawn) * jnp.exp(log_low - log_high))
    value = jnp.clip(ndtri_exp(log_share), low, high)
    return mu + sigma * jnp.where(mirrored, -value, value)


def _integers(draw: Draw, low: jax.Array, high: jax.Array) -> jax.Array:
    """As NumPy draws them: in 64 bits, before the dtype of the draws."""
    return integers(draw.key, draw.shape, low, high)


def _moyal(draw: Draw, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    """``-log(z**2)`` for a standard normal z (SciPy, ``moyal``)."""
    return mu - 2 * sigma * jnp.log(jnp.abs(draw.normal()))


def _rice(draw: Draw, b: jax.Array, sigma: jax.Array) -> jax.Array:
    """The length of a normal vector in the plane, with mean of length b."""
    first, second = draw.normals()
    return sigma * jnp.hypot(first + b, second)


def _skew_normal(draw: Draw, mu: jax.Array, sigma: jax.Array, alpha: jax.Array) -> jax.Array:
    """Azzalini, "A class of distributions which includes the normal ones" (1985), section 2."""
    first, second = draw.normals()
    delta = alpha / jnp.sqrt(1 + jnp.asarray(alpha, draw.real) ** 2)
    return mu + sigma * (delta * jnp.abs(first) + jnp.sqrt(1 - delta**2) * second)


def _matrix_normal(draw: Draw, mu: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    drawn = normal(draw.key, (*draw.shape, *jnp.shape(mu)[-2:]), draw.real)
    return mu + rows @ drawn @ jnp.swapaxes(columns, -1, -2)


def _hypergeometric(draw: Draw, *counts: jax.Array) -> jax.Array:
    possible = possible_draw(jnp, *counts)
    return hypergeometric(draw.key, draw.shape, *(jnp.where(possible, c, 0) for c in counts))


def _categorical(draw: Draw, p: jax.Array) -> jax.Array:
    """By inversion, as PyTensor draws: what is left of 1 is a category after the last one."""
    drawn = draw.chances()[..., None]
    return (jnp.cumsum(jnp.asarray(p, wide()), axis=-1) < drawn).sum(axis=-1)


def _geometric(draw: Draw, p: jax.Array) -> jax.Array:
    """By inversion, in 64 bits; what is beyond the largest integer is that."""
    kind = canonical_dtype("int64")
    waited = exponential(draw.key, draw.shape, wide())
    trials = jnp.ceil(-waited / jnp.log1p(-jnp.asarray(p, wide())))
    largest = jnp.iinfo(kind).max
    draws = jnp.maximum(trials, 1).astype(kind)
    return jnp.where(trials >= float(largest), largest, draws)


def _negative_binomial(draw: Draw, count: jax.Array, chance: jax.Array) -> jax.Array:
    chance = jnp.asarray(chance, wide())
    gammas = Gammas.drawn(draw.key, draw.shape, count, wide())
    rate = gammas.values() * ((1 - chance) / chance)
    return _poisson(draw.fork(), rate)


def _poisson(draw: Draw, rate: jax.Array) -> jax.Array:
    return poisson(draw.key, draw.shape, rate)


def _binomial(draw: Draw, count: jax.Array, chance: jax.Array) -> jax.Array:
    return binomial(draw.key, draw.shape, count, chance)


def _beta_binomial(draw: Draw, count: jax.Array, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return _binomial(draw.fork(), count, _beta(replace(draw, dtype="float64"), alpha, beta))


def _multinomial(draw: Draw, count: jax.Array, p: jax.Array) -> jax.Array:
    """One category after the other, binomial among the rest; the last takes what is left."""
    shape = draw.shape
    p = jnp.asarray(p, wide())
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
        # A loop over parts inside of this one would take XLA 110 ms more to compile.
        drawn = binomial(key, shape, left, chance, in_parts=False)
        found = jnp.where(left > 0, drawn, 0.0)
        return (left - found, fork(fork(key))), found

    (left, _), found = jax.lax.scan(category, (left, draw.key), chances)
    return jnp.concatenate([jnp.moveaxis(found, 0, -1), left[..., None]], axis=-1)


_WIDE, _NARROW = 1e-8, 1e6  # concentrations of uniform and of normal draws, in NumPy too


def _von_mises(draw: Draw, mu: jax.Array, kappa: jax.Array) -> jax.Array:
    """By rejection: Best & Fisher, "Efficient simulation of the von Mises distribution" (1979)."""
    kind, shape = draw.real, draw.shape
    kappa = jnp.asarray(kappa, kind)

    def propose(key: jax.Array, shape: Shape, kappa: jax.Array) -> tuple[jax.Array, jax.Array]:
        safe = jnp.clip(kappa, 1e-5, _NARROW)
        tau = 1 + jnp.sqrt(1 + 4 * safe**2)
        rho = (tau - jnp.sqrt(2 * tau)) / (2 * safe)
        r = (1 + rho**2) / (2 * rho)
        first, second = uniform(key, (2, *shape), kind)
        z = jax.lax.optimization_barrier(jnp.cos(jnp.pi * first))  # several read it
        c = safe * (r - (1 + r * z) / (r + z))
        accept = (c * (2 - c) > second) | (jnp.log(c / second) + 1 - c >= 0)
        return (1 + r * z) / (r + z), accept

    first, second = uniforms(draw.key, 2, shape, kind)
    cosine = accepted(draw.key, shape, jnp.zeros((), kind), jnp.isnan(kappa), (kappa,), propose)
    angle = jnp.arccos(jnp.clip(cosine, -1, 1)) * jnp.where(first < 0.5, -1, 1)
    angle = jnp.where(kappa > _NARROW, normal_of(first, second) / jnp.sqrt(kappa), angle)
    angle = jnp.where(jnp.isnan(kappa), jnp.nan, angle) + jnp.where(kappa < _WIDE, 0.0, mu)
    once = angle - 2 * jnp.pi * jnp.sign(angle) * (jnp.abs(angle) > jnp.pi)
    turned = jnp.mod(angle + jnp.pi, 2 * jnp.pi) - jnp.pi
    return jnp.where(kappa > _NARROW, once, turned)  # NumPy's, which turns narrow ones back once


SAMPLERS: dict[str, Sampler] = {
    "pytensor.BernoulliRV": lambda draw, p: draw.chances() < p,
    "pytensor.BetaBinomialRV": _beta_binomial,
    "pytensor.BetaRV": _beta,
    "pytensor.BinomialRV": _binomial,
    "pytensor.CategoricalRV": _categorical,
    "pytensor.CauchyRV": _scaled(lambda draw: jnp.tan(jnp.pi * (draw.uniform() - 0.5))),
    "pytensor.DirichletRV": _dirichlet,
    "pytensor.ExponentialRV": lambda draw, scale: scale * draw.exponential(),
    "pytensor.GammaRV": lambda draw, alpha, scale: scale * draw.gamma(alpha),
    "pytensor.GenGammaRV": _generalised_gamma,
    "pytensor.GeometricRV": _geometric,
    "pytensor.GumbelRV": _scaled(lambda draw: -jnp.log(draw.exponential())),
    "pytensor.HalfCauchyRV": _scaled(lambda draw: jnp.tan(jnp.pi / 2 * draw.uniform())),
    "pytensor.HalfNormalRV": _scaled(lambda draw: jnp.abs(draw.normal())),
    "pytensor.HyperGeometricRV": _hypergeometric,
    "pytensor.IntegersRV": _integers,
    "pytensor.InvGammaRV": _inverse_gamma,
    "pytensor.LaplaceRV": _scaled(_laplace),
    "pytensor.LogNormalRV": lambda draw, mu, sigma: jnp.exp(mu + sigma * draw.normal()),
    "pytensor.LogisticRV": _scaled(_logistic),
    "pytensor.MultinomialRV": _multinomial,
    "pytensor.NegBinomialRV": _negative_binomial,
    "pytensor.NormalRV": _scaled(Draw.normal),
    "pytensor.ParetoRV": lambda draw, b, scale: scale * jnp.exp(draw.exponential() / b),
    "pytensor.PoissonRV": _poisson,
    "pytensor.StudentTRV": _student_t,
    "pytensor.TriangularRV": _triangular,
    "pytensor.TruncExponentialRV": _truncated_exponential,
    "pytensor.UniformRV": _uniform,
    "pytensor.VonMisesRV": _von_mises,
    "pytensor.WaldRV": _wald,
    "pytensor.WeibullRV": _weibull,
    "pymc.BetaClippedRV": _beta_in_open_interval,
    "pymc.DiscreteUniformRV": lambda draw, low, high: _integers(draw, low, jnp.asarray(high) + 1),
    "pymc.InterpolatedRV": _interpolated,
    "pymc.MatrixNormalRV": _matrix_normal,
    "pymc.MoyalRV": _moyal,
    "pymc.RiceRV": _rice,
    "pymc.SkewNormalRV": _skew_normal,
    "pymc.SkewStudentTRV": _skew_student_t,
    "pymc.TruncatedNormalRV": _truncated_normal,
    "pymc.WaldRV": lambda draw, mu, lam, alpha: _wald(draw, mu, lam) + alpha,
}
