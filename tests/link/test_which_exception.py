"""Of several operations that raise, the one decides that runs first in the Python linker."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode, get_mode
from pytensor.raise_op import Assert, CheckAndRaise
from pytensor.scan.utils import until

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.link.fallback import PythonFallback
from pytensor_jaxlink.rewriting.notes import given_of, hand_on, keep_given
from pytensor_jaxlink.runtime import Stats
from tests.edges.compare import outcome, outcomes
from tests.helpers import PYTHON, as_list, assert_same

X, M, PLACES, N = pt.dvector("x"), pt.dmatrix("m"), pt.lvector("i"), pt.lscalar("n")


def loop(n: Any) -> Any:
    start = pt.ones((), dtype="float64")
    return pytensor.scan(
        lambda s: s * X.sum() + 1, outputs_info=[start], n_steps=n, return_updates=False
    )


CHOSEN = X[X > 0]
FEWER = (X > 0).sum() - 2


def loop_over(array: Any, n: Any) -> Any:
    start = pt.ones((), dtype="float64")
    return pytensor.scan(
        lambda e, s: s + e,
        sequences=[array],
        outputs_info=[start],
        n_steps=n,
        return_updates=False,
    )


def largest() -> Any:
    return pt.stack([X[:N], PLACES[:N]]).max(axis=0)


POSITIVE = Assert("positive")(X, pt.all(X > 0))
CASES = {
    "gradient of a last state": pt.grad(loop(N)[-1], X),
    "gradient of the states": pt.grad((loop(N) ** 2).sum(), X),
    "a last state": loop(N)[-1],
    "size and index": [pt.zeros(N).sum(), X[PLACES]],
    "index and size": [X[PLACES] * 2, pt.zeros(N).sum()],
    "index and check": [X[PLACES] * 2, POSITIVE],
    "check and index": [POSITIVE, X[PLACES] * 2],
    "sum of both": POSITIVE.sum() + X[PLACES].sum(),
    "factor and index": [pt.linalg.inv(M).sum(), X[PLACES]],
    "scatter and size": pt.set_subtensor(X[PLACES], 1.0).sum() + pt.arange(N)[-1],
    "a loop over what is chosen": loop_over(CHOSEN, N)[-1],
    "steps less than what is chosen": loop_over(CHOSEN, FEWER).sum(),
    "gradient of those": pt.grad(loop_over(CHOSEN, FEWER).sum(), X),
    "one less than what is chosen": pt.concatenate([pt.zeros(FEWER + 1), CHOSEN[:1]]) @ CHOSEN,
    "gradient of the largest": pt.grad(
        pytensor.scan(
            lambda e, s: (s + e, until(s > 2)),
            sequences=[largest()],
            outputs_info=[pt.zeros(())],
            return_updates=False,
        )[-1],
        X,
    ),
    "entry and range": pt.exp(X[N]) * pt.zeros((N, 2))[-1],
}


@pytest.mark.parametrize("dynamic", ["auto", True])
@pytest.mark.parametrize("name", CASES)
def test_the_same_exception(name: str, dynamic: Any) -> None:
    f, reference = (
        pytensor.function(
            [X, M, PLACES, N], as_list(CASES[name]), mode=mode, on_unused_input="ignore"
        )
        for mode in (JAXLinker(dynamic=dynamic), PYTHON)
    )
    good = np.array([1.0, 2.0]), np.eye(2), np.array([0, 1]), 1
    bad = np.array([1.0, -2.0]), np.zeros((2, 2)), np.array([0, 5]), -2
    uneven = np.array([1.0, 2.0, 3.0]), np.eye(2), np.array([], int), 2
    none = np.array([-1.0, -2.0]), *good[1:]
    for arguments in (good, bad, (*bad[:3], 0), (*bad[:3], -7), uneven, none, good):
        found, expected = (outcomes(each, *arguments) for each in (f, reference))
        if isinstance(expected, type) or isinstance(found, type):
            assert found is expected
        else:
            assert_same(found, expected)


def test_the_order_of_updates() -> None:
    """PyTensor writes into what is updated, and where it writes decides which node runs first."""
    level, table = (pytensor.shared(np.zeros(shape)) for shape in ((), (2, 3)))
    total = pt.exp(X)[PLACES].sum()
    updates = {level: level * 0.9 + total, table: pt.set_subtensor(table[N], total)}
    f, reference = (
        pytensor.function([X, M, PLACES, N], pt.specify_shape(M, (None, N)), mode=mode,
                          updates=updates)
        for mode in ("JAXSELECTIVE", PYTHON)
    )  # fmt: skip
    places, found = np.array([0, 0]), set()
    for n in (1, 5, 3, 1):
        one, other = (
            outcome(each, np.ones(2), np.ones((2, 1)), places, n) for each in (f, reference)
        )
        if isinstance(other, type):
            assert one is other
            found.add(one)
        else:
            np.testing.assert_array_equal(one, other)
    assert found == {IndexError}


@pytest.mark.parametrize("options", [{}, {"outputs": "numpy"}, {"dynamic": True}])
def test_arguments_and_states_stay_as_they_were(options: dict[str, Any]) -> None:
    """Python's order is found by running its graph, which has operations in place."""
    state = pytensor.shared(np.arange(6.0) - 2.5, name="state")
    first = pytensor.shared(np.array(0, dtype="int8"), name="first")
    x, v, m, n = pt.dvector("x"), pt.dscalar("v"), pt.lmatrix("m"), pt.lscalar("n")
    outputs = [
        pt.inc_subtensor(m[n], pt.cast(state, "int64")),
        pt.set_subtensor(pt.set_subtensor(state[state > 0.3], v)[first:], x),
    ]
    f = pytensor.function([x, v, m, n], outputs, mode=JAXLinker(**options))
    f(np.arange(6.0), 1.0, np.zeros((1, 6), dtype=int), -1)
    given = [np.arange(65.0), np.array(2.0), np.zeros((1, 65), dtype=int), np.array(5)]
    before = [*map(np.array, given), state.get_value()]
    for _ in range(2):
        with pytest.raises((ValueError, IndexError)):
            f(*given)
        for one, other in zip((*given, state.get_value()), before, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_check_of_a_rewrite_alone_gives_the_value() -> None:
    """A bound that is wrong costs time, and no value."""
    x = pt.dvector("x")
    f = pytensor.function([x], pt.arange(pt.cast(x[0], "int8")) * 2, mode="JAXSELECTIVE")
    compiled = f.vm.compiled
    graph = compiled.source.clone()
    hand_on(compiled.source, graph)
    held = CheckAndRaise(ValueError, "of a rewrite")(graph.outputs[0], pt.ge(graph.inputs[0][0], 3))
    graph.replace(graph.outputs[0], held, import_missing=True)
    keep_given(graph, given_of(compiled.source))
    found = PythonFallback(graph)([np.array([2.0])], None, Stats())
    np.testing.assert_array_equal(found[0], [0, 2])


@pytest.mark.parametrize("rewrites", [None, "fast_compile", "fast_run"])
def test_the_rewrites_of_the_mode_decide(rewrites: str | None) -> None:
    """PyTensor's rewrites compute the last length of a reshape anew, and no longer compare it."""
    x, n = pt.dmatrix("x"), pt.lscalar("n")
    rows = x[x[:, 0] > 0]
    f, reference = (
        pytensor.function([x, n], [rows.reshape((rows.shape[0], n))], mode=Mode(linker, rewrites))
        for linker in (JAXLinker(), "py")
    )
    for length in (3, 2, 7):
        expected = outcomes(reference, np.ones((2, 3)), length)
        for function in (f, f.copy(), deepcopy(f)):
            found = outcomes(function, np.ones((2, 3)), length)
            if isinstance(expected, type):
                assert found is expected
            else:
                assert_same(found, expected)


def test_a_rewriter_of_the_users() -> None:
    x, n = pt.dmatrix("x"), pt.lscalar("n")
    rewriter = get_mode("FAST_COMPILE").optimizer
    f = pytensor.function([x, n], x[x[:, 0] > 0][n], mode=Mode(JAXLinker(), rewriter))
    np.testing.assert_array_equal(f(np.ones((2, 3)), 1), np.ones(3))
    with pytest.raises(IndexError):
        f(np.ones((2, 3)), 2)


def test_what_is_fused_wraps_here() -> None:
    """Fused, the Python linker computes lengths with Python's integers, and raises."""
    x, y, m = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m")
    loop = pytensor.scan(
        lambda v: ifelse(v > 1.5, pt.tanh(v), v * 2), sequences=[y], return_updates=False
    )
    length = pt.minimum(loop[:6].shape[0], x.shape[0])
    # Of an array of nothing no length follows, so that PyTensor finishes the call.
    of_nothing = m[:, 1:].reshape(((x > 0).sum(), m.shape[1] - 1))
    f = pytensor.function(
        [x, y, m], [of_nothing, loop[:6][:length] - x[:length]], mode="JAXSELECTIVE"
    )
    values = np.r_[1.0, np.full(199, -1.0)]
    for _ in range(2):
        nothing, difference = f(values, np.ones(200), np.ones((1, 1)))
        assert nothing.shape == (1, 0)
        np.testing.assert_array_equal(difference, [1, 3, 3, 3, 3, 3])
    assert f.stats.fallbacks == 2


@pytest.mark.filterwarnings("ignore")
def test_a_remainder_by_zero_is_no_exception_beside_another_that_python_finishes() -> None:
    """PyTensor's fused operations compute with Python's numbers, which refuse to divide by zero."""
    last = pt.dvector("last")
    remainder = (PLACES % X) ** 2 * PLACES
    folded = M.reshape((2, -N, (last > 0).sum())).sum(axis=2)
    f, reference = (
        pytensor.function([N, PLACES, X, M, last], [remainder, folded], mode=mode)
        for mode in ("JAXSELECTIVE", PYTHON.excluding("fusion"))
    )
    whole, parts = np.array([1, 2, 0, 3]), np.array([0.0, 1.0, 0.0, 2.0])
    for n in (1, 2):
        arguments = (n, whole, parts, np.zeros((0, 6)), np.ones(2))
        assert_same(f(*arguments), reference(*arguments))
    with pytest.raises(ValueError, match="reshape"):
        f(-1, whole, parts, np.zeros((0, 6)), np.ones(2))
