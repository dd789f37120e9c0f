"""The domains of distributions: where NumPy and SciPy draw, and where they raise.

A domain is a tuple of conditions, each on some of the parameters, in the order of the
distribution's own ``rng_fn``.  The conditions are those of NumPy and SciPy to the letter: NumPy
lets NaN pass where a parameter must not be negative and refuses -0.0 there; SciPy does neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT

from pytensor_jaxlink.analysis import Interval, interval_of
from pytensor_jaxlink.compat import SCIPY_CASTS_COUNTS
from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import canonical_dtype
from pytensor_jaxlink.lowering.streams import wide

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class DomainCondition:
    """A condition on the parameters at some positions.

    Attributes
    ----------
    holds
        Computes it, by NumPy or by `jax.numpy`, its first argument.
    positions
        The positions of the others.
    shown
        Whether it holds by what the graph shows of these parameters.
    """

    holds: Callable[..., ArrayLike]
    positions: tuple[int, ...]
    shown: Callable[..., bool] | None = None

    def require(self, parameters: tuple[ArrayLike, ...]) -> None:
        """State that it holds; constants are checked while JAX traces and cost nothing."""
        values = [parameters[position] for position in self.positions]
        if all(isinstance(value, np.ndarray | np.generic) for value in values):
            with np.errstate(all="ignore"):
                require(np.asarray(self.holds(np, *values)))
        else:
            require(self.holds(jnp, *map(jnp.asarray, values)))


def of_distribution(table: dict[str, Entry], op: RandomVariable) -> Entry | None:
    """The entry of a distribution, found by its class and the package that defines it, or None."""
    names = (name_of_distribution(kind) for kind in type(op).__mro__)
    return next((table[name] for name in names if name in table), None)


def name_of_distribution(kind: type) -> str:
    """The name of a class in tables of distributions: with the package that defines it."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def domain_conditions(op: RandomVariable, node: Apply) -> list[DomainCondition]:
    """The conditions on the parameters of a draw, except those that hold by what the graph shows.

    A draw from a half-normal distribution is not negative, and one from a beta one is a chance.
    """
    parameters = op.dist_params(node)
    found = of_distribution(_DOMAINS, op) or ()
    if isinstance(op.size_param(node).type, NoneTypeT) and not any(p.type.ndim for p in parameters):
        found += of_distribution(_OF_PYTHONS_NUMBERS, op) or ()
    return [
        condition
        for condition in found
        if condition.shown is None
        or not condition.shown(*[interval_of(parameters[k]) for k in condition.positions])
    ]


# -- conditions on one parameter -------------------------------------------------------------------


def _is_count(xp: ModuleType, value: jax.Array) -> ArrayLike:
    safe = np.can_cast(value.dtype, "int64")
    if safe or not SCIPY_CASTS_COUNTS:
        return np.bool_(safe)
    return (value == xp.round(value)) & (value < 2.0**63)


def _each(
    holds: Callable[..., ArrayLike], shown: Callable[[Interval], bool] | None = None
) -> Callable[..., tuple[DomainCondition, ...]]:
    return lambda *positions: tuple(
        DomainCondition(holds, (position,), shown) for position in positions
    )


_at_least_0 = _each(  # SciPy's scale, no NaN: `comparisons`
    lambda xp, value: (value > 0) | (value == 0), lambda found: found.no_nan and found.least >= 0
)
_more_than_0 = _each(lambda xp, value: value > 0, lambda found: found.no_nan and found.least > 0)
_chance = _each(
    lambda xp, value: (value >= 0) & (value <= 1),
    lambda found: found.no_nan and found.least >= 0 and found.most <= 1,
)
_chance_above_0 = _each(
    lambda xp, value: (value > 0) & (value <= 1),
    lambda found: found.no_nan and found.least > 0 and found.most <= 1,
)
_no_sign = _each(  # NumPy's scale
    lambda xp, value: xp.isnan(value) | ~xp.signbit(value), lambda found: found.no_sign
)
_above_0_or_nan = _each(lambda xp, value: ~(value <= 0), lambda found: found.least > 0)
_finite = _each(lambda xp, value: xp.isfinite(value), lambda found: found.finite)
_whole = _each(lambda xp, value: np.bool_(np.can_cast(value.dtype, "int64")))  # uint64 is refused
_counts = _each(_is_count)
_negated = _each(lambda xp, value: np.bool_(value.dtype.kind not in "bu"))  # by SciPy, in its type


