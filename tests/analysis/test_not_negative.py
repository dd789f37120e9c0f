"""What is known of the signs of real numbers, and the checks of draws that it makes needless."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.analysis import Sign, sign_of
from tests.edges.compare import outcome
from tests.helpers import PYTHON

X, S, M = pt.dvector("x"), pt.dscalar("s"), pt.dmatrix("m")
RNG = pytensor.shared(np.random.default_rng(1), "rng")


def drawn(name: str, *parameters: Any, **options: Any) -> Any:
    return getattr(pt.random, name)(*parameters, rng=RNG, **options)


HALF = drawn("halfnormal", 0.0, 2.0, size=(3,))
BOTH, NO_SIGN, NO_NAN, NOTHING = Sign(True, True), Sign(True, False), Sign(False, True), Sign()
SIGNS: dict[str, tuple[Any, Sign]] = {
    "an input": (X, NOTHING),
    "a constant": (pt.constant([0.0, 2.0]), BOTH),
    "an infinite one": (pt.constant(np.inf), BOTH),
    "a negative zero": (pt.constant(-0.0), NO_NAN),
    "a negative number": (pt.constant([1.0, -2.0]), NO_NAN),
    "no number": (pt.constant([1.0, np.nan]), NO_SIGN),
    "an integer": (pt.constant(3), BOTH),
    "a negative integer": (pt.constant(-3), NO_NAN),
    "complex": (pt.constant(1j), Sign(False, True)),
    "half-normal": (HALF, BOTH),
    "an entry of it": (HALF[1], BOTH),
    "a row of it": (HALF[None, 1:], BOTH),
    "a column of it": (HALF[:, None], BOTH),
    "shifted to the left": (drawn("halfnormal", -1.0, 2.0), NO_NAN),
    "shifted by anything": (drawn("halfnormal", S, 2.0), NOTHING),
    "of any scale": (drawn("halfnormal", 0.0, S), NO_SIGN),
    "half-Cauchy": (drawn("halfcauchy", 0.0, 1.0), BOTH),
    "exponential": (drawn("exponential", 2.0), BOTH),
    "gamma": (drawn("gamma", 2.0, scale=S), NO_SIGN),
    "beta": (drawn("beta", 2.0, 3.0), NO_SIGN),
    "uniform": (drawn("uniform", 0.0, 3.0), NO_SIGN),
    "uniform around zero": (drawn("uniform", -1.0, 3.0), NOTHING),
    "normal": (drawn("normal", 5.0, 0.1), NOTHING),
    "exp": (pt.exp(X), NO_SIGN),
    "square": (pt.sqr(X), NO_SIGN),
    "abs of half-normal": (abs(HALF), BOTH),
    "root of half-normal": (pt.sqrt(HALF), BOTH),
    "root": (pt.sqrt(X), NOTHING),
    "sum": (HALF + pt.exp(X), NO_SIGN),
    "sum of two": (HALF + HALF * 1.0, NO_SIGN),
    "product": (HALF * HALF, NO_SIGN),
    "quotient": (1 / HALF, NO_SIGN),
    "difference": (HALF - 1.0, NOTHING),
    "twice": (2 * HALF, NO_SIGN),
    "square of integers": (pt.sqr(pt.bvector("i")), NOTHING),
    "integers that wrap": (pt.abs(pt.bvector("i")), NOTHING),
    "exp of integers": (pt.exp(pt.bvector("i")), NO_SIGN),
    "negative": (-HALF, NOTHING),
}


@pytest.mark.parametrize("name", SIGNS)
def test_signs(name: str) -> None:
    variable, expected = SIGNS[name]
    assert sign_of(variable) == expected


NEEDLESS: dict[str, Any] = {
    "scale from half-normal": lambda: drawn("normal", X, drawn("halfnormal", 0.0, 1.0)),
    "scale from exponential": lambda: drawn("laplace", X, drawn("exponential", 2.0)),
    "SciPy's scale": lambda: drawn("cauchy", X, drawn("halfcauchy", 0.0, 2.0)),
    "exp": lambda: drawn("normal", 0.0, pt.exp(X)),
    "an entry": lambda: drawn("normal", X, drawn("halfnormal", 0.0, 1.0, size=(4,))[2]),
}
NEEDED: dict[str, Any] = {
    "a scale": lambda: drawn("normal", X, S),
    "a scale of a scale": lambda: drawn("normal", X, drawn("halfnormal", 0.0, S)),
    "a location": lambda: drawn("normal", X, drawn("halfnormal", S, 1.0)),
    "SciPy's scale may be NaN": lambda: drawn("cauchy", X, pt.exp(S)),
    "integers wrap": lambda: drawn("normal", X, pt.abs(pt.cast(pt.sqrt(S) * 0 - 128, "int8"))),
    "a number of degrees of freedom": lambda: drawn("t", drawn("halfnormal", 0.0, S), X, 1.0),
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
