"""What is known of the bounds of real numbers, and the checks of draws that it makes needless."""

from __future__ import annotations

from math import inf
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import explicit_graph_inputs

from pytensor_jaxlink.analysis import Interval, interval_of
from pytensor_jaxlink.lowering.streams import normal_of
from tests.edges.compare import outcome
from tests.helpers import PYTHON

X, S, M = pt.dvector("x"), pt.dscalar("s"), pt.dmatrix("m")
RNG = pytensor.shared(np.random.default_rng(1), "rng")


def drawn(name: str, *parameters: Any, **options: Any) -> Any:
    return getattr(pt.random, name)(*parameters, rng=RNG, **options)


HALF, NORMAL = drawn("halfnormal", 0.0, 2.0, size=(3,)), drawn("normal", 0.0, 1.0)
GAMMA, BETA = drawn("gamma", 2.0, scale=3.0), drawn("beta", 2.0, 3.0)
NOTHING, NO_SIGN = Interval(), Interval(0.0, no_sign=True)


def known(least: float, most: float) -> Interval:
    """Of numbers that may have the sign bit."""
    return Interval(least, most, no_sign=False, no_nan=True)


def positive(least: float, most: float) -> Interval:
    return Interval(least, most, no_sign=True, no_nan=True)


INTERVALS: dict[str, tuple[Any, Interval]] = {
    "an input": (X, NOTHING),
    "a constant": (pt.constant([0.0, 2.0]), positive(0, 2)),
    "an infinite one": (pt.constant(np.inf), positive(inf, inf)),
    "a negative zero": (pt.constant(-0.0), known(0, 0)),
    "a negative number": (pt.constant([1.0, -2.0]), known(-2, 1)),
    "no number": (pt.constant([1.0, np.nan]), Interval(1, 1, no_sign=True)),
    "an integer": (pt.constant(3), positive(3, 3)),
    "a negative integer": (pt.constant(-3), known(-3, -3)),
    "complex": (pt.constant(1j), NOTHING),
    "half-normal": (HALF, positive(0, 32)),
    "an entry of it": (HALF[1], positive(0, 32)),
    "a row of it": (HALF[None, 1:], positive(0, 32)),
    "a column of it": (HALF[:, None], positive(0, 32)),
    "in fewer bits": (pt.cast(HALF, "float32"), positive(0, 32)),
    "shifted to the left": (drawn("halfnormal", -1.0, 2.0), known(-1, 31)),
    "shifted by anything": (drawn("halfnormal", S, 2.0), NOTHING),
    "of any scale": (drawn("halfnormal", 0.0, S), NO_SIGN),
    "of a scale that is drawn": (drawn("halfnormal", 0.0, HALF), positive(0, 512)),
    "half-Cauchy": (drawn("halfcauchy", 0.0, 1.0), positive(0, 1e17)),
    "exponential": (drawn("exponential", 2.0), positive(0, 128)),
    "of an exponential scale": (drawn("exponential", S), NO_SIGN),
    "gamma": (GAMMA, positive(3e-49, 4608)),
    "gamma of a small concentration": (drawn("gamma", 0.5, scale=1.0), positive(0, 768)),
    "gamma of any scale": (drawn("gamma", 2.0, scale=S), NO_SIGN),
    "beta": (BETA, positive(1e-49 / 3584, 1)),
    "beta of a small concentration": (drawn("beta", 0.5, 3.0), positive(0, 1)),
    "beta of any concentration": (drawn("beta", S, 3.0), Interval(0, 1, no_sign=True)),
    "uniform": (drawn("uniform", 0.0, 3.0), positive(0, 3)),
    "uniform around zero": (drawn("uniform", -1.0, 3.0), known(-1, 3)),
    "uniform up to anything": (drawn("uniform", 0.0, S), NO_SIGN),
    "normal": (drawn("normal", 5.0, 0.1), known(5 - 1.6, 5 + 1.6)),
    "of any mean": (drawn("normal", S, 0.1), NOTHING),
    "Weibull": (drawn("weibull", 2.0), NO_SIGN),
    "exp": (pt.exp(X), NO_SIGN),
    "exp of normal": (pt.exp(0 * NORMAL), positive(1 - 1e-5, 1 + 1e-5)),
    "exp of what is large": (pt.exp(drawn("normal", 0.0, 50.0)), positive(0, inf)),
    "log": (pt.log(X), NOTHING),
    "log of gamma": (pt.log(1 + 0 * GAMMA), known(-1e-5, 1e-5)),
    "log of half-normal": (pt.log(0 * HALF), known(-inf, -inf)),
    "sigmoid": (pt.sigmoid(X), Interval(0, 1)),
    "sigmoid of normal": (pt.sigmoid(0 * NORMAL), known(0.999 / 2, 1)),
    "sigmoid of what is far out": (pt.sigmoid(drawn("normal", 0.0, 2.0)), known(0, 1)),
    "square": (pt.sqr(X), NO_SIGN),
    "square of normal": (pt.sqr(NORMAL), positive(0, 256)),
    "abs of half-normal": (abs(HALF), positive(0, 32)),
    "root of half-normal": (pt.sqrt(HALF), positive(0, 32**0.5)),
    "root": (pt.sqrt(X), NOTHING),
    "sum": (HALF + pt.exp(X), NO_SIGN),
    "sum of two": (HALF + HALF * 1.0, positive(0, 64)),
    "sum of infinities": (HALF + pt.constant(np.inf), positive(inf, inf)),
    "infinities of two signs": (pt.exp(NORMAL * 50) - pt.exp(NORMAL * 50), NOTHING),
    "product": (HALF * HALF, positive(0, 1024)),
    "quotient": (1 / HALF, NO_SIGN),
    "quotient by gamma": (1 / (1 + GAMMA), positive(1 / 4609, 1)),
    "reciprocal": (pt.reciprocal(1 + GAMMA), positive(1 / 4609, 1)),
    "difference": (HALF - 1.0, known(-1, 31)),
    "the other chance": (1 - BETA, known(0, 1)),
    "twice": (2 * HALF, positive(0, 64)),
    "a number too small for its type": (GAMMA * 1e-300, positive(0, 4608e-300)),
    "square of integers": (pt.sqr(pt.bvector("i")), known(-128, 127)),
    "integers that wrap": (pt.abs(pt.bvector("i")), known(-128, 127)),
    "exp of integers": (pt.exp(pt.bvector("i") * 0.0), positive(1 - 1e-5, 1 + 1e-5)),
    "negative": (-HALF, known(-32, 0)),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals(name: str) -> None:
    variable, expected = INTERVALS[name]
    found = interval_of(variable)
    assert found[2:] == expected[2:]
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-6, atol=1e-13)


