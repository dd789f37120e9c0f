"""A side of an `IfElse` that is not taken does not run, wherever the call is finished.

PyTensor's Python linker runs both sides, so it raises for the other one:
`docs/known_differences.md` has the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.compat import ifelse
from tests.edges.compare import outcome
from tests.edges.known import known
from tests.helpers import PYTHON, black_box, sort_down

X, PLACES, C = pt.dvector("x"), pt.lvector("i"), pt.dscalar("c")
ON_HOST = black_box(sort_down)

SIDES: dict[str, Callable[[Any], Any]] = {
    "gather": lambda c: ifelse(c, X, X[PLACES]),
    "largest": lambda c: ifelse(c, X.sum(), X[PLACES].max()),
    "check": lambda c: ifelse(c, X, Assert("positive")(X, pt.all(PLACES < 3))),
    "on the host": lambda c: ifelse(c, X, ON_HOST(X[PLACES])),
    "of two shapes": lambda c: ifelse(c, X, pt.cumsum(X[PLACES])[:2]),
    "distinct": lambda c: ifelse(c, pt.tanh(X), pt.unique(X[PLACES])),
}
CONDITIONS: dict[str, Callable[[], Any]] = {
    "an argument": lambda: pt.gt(C, 0),
    "data": lambda: pt.gt(X.sum() + C, 0),
    "on the host": lambda: pt.gt(pt.unique(X).shape[0] + C, 0),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("side", SIDES)
def test_a_side_that_is_not_taken_does_not_raise(side: str, condition: str) -> None:
    output = SIDES[side](CONDITIONS[condition]())
    f, reference = (
        pytensor.function([X, PLACES, C], output, mode=mode) for mode in (JAXLinker(), PYTHON)
    )
    x, places, outside = np.array([3.0, 1.0, 2.0]), np.array([0, 2, 1]), np.array([0, 7, 1])
    taken = outcome(f, x, places, 100.0)
    for c in (100.0, -100.0):
        for index in (places, outside, places):
            found, expected = outcome(f, x, index, c), outcome(reference, x, index, c)
            if c > 0 and index is outside:
                assert known("IfElse", (), expected, found) is not None
                expected = taken
            if isinstance(expected, type):
                assert found is expected
            else:
                np.testing.assert_allclose(found, expected)


OF_SOME: dict[str, Callable[[Any], Any]] = {
    "first entry": lambda c: ifelse(c, X.sum(), X[0]),
    "largest": lambda c: ifelse(c, X.max(), X.sum()),
    "nested": lambda c: ifelse(c, ifelse(X.sum() > 5, X[0], X[1]), X.sum()),
    "set": lambda c: ifelse(c, pt.set_subtensor(X[0], 2.0), X),
    "gathered": lambda c: ifelse(c, X.sum(), X[np.array([0, 0])].sum()),
    "in a loop": lambda c: pytensor.scan(
        lambda s: ifelse(c, s + X.sum(), s + X[0]),
        outputs_info=[pt.zeros(())],
        n_steps=2,
        return_updates=False,
    ),
}


@pytest.mark.parametrize("side", OF_SOME)
def test_a_side_that_raises_for_the_shapes_of_a_call(side: str) -> None:
    """It is no reason to run the branch on the host from then on."""
    output = OF_SOME[side](CONDITIONS["data"]())
    f, reference = (pytensor.function([X, C], output, mode=mode) for mode in (JAXLinker(), PYTHON))
    for x in (np.zeros(0), np.array([3.0, 1.0, 2.0]), np.zeros(0)):
        for c in (100.0, -100.0):
            found, expected = outcome(f, x, c), outcome(reference, x, c)
            if isinstance(expected, type):
                allowed = known("IfElse", (), expected, found) is not None
                assert found is expected or allowed
            else:
                np.testing.assert_allclose(found, expected)
    assert not f.explain().failures
