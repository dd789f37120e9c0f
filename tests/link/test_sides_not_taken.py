"""A side of an `IfElse` that is not taken does not run, wherever the call is finished.

PyTensor's Python linker runs both sides, so it raises for the other one:
`docs/known_differences.md` has the row.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
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
from tests.helpers import PYTHON, black_box, compile_both, sort_down

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
    "reshaped": lambda c: ifelse(c, X.sum(), X.reshape((3, 1))[0, 0]),
    "reshaped to a length": lambda c: ifelse(c, X.reshape((3, -1))[0, 0], X.sum()),
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


Y, N = pt.dvector("y"), pt.lscalar("n")


def test_a_side_whose_lengths_do_not_fit() -> None:
    """The check of a length is false while JAX traces: an AssertionError, which no rule raises."""
    summed = pt.inc_subtensor(X[N : N + 2], Y)
    slope = pt.grad((summed * summed.sum()).sum(), X)[N : N + 2]
    output = ifelse(C > 0, pt.tanh(X[:1]), pt.cumsum(slope))
    f = pytensor.function([X, Y, N, C], output, mode=JAXLinker())
    for y in (np.ones(4), np.ones(3)):
        np.testing.assert_allclose(f(np.ones(4), y, -1, 1.0), [np.tanh(1.0)])
    assert not f.explain().failures


OF_TWO_SHAPES: dict[str, Callable[[Any], Any]] = {
    "in a side": lambda r: ifelse(C > 0, r * 2, X),
    "in both sides": lambda r: ifelse(C > 0, r * 2, ifelse(C > -200, X, Y)),
    "three deep": lambda r: ifelse(C > 0, ifelse(X.sum() < 1000, r + X.sum(), X), X),
    "prefixes": lambda r: (
        ifelse(C > 0, r, X)[: pt.minimum(r.shape[0], X.shape[0])] - X[: r.shape[0]]
    ),
    "a loop in a side": lambda r: ifelse(
        C > 0,
        pytensor.scan(
            lambda s: s + r.sum(), outputs_info=[pt.zeros(())], n_steps=2, return_updates=False
        )[-1],
        X.sum(),
    ),
}


@pytest.mark.parametrize("graph", OF_TWO_SHAPES)
def test_what_is_learned_about_a_branch_in_a_branch_stays_learned(graph: str) -> None:
    """Sides of two shapes are known from the first such call on, and no later call fails."""
    output = OF_TWO_SHAPES[graph](ifelse(Y.sum() > 20, Y, X + 1))
    f, reference = (
        pytensor.function([X, Y, C], output, mode=mode) for mode in (JAXLinker(), PYTHON)
    )
    lengths = [(3, 3), (3, 2), (2, 3), (4, 2), (0, 5)]
    fallbacks = []
    for first, second in [*lengths, *lengths]:
        for c in (100.0, -100.0, -300.0):
            arguments = np.arange(float(first)), np.arange(float(second)) + 10, c
            found, expected = outcome(f, *arguments), outcome(reference, *arguments)
            if isinstance(expected, type):
                assert found is expected
            else:
                np.testing.assert_array_equal(found, expected)
        fallbacks.append(f.stats.fallbacks)
    assert fallbacks[len(lengths)] == fallbacks[-1]
    assert all("different shapes" in failure for failure in f.explain().failures)


def test_what_two_branches_read_may_not_fit_where_it_is_not_needed() -> None:
    """It runs before them, and stays in its region."""
    both = pt.set_subtensor(X[:2], Y)
    output = ifelse(C > 0, X.sum(), both.sum()) + ifelse(C > -5, pt.zeros(()), both.max())
    f = pytensor.function([X, Y, C], output, mode=JAXLinker())
    assert float(f(np.ones(3), np.ones(3), 1.0)) == 3
    with pytest.raises(ValueError, match="broadcast"):
        f(np.ones(3), np.ones(3), -1.0)
    assert float(f(np.ones(3), np.full(2, 5.0), -1.0)) == 11
    assert not f.explain().failures


OF_TWO_LENGTHS: dict[str, Callable[[Any, Any], Any]] = {
    "sub": pt.sub,
    "mod": pt.mod,
    "pow": pt.pow,
    "dot": pt.dot,
    "matmul": lambda x, y: pt.matmul(x[None, None], y[None, :, None]),
    "tensordot": lambda x, y: pt.tensordot(x, y, 1),
    "stack": lambda x, y: pt.stack([x, y]),
    "join": lambda x, y: pt.join(1, x[:, None], y[:, None]),
}


@pytest.mark.parametrize("name", OF_TWO_LENGTHS)
def test_a_side_with_arrays_of_two_lengths_is_no_failure(name: str) -> None:
    operation = OF_TWO_LENGTHS[name]
    f = pytensor.function(
        [X, Y], ifelse(X.sum() > 0, X.sum(), operation(X, Y).sum()), mode=JAXLinker()
    )
    for length in (3, 2, 5):
        assert float(f(np.ones(3), np.ones(length))) == 3
    assert f.stats.fallbacks == 0
    assert not f.explain().failures


SHARED: dict[str, Callable[[Any, Any], list[Any]]] = {
    "a value and its length": lambda c, on_host: _with_length(ifelse(c, X * 2, on_host)),
    "two values": lambda c, on_host: [ifelse(c, X, on_host), ifelse(c, X.sum(), on_host.max())],
    "three": lambda c, on_host: [
        ifelse(c, X, on_host),
        ifelse(c, X.min(), on_host.max()),
        ifelse(c, X.sum(), on_host.min()) * 2,
    ],
    "several results each": lambda c, on_host: [
        *ifelse(c, [X, X + 1], [on_host, on_host * 2]),
        *ifelse(c, [X.sum(), X], [on_host.sum(), on_host - 1]),
    ],
}


def _with_length(chosen: Any) -> list[Any]:
    return [
        chosen,
        pytensor.scan(
            lambda entry, s: s + entry,
            sequences=[chosen],
            outputs_info=[pt.zeros(())],
            go_backwards=True,
            return_updates=False,
        ),
    ]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("graph", SHARED)
def test_a_host_step_that_two_branches_share(graph: str, condition: str) -> None:
    """It runs once where it is needed, and neither it nor what it reads where it is not."""
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(len(x))
        return sort_down(x)

    outputs = SHARED[graph](CONDITIONS[condition](), black_box(counted)(X * Y))
    f, reference = compile_both([X, Y, C], outputs, JAXLinker())
    x, other = np.array([3.0, 1.0, 2.0]), np.ones(2)
    for y, c in ((other, 100.0), (x, -100.0), (other, 100.0), (x, -100.0)):
        expected = reference(x, x, c)
        calls.clear()
        for got, value in zip(f(x, y, c), expected, strict=True):
            np.testing.assert_allclose(got, value)
        assert len(calls) == (c < 0)
    assert not f.explain().failures


def test_branches_of_two_conditions_that_read_each_other() -> None:
    """Those of one condition may be one, or those of the other."""
    first, second = black_box(sort_down)(X * Y), black_box(sort_down)(Y + 1)
    one, two = ifelse(C > 0, X, first), ifelse(N > 0, X, second)
    outputs = [
        one,
        two,
        ifelse(C > 0, two.sum(), first.max()),
        ifelse(N > 0, one.sum(), second.max()),
    ]
    f, reference = compile_both([X, Y, C, N], outputs, JAXLinker())
    x = np.array([3.0, 1.0, 2.0])
    for c, n in product((1.0, -1.0), (0, 1)):
        for got, value in zip(f(x, x, c, n), reference(x, x, c, n), strict=True):
            np.testing.assert_allclose(got, value)
