"""Between which numbers the entries of an array of real numbers lie, whatever the inputs are.

The scale of a normal variable may not be negative, and a chance not be above 1.  Where a scale is
drawn from a half-normal distribution, and a chance from a beta one, as in most models, nobody has
to look at it, and so the call need not be waited for.

Sums, differences, products, quotients and roots are rounded to the nearest number, so they keep the
order of what is rounded: bounds that are computed in the same way hold for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce, singledispatch
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as functions
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random import basic as random
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.analysis.ranges import DEPTH, MOVING, range_of
from pytensor_jaxlink.graph import (
    GraphNode,
    GraphVariable,
    data_of,
    dtype_of,
    inputs_of,
)


class Interval(NamedTuple):
    """Facts about all entries of an array.

    Attributes
    ----------
    least, most
        No entry is below the one or above the other, except for NaN.
    no_sign
        None has the sign bit, except for NaN.  Of 0.0 and -0.0 the bounds say the same.
    no_nan
        None is NaN.
    """

    least: float = -inf
    most: float = inf
    no_sign: bool = False
    no_nan: bool = False

    @property
    def finite(self) -> bool:
        """True if all entries are finite numbers."""
        return self.no_nan and -inf < self.least and self.most < inf


_UNKNOWN = Interval()


def interval_of(array: GraphVariable, depth: int = DEPTH) -> Interval:
    """The facts about an array.  They cost a walk over the nodes that compute it."""
    dtype = np.dtype(getattr(array.type, "dtype", None) or "complex128")
    if dtype.kind != "f":
        found = range_of(array, depth)
        return Interval(*found, found.least >= 0, no_nan=True) if found else _UNKNOWN
    if isinstance(array, Constant):
        return _of_numbers(np.asarray(data_of(array)))
    node: GraphNode | None = array.owner
    if node is None or depth == 0:
        return _UNKNOWN
    return _in_type(_from(node.op, node, depth - 1), dtype)


def _of_numbers(entries: np.ndarray) -> Interval:
    missing = np.isnan(entries)
    numbers = entries[~missing]
    if not numbers.size:
        return Interval(inf, -inf, no_sign=True, no_nan=not missing.any())
    no_sign = not np.signbit(numbers).any()
    return Interval(float(numbers.min()), float(numbers.max()), no_sign, not missing.any())


def _in_type(found: Interval, dtype: np.dtype) -> Interval:
    """The same for entries of a type.  XLA on a CPU takes the smallest numbers for 0."""
    with np.errstate(over="ignore", under="ignore"):
        least, most = (float(dtype.type(bound)) for bound in found[:2])
    if found.no_sign:
        least = max(least, 0.0)
    return found._replace(
        least=0.0 if 0 < least < np.finfo(dtype).tiny else least,
        most=0.0 if 0 > most > -np.finfo(dtype).tiny else most,
    )


@singledispatch
def _from(op: Op, node: GraphNode, depth: int) -> Interval:
    return _UNKNOWN


def _moved(op: Op, node: GraphNode, depth: int) -> Interval:
    return interval_of(inputs_of(node)[0], depth)


for _kind in MOVING:
    _from.register(_kind, _moved)


# -- arithmetic ------------------------------------------------------------------------------------


@_from.register
def _each(op: Elemwise, node: GraphNode, depth: int) -> Interval:
    compute = next((f for kind, f in _ARITHMETIC.items() if isinstance(op.scalar_op, kind)), None)
    arrays = inputs_of(node)
    # Integers wrap: the sum of two of type int8 may be negative before a real number is added.
    if compute is None or sum(np.dtype(dtype_of(array)).kind in "iub" for array in arrays) > 1:
        return _UNKNOWN
    return compute(*[interval_of(array, depth) for array in arrays])


def _of_ends(
    ends: Sequence[float], operands: Sequence[Interval], *, no_sign: bool, no_nan: bool = True
) -> Interval:
    """The least and the greatest of some numbers bound the results; NaN bounds nothing."""
    if any(map(math.isnan, ends)):
        return Interval(no_sign=no_sign)
    known = no_nan and all(each.finite for each in operands)
    return Interval(min(ends), max(ends), no_sign, known)


def _sum_of_two(one: Interval, other: Interval) -> Interval:
    no_sign = one.no_sign and other.no_sign
    found = _of_ends(
        [one.least + other.least, one.most + other.most], [one, other], no_sign=no_sign
    )
    # Infinities of one sign have a sum.
    return found._replace(no_nan=found.no_nan or (no_sign and one.no_nan and other.no_nan))


def _product_of_two(one: Interval, other: Interval) -> Interval:
    ends = [left * right for left, right in product(one[:2], other[:2])]
    return _of_ends(ends, [one, other], no_sign=one.no_sign and other.no_sign)


def _sum(*terms: Interval) -> Interval:
    return reduce(_sum_of_two, terms)


def _product(*factors: Interval) -> Interval:
    return reduce(_product_of_two, factors)


def _negative(value: Interval) -> Interval:
    return Interval(-value.most, -value.least, no_nan=value.no_nan)


def _difference(one: Interval, other: Interval) -> Interval:
    return _sum_of_two(one, _negative(other))


def _quotient(one: Interval, other: Interval) -> Interval:
    no_sign = one.no_sign and other.no_sign
    if other.least <= 0 <= other.most:
        return Interval(no_sign=no_sign)
    ends = [left / right for left, right in product(one[:2], other[:2])]
    return _of_ends(ends, [one, other], no_sign=no_sign)


def _reciprocal(value: Interval) -> Interval:
    return _quotient(Interval(1.0, 1.0, no_sign=True, no_nan=True), value)


def _absolute(value: Interval) -> Interval:
    return Interval(0.0, max(-value.least, value.most), no_sign=True, no_nan=value.no_nan)


def _square(value: Interval) -> Interval:
    value = _absolute(value)
    return Interval(0.0, value.most * value.most, no_sign=True, no_nan=value.no_nan)


def _root(value: Interval) -> Interval:
    if not value.no_sign:
        return _UNKNOWN
    return value._replace(least=math.sqrt(max(value.least, 0.0)), most=math.sqrt(value.most))


def _exponential(value: Interval) -> Interval:
    """It is rounded to one of the two nearest numbers or a little further."""
    least, most = (math.exp(min(max(bound, -1e3), 709.0)) for bound in value[:2])
    most = inf if value.most > 709 else most * (1 + 1e-5)
    return Interval(least * (1 - 1e-5), most, no_sign=True, no_nan=value.no_nan)


def _logarithm(value: Interval) -> Interval:
    least, most = (math.log(bound) if bound > 0 else -inf for bound in value[:2])
    slack = 1e-5 * (1 + max(abs(bound) for bound in (least, most, 0.0) if abs(bound) < inf))
    return Interval(least - slack, most + slack, no_nan=value.no_nan and value.least >= 0)


def _sigmoid(value: Interval) -> Interval:
    """Far out it may be computed as 0."""
    least = (1 - 1e-3) / (1 + math.exp(-value.least)) if value.least > -30 else 0.0
    return Interval(least, 1.0, no_nan=value.no_nan)


def _same(value: Interval) -> Interval:
    return value


_ARITHMETIC: dict[type, Callable[..., Interval]] = {
    scalar.Add: _sum,
    scalar.Sub: _difference,
    scalar.Mul: _product,
    scalar.TrueDiv: _quotient,
    scalar.Reciprocal: _reciprocal,
    scalar.Neg: _negative,
    scalar.Abs: _absolute,
    scalar.Sqr: _square,
    scalar.Sqrt: _root,
    scalar.Exp: _exponential,
    scalar.Log: _logarithm,
    functions.Sigmoid: _sigmoid,
    scalar.Cast: _same,
    scalar.Identity: _same,
}
"""By scalar Op, in the real numbers; `_in_type` rounds them."""


# -- draws -----------------------------------------------------------------------------------------

_NORMAL = 16.0
"""No generator of normal numbers draws one further out: ours ends at 8.7, NumPy's at 13.7."""