def _together(
    holds: Callable[..., ArrayLike], *positions: int, shown: Callable[..., bool] | None = None
) -> tuple[DomainCondition, ...]:
    return (DomainCondition(holds, positions, shown),)


# -- conditions on several -------------------------------------------------------------------------

_LARGEST_RATE = float(np.iinfo("int64").max - 10 * np.sqrt(np.iinfo("int64").max))
_LARGEST_POPULATION = 1_000_000_000


def _wide(xp: ModuleType, value: jax.Array) -> jax.Array:
    """A parameter in the type in which NumPy computes: differences of narrow integers wrap."""
    return xp.asarray(value, wide())


def _width(xp: ModuleType, low: jax.Array, high: jax.Array) -> jax.Array:
    width = _wide(xp, high) - _wide(xp, low)
    return xp.isfinite(width) & ~xp.signbit(width)


def _standard_bounds(
    xp: ModuleType, mu: jax.Array, sigma: jax.Array, lower: jax.Array, upper: jax.Array
) -> jax.Array:
    """SciPy compares them in standard deviations: it refuses what rounding makes equal."""
    return (lower - mu) / sigma < (upper - mu) / sigma


def _integer_bounds(xp: ModuleType, low: jax.Array, high: jax.Array) -> jax.Array:
    """NumPy takes the whole parts of real bounds, and draws numbers of 64 bits with a sign."""
    (low, fits), (high, also) = _whole_part(xp, low), _whole_part(xp, high)
    return fits & also & (low < high)


