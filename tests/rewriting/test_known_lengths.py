"""Lengths computed from data that must be equal to lengths that are known."""

from __future__ import annotations

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.utils import rewrite_graph

from pytensor_jaxlink import NotJittableError, jaxify
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.rewriting.known_lengths import rewrite_lengths
from tests.helpers import assert_same_outcomes, compile_both, outcome

X, Y, A, B = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("a"), pt.dmatrix("b")
K, J = pt.cast(X[0], "int64"), pt.cast(X[1], "int64")  # known only when the data are
INPUTS = [X, Y, A, B]

WHOLE = {
    "all lengths but one": lambda: Y.reshape((K, 3))[:, 0] * 2,
    "the last length": lambda: Y.reshape((2, K)).sum(axis=0),
    "beside a length from an input": lambda: Y.reshape((K, A.shape[0])).T,
    "a number of true entries": lambda: A.reshape(((Y > 0).sum(), 2)).sum(axis=1),
    "a range": lambda: pt.arange(K) * Y,
    "a range down, in an expression": lambda: pt.exp((5 - pt.arange(5, K, -2)) / 3.0) + Y,
    "a unit matrix": lambda: A + pt.eye(K) * Y[0],
    "a matrix with another diagonal": lambda: A * (1 + pt.eye(K, J, 1)).T,
    "lengths on both sides of a product": lambda: A @ Y.reshape((K, J)) @ B,
    "a column": lambda: (pt.arange(K)[:, None] * A).sum(axis=0),
    "joined beside": lambda: pt.concatenate([Y.reshape((K, J)), A], axis=1)[:, :2] + B[:, :2],
}


def calls() -> list[list[np.ndarray]]:
    """Lengths that fit, and some that do not."""
    y = np.arange(-2.0, 4.0)
    square, wide = np.arange(4.0).reshape(2, 2) + 0.5, np.arange(6.0).reshape(2, 3)
    found = []
    for k in (-6, -1, 0, 1, 2, 3, 6):
        for j in (-1, 2, 3):
            x = np.array([k, j, 0.5])
            found += [[x, y, square, square], [x, y, wide.T, wide], [x, y, wide, wide.T]]
            found += [[x, y, square, wide.T]]
    return [*found, [np.array([0, 3, 1]), np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0))]]


@pytest.mark.parametrize("name", WHOLE)
def test_no_break_and_the_same_values(name: str) -> None:
    f, reference = compile_both(INPUTS, WHOLE[name]())
    assert f.explain().graph_break_count == 0
    assert any(note.rewrite == "jaxlink_lengths" for note in f.explain().rewritten)
    assert_same_outcomes(f, reference, calls())


def test_another_length_may_be_open() -> None:
    """It is known, and negative: then nothing follows for the one that is computed."""
    n = pt.iscalar("n")
    f, reference = compile_both([X, A, n], A.reshape((1, K, n)).sum(axis=0))
    square, nothing = np.arange(4.0).reshape(2, 2), np.zeros((3, 0))
    given = [(k, a, m) for a in (square, nothing) for k in (-1, 0, 1, 2, 4) for m in (2, -1, -3, 0)]
    calls = [(np.array([k, 0.5]), a, np.int32(m)) for k, a, m in given]
    assert_same_outcomes(f, reference, calls)
    assert f.explain().failures == ()
    traced = jax.jit(jaxify([X, A, n], A.reshape((1, K, n)).sum(axis=0)), static_argnums=2)
    np.testing.assert_array_equal(traced(np.array([2.0]), square, 2), square)
    with pytest.raises(NotJittableError):
        traced(np.array([2.0]), square, -1)


KEPT = {
    "nothing says how long": lambda: pt.arange(K) * 2,
    "two lengths": lambda: Y.reshape((K, J)).sum(axis=1),
    "only another late length": lambda: pt.arange(K) * pt.arange(1, K + 1),
    "a dimension of length 1": lambda: pt.arange(K)[:, None] * Y[None],
    "along the dimension that is joined": lambda: pt.concatenate([pt.arange(K), Y])[::2],
    "in a branch": lambda: ifelse(pt.gt(Y.sum(), 0), pt.arange(K) * Y, Y),
}


@pytest.mark.parametrize("name", KEPT)
def test_where_it_must_not_fire(name: str) -> None:
    f = pytensor.function(INPUTS, KEPT[name](), mode="JAXSELECTIVE", on_unused_input="ignore")
    assert f.explain().graph_break_count >= 1
    assert not any(note.rewrite == "jaxlink_lengths" for note in f.explain().rewritten)


def test_lengths_that_are_known_are_left_alone() -> None:
    n = pt.lscalar("n")
    f = pytensor.function([Y, n], Y.reshape((n, 3)) * 2, mode="JAXSELECTIVE")
    assert f.explain().rewritten == ()
    assert f.explain().static_inputs == ("n",)


def test_a_specified_shape_is_looked_at_and_demands_nothing() -> None:
    f, reference = compile_both([X, Y], pt.specify_shape(Y, (K,)) * 2)
    assert f.explain().graph_break_count == 0
    for k in (2, 3):
        x, y = np.array([k]), np.arange(3.0)
        assert np.array_equal(outcome(f, x, y), outcome(reference, x, y))


def test_in_a_loop() -> None:
    ks = pt.lvector("ks")
    sums = pytensor.scan(
        lambda k, y: pt.exp(y.reshape((k, 3)))[:, 0].sum(),
        sequences=[ks],
        non_sequences=[Y],
        return_updates=False,
    )
    f, reference = compile_both([ks, Y], sums)
    assert f.explain().graph_break_count == 0
    y = np.arange(6.0)
    for values in ([2, 2, 2], [2, -1], [2, 3]):
        found, expected = outcome(f, values, y), outcome(reference, values, y)
        assert found is expected if isinstance(expected, type) else np.allclose(found, expected)


def test_it_can_be_turned_off() -> None:
    mode = get_mode("JAXSELECTIVE").excluding("jaxlink_lengths")
    f = pytensor.function([X, Y], pt.arange(K) * Y, mode=mode)
    assert f.explain().graph_break_count == 1


def test_once_is_enough() -> None:
    outputs = [rewrite_graph(pt.arange(K) * Y), rewrite_graph(Y.reshape((K, 3)))]
    fgraph = FunctionGraph([X, Y], outputs, clone=False)
    rewrite_lengths(fgraph)
    once = [str(node.op) for node in fgraph.toposort()]
    assert sum("CheckAndRaise" in op for op in once) == 2
    rewrite_lengths(fgraph)
    assert [str(node.op) for node in fgraph.toposort()] == once