_EXPONENTIAL = 64.0
"""The same of exponential numbers: 36.8 and 45."""

_CUBE = 512.0
"""How many times its concentration, plus 1, the largest gamma variable is.

It is ``d (1 + x / (9 d) ** 0.5) ** 3`` for a normal number x, and d is at least 2 / 3.
"""

_LEAST_CUBE = 1e-49
"""The least gamma variable with a concentration of at least 1; the root above is over 2**-54."""


@_from.register
def _drawn(op: RandomVariable, node: GraphNode, depth: int) -> Interval:
    """Parameters that the domain of the distribution excludes have their own check."""
    found = next((f for kind, f in _DRAWS.items() if isinstance(op, kind)), None)
    if found is None:
        return _UNKNOWN
    # After the generator and the size.
    return found(*[interval_of(parameter, depth) for parameter in inputs_of(node)[2:]])


def _normal(mean: Interval, scale: Interval) -> Interval:
    return _sum_of_two(mean, _product_of_two(Interval(-_NORMAL, _NORMAL, no_nan=True), scale))


def _half_normal(loc: Interval, scale: Interval) -> Interval:
    return _shifted(loc, scale, _NORMAL)


def _half_cauchy(loc: Interval, scale: Interval) -> Interval:
    return _shifted(loc, scale, 1e17)