def _whole_part(xp: ModuleType, bound: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The whole part of a bound, and whether it is one of 64 bits, or the number after these."""
    if xp.issubdtype(bound.dtype, xp.floating):
        bound = xp.trunc(bound)
        return bound, (bound >= -(2.0**63)) & (bound < 2.0**63)
    if bound.dtype == "uint64":
        return bound, bound <= xp.asarray(2**63, "uint64")
    return bound, xp.asarray(True)


def _mixed_rate(xp: ModuleType, count: jax.Array, chance: jax.Array) -> jax.Array:
    """NumPy draws a negative binomial variable from a Poisson one with a gamma rate."""
    return ~((1 - chance) / chance * (count + 10 * xp.sqrt(count)) > _LARGEST_RATE)


def _mixed_rate_shown(count: Interval, chance: Interval) -> bool:
    if not (count.finite and count.least >= 0 and 0 < chance.least <= chance.most <= 1):
        return False
    largest = (1 - chance.least) / chance.least * (count.most + 10 * count.most**0.5)
    return largest < _LARGEST_RATE / 2


def possible_draw(xp: ModuleType, good: jax.Array, bad: jax.Array, drawn: jax.Array) -> jax.Array:
    """Return True if so many can be drawn from a population that NumPy takes."""
    kind = canonical_dtype("int64")  # narrow integers would wrap
    good, bad, drawn = (xp.asarray(count, kind) for count in (good, bad, drawn))
    counts = (good >= 0) & (bad >= 0) & (drawn >= 0)
    return counts & (xp.maximum(good, bad) < _LARGEST_POPULATION) & (drawn <= good + bad)


def _chances_of_all_but_last(xp: ModuleType, p: jax.Array) -> jax.Array:
    in_range = ((p >= 0) & (p <= 1)).all(axis=-1)
    return in_range & (_wide(xp, p)[..., :-1].sum(axis=-1) <= 1 + 1e-12) & (p.shape[-1] > 0)


def _distribution_function(xp: ModuleType, x: jax.Array, chances: jax.Array) -> jax.Array:
    """PyMC looks for the piece of each draw, and raises where none is there."""
    if x.shape[-1] != chances.shape[-1] or x.shape[-1] < 2:
        return xp.asarray([False])
    steps = (chances[..., :-1] <= chances[..., 1:]).all(axis=-1)
    return steps & (chances[..., 0] == 0) & (chances[..., -1] >= 1 - 1e-15)


_DOMAINS: dict[str, tuple[DomainCondition, ...]] = {
    "pytensor.BernoulliRV": _chance(0),
    # An infinite `a` makes chances that are not numbers; NumPy finds that out when it draws.
    "pytensor.BetaBinomialRV": _counts(0) + _at_least_0(0) + _more_than_0(1, 2) + _finite(1),
    "pytensor.BetaRV": _above_0_or_nan(0, 1),
    "pytensor.BinomialRV": _whole(0) + _at_least_0(0) + _chance(1),
    "pytensor.CauchyRV": _at_least_0(1),
    "pytensor.DirichletRV": _above_0_or_nan(0),
    "pytensor.ExponentialRV": _no_sign(0),
    "pytensor.GammaRV": _no_sign(0, 1),
    "pytensor.GenGammaRV": _together(lambda xp, alpha, p: alpha / p > 0, 0, 1)
    + _each(lambda xp, power: power != 0)(1)
    + _at_least_0(2),
    "pytensor.GeometricRV": _chance_above_0(0),
    "pytensor.GumbelRV": _at_least_0(1),
    "pytensor.HalfCauchyRV": _at_least_0(1),
    "pytensor.HalfNormalRV": _at_least_0(1),
    "pytensor.HyperGeometricRV": _whole(0, 1, 2) + _together(possible_draw, 0, 1, 2),
    "pytensor.IntegersRV": _together(_integer_bounds, 0, 1),
    "pytensor.InvGammaRV": _no_sign(0, 1),
    "pytensor.LaplaceRV": _no_sign(1),
    "pytensor.LogNormalRV": _no_sign(1),
    "pytensor.LogisticRV": _no_sign(1),
    "pytensor.MultinomialRV": _whole(0) + _at_least_0(0) + _together(_chances_of_all_but_last, 1),
    "pytensor.NegBinomialRV": _more_than_0(0)
    + _chance_above_0(1)
    + _together(_mixed_rate, 0, 1, shown=_mixed_rate_shown),
    "pytensor.NormalRV": _no_sign(1),
    "pytensor.ParetoRV": _more_than_0(0) + _at_least_0(1),
    "pytensor.PoissonRV": _each(
        lambda xp, rate: (rate >= 0) & (rate <= _LARGEST_RATE),
        lambda found: found.no_nan and found.least >= 0 and found.most <= _LARGEST_RATE,
    )(0),
    "pytensor.StudentTRV": _more_than_0(0) + _at_least_0(2),
    "pytensor.TriangularRV": _together(lambda xp, left, mode: ~(left > mode), 0, 1)
    + _together(lambda xp, mode, right: ~(mode > right), 1, 2)
    + _together(lambda xp, left, right: left != right, 0, 2),
    "pytensor.TruncExponentialRV": _negated(0) + _more_than_0(0) + _at_least_0(2),
    "pytensor.UniformRV": _together(_width, 0, 1),
    "pytensor.VonMisesRV": _no_sign(1),
    "pytensor.WaldRV": _above_0_or_nan(0, 1),
    "pytensor.WeibullRV": _no_sign(0),
    "pymc.BetaClippedRV": _more_than_0(0, 1),
    "pymc.DiscreteUniformRV": _together(
        lambda xp, low, high: _integer_bounds(xp, low, high + 1), 0, 1
    ),
    "pymc.InterpolatedRV": _together(lambda xp, x, p: xp.asarray(x.shape == p.shape), 0, 1)
    + _together(_distribution_function, 0, 2),
    "pymc.MoyalRV": _at_least_0(1),
    "pymc.RiceRV": _at_least_0(0, 1),
    "pymc.SkewNormalRV": _at_least_0(1) + _finite(2),
    "pymc.SkewStudentTRV": _more_than_0(0, 1) + _at_least_0(3),
    "pymc.TruncatedNormalRV": _at_least_0(1) + _together(_standard_bounds, 0, 1, 2, 3),
    "pymc.WaldRV": _above_0_or_nan(0, 1),
}

_OF_PYTHONS_NUMBERS: dict[str, tuple[DomainCondition, ...]] = {
    "pytensor.InvGammaRV": _more_than_0(0) + _finite(1),  # or the draw that it divides by is 0
}
"""Further conditions where NumPy gives a number of Python's: one draw, and no size."""