def of_draws(variable: Any) -> bool:
    """Whether a graph computes real numbers from draws alone."""
    return variable.owner is not None and not list(explicit_graph_inputs([variable]))


@pytest.mark.parametrize("name", [name for name in INTERVALS if of_draws(INTERVALS[name][0])])
@pytest.mark.parametrize("mode", ["JAXSELECTIVE", PYTHON])
def test_draws_lie_between_the_bounds(name: str, mode: Any) -> None:
    variable, _ = INTERVALS[name]
    f, found = pytensor.function([], variable, mode=mode), interval_of(variable)
    for seed in range(50):
        RNG.set_value(np.random.default_rng(seed))
        value = np.asarray(f())
        assert not (value < found.least).any()
        assert not (value > found.most).any()
        assert not (found.no_sign and np.signbit(value[~np.isnan(value)]).any())
        assert not (found.no_nan and np.isnan(value).any())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_normal_numbers_end(dtype: str) -> None:
    digits = 54 if dtype == "float64" else 25
    with jax.enable_x64(True):
        ends = np.array([2.0**-digits, 1 - 2.0 ** -(digits - 1)], dtype)
        assert np.abs(normal_of(ends[:, None], np.array([0.0, 0.5, 1.0], dtype))).max() < 16


NEEDLESS: dict[str, Any] = {
    "scale from half-normal": lambda: drawn("normal", X, drawn("halfnormal", 0.0, 1.0)),
    "scale from exponential": lambda: drawn("laplace", X, drawn("exponential", 2.0)),
    "SciPy's scale": lambda: drawn("cauchy", X, drawn("halfcauchy", 0.0, 2.0)),
    "exp": lambda: drawn("normal", 0.0, pt.exp(X)),
    "an entry": lambda: drawn("normal", X, drawn("halfnormal", 0.0, 1.0, size=(4,))[2]),
    "a rate from gamma": lambda: drawn("poisson", GAMMA),
    "a rate from a regression": lambda: drawn("poisson", pt.exp(1 + NORMAL * np.arange(3.0))),
    "a chance from beta": lambda: drawn("binomial", 5, BETA),
    "a chance from uniform": lambda: drawn("bernoulli", drawn("uniform", 0.0, 1.0)),
    "a chance from a regression": lambda: drawn("binomial", 5, pt.sigmoid(2 * NORMAL)),
    "the other chance": lambda: drawn("bernoulli", 1 - BETA),
    "a chance above 0": lambda: drawn("geometric", BETA),
    "a negative binomial variable": lambda: drawn("negative_binomial", 2.0, 2 / (2 + GAMMA)),
    "the same as a sigmoid": lambda: drawn(
        "negative_binomial", 2.0, pt.sigmoid(0.7 - pt.log(GAMMA))
    ),
    "concentrations": lambda: drawn("beta", GAMMA, 1 + HALF[0]),
    "beta-binomial": lambda: drawn("betabinom", 5, GAMMA, 2.0),
    "degrees of freedom": lambda: drawn("t", GAMMA, X, 1.0),
}
NEEDED: dict[str, Any] = {
    "a scale": lambda: drawn("normal", X, S),
    "a scale of a scale": lambda: drawn("normal", X, drawn("halfnormal", 0.0, S)),
    "a location": lambda: drawn("normal", X, drawn("halfnormal", S, 1.0)),
    "SciPy's scale may be NaN": lambda: drawn("cauchy", X, pt.exp(S)),
    "integers wrap": lambda: drawn("normal", X, pt.abs(pt.cast(pt.sqrt(S) * 0 - 128, "int8"))),
    "a number of degrees of freedom": lambda: drawn("t", drawn("halfnormal", 0.0, S), X, 1.0),
    "a rate": lambda: drawn("poisson", S),
    "a rate that may be NaN": lambda: drawn("poisson", drawn("gamma", 2.0, scale=S)),
    "a rate that is too large": lambda: drawn("poisson", (1 + GAMMA) * 1e19 * pt.sqr(S)),
    "a chance that may be NaN": lambda: drawn("binomial", 5, pt.sigmoid(S)),
    "a chance above 1": lambda: drawn("binomial", 5, 1 + BETA + 0 * S),
    "a chance of 0": lambda: drawn("geometric", 0 * BETA + 0 * S),
    "a concentration of 0": lambda: drawn("beta", drawn("gamma", 1e-5, scale=1.0) * 0 * S, 1.0),
    "a rate of a mixture": lambda: drawn("negative_binomial", 2.0, 1e-30 + 0 * BETA + 0 * S),
}


def conditions_of(draw: Any) -> int:
    """How many conditions a call has to wait for."""
    f = pytensor.function([X, S], draw, mode="JAXSELECTIVE", on_unused_input="ignore")
    f(np.zeros(3), 1.0)
    found = f._path.call(np.zeros(3), np.array(1.0))
    return len(getattr(found, "conditions", ()))


@pytest.mark.parametrize("name", NEEDLESS)
def test_checks_that_are_needless(name: str) -> None:
    assert conditions_of(NEEDLESS[name]()) == 0


@pytest.mark.parametrize("name", NEEDED)
def test_checks_that_are_needed(name: str) -> None:
    draw = NEEDED[name]()
    f, reference = (
        pytensor.function([X, S], draw, mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE", PYTHON)
    )
    for scale in (1.0, -1.0, np.nan, -0.0):
        given = np.zeros(3), scale
        found, expected = outcome(f, *given), outcome(reference, *given)
        assert (found if isinstance(found, type) else None) is (
            expected if isinstance(expected, type) else None
        )