def _exponential_draw(scale: Interval) -> Interval:
    most = Interval(0.0, _EXPONENTIAL * max(scale.most, 0.0), no_sign=True, no_nan=scale.finite)
    return most if scale.no_nan else most._replace(most=inf)


def _shifted(loc: Interval, scale: Interval, reach: float) -> Interval:
    """From a location on."""
    finite = loc.finite and scale.finite
    most = loc.most + reach * max(scale.most, 0.0) if finite else inf
    return Interval(loc.least, most, loc.no_sign, finite)


def _gamma(alpha: Interval, scale: Interval) -> Interval:
    if not (alpha.finite and scale.finite):
        return Interval(0.0, no_sign=True)
    least = _LEAST_CUBE * max(scale.least, 0.0) if alpha.least >= 1 else 0.0
    most = _CUBE * (alpha.most + 1) * max(scale.most, 0.0)
    return Interval(least, most, no_sign=True, no_nan=True)


def _beta(alpha: Interval, beta: Interval) -> Interval:
    """One gamma variable over the sum of two."""
    usual = alpha.finite and beta.finite and min(alpha.least, beta.least) > 1e-100
    above_1 = usual and alpha.least >= 1
    least = _LEAST_CUBE / (_CUBE * (alpha.most + beta.most + 2)) if above_1 else 0.0
    return Interval(least, 1.0, no_sign=True, no_nan=usual)


def _uniform(low: Interval, high: Interval) -> Interval:
    """The greatest is computed as that of the draws is."""
    if not (low.finite and high.finite):
        return Interval(low.least, no_sign=low.no_sign)
    return Interval(low.least, low.most + (high.most - low.least), low.no_sign, no_nan=True)


def _no_sign(*parameters: Interval) -> Interval:
    return Interval(0.0, no_sign=True)


_DRAWS: dict[type[RandomVariable], Callable[..., Interval]] = {
    random.NormalRV: _normal,
    random.HalfNormalRV: _half_normal,
    random.HalfCauchyRV: _half_cauchy,
    random.ExponentialRV: _exponential_draw,
    random.GammaRV: _gamma,
    random.BetaRV: _beta,
    random.UniformRV: _uniform,
    random.InvGammaRV: _no_sign,
    random.LogNormalRV: _no_sign,
    random.WeibullRV: _no_sign,
}
