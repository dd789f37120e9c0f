"""Sizes computed from data that nobody needs as sizes."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.utils import rewrite_graph

from pytensor_jaxlink.rewriting.sizes import rewrite_sizes
from tests.helpers import assert_same_outcomes, compile_both

X, AT = pt.dvector("x"), pt.lscalar("i")
K = pt.cast(X[0], "int64")  # known only when the data are
THETA = X[1:3]


WHOLE = {
    "sum of a range": lambda: pt.arange(K).sum(),
    "sum of a range by steps": lambda: pt.arange(2, K, 3).sum(),
    "largest of a range": lambda: pt.arange(1, K, 2).max(),
    "least of a range down": lambda: pt.arange(K, -3, -2).min(),
    "entry of a range": lambda: pt.arange(K)[AT],
    "entries of a range": lambda: pt.arange(3, K)[pt.stack([AT, AT])],
    "ones": lambda: pt.alloc(X[1], K).sum(),
    "sum of a unit matrix": lambda: pt.eye(K).sum() + pt.eye(K, 5, 1).sum(),
    "entry of a unit matrix": lambda: pt.eye(K)[AT, 1],
    "padded with ones": lambda: pt.exp(pt.concatenate([pt.ones(K), X])).sum(),
    "two levels": lambda: (
        pt.concatenate([pt.full(K, THETA[0]), pt.full(X.shape[0] - K, THETA[1])]) * X
    ),
}


WHOLE |= {
    "entries that are not finite": lambda: (1 / pt.concatenate([pt.zeros(K), THETA])).sum(),
    "the mean of such": lambda: pt.log(pt.concatenate([pt.zeros(K), THETA])).mean(),
    "equal entries that are not finite": lambda: pt.alloc(1 / (X[1] - 0.5), K).sum(),
    "integers joined": lambda: pt.sqr(
        pt.concatenate([pt.alloc(pt.cast(AT * 40, "int8"), K), pt.stack([AT])])
    ).sum(),
    "numbers joined": lambda: pt.sqr(
        pt.concatenate([pt.alloc(pt.cast(X[1] + 1e30, "float32"), K), X])
    ).sum(),
    "numbers of half precision": lambda: pt.concatenate(
        [pt.cast(pt.full(K, X[1] + 1e4), "float16"), pt.cast(-X - 9e3, "float16")]
    ).sum(),
    "stretches of two types": lambda: (
        pt.concatenate([pt.full(K, AT), pt.full(X.shape[0] - K, X[1])]) * X
    ),
    "sum of narrow integers": lambda: pt.arange(pt.cast(K, "int8"), dtype="int8").sum(),
    "sum in a narrow type": lambda: pt.arange(30, K + 30).sum(dtype="int8"),
    "sum as a real number": lambda: pt.arange(K).sum(dtype="float32"),
    "entry of a narrow range": lambda: pt.arange(100, 200 + K, dtype="uint8")[100 + AT],
    "entry of a range by a narrow index": lambda: pt.arange(200 + K)[pt.cast(AT, "int8")],
}


@pytest.mark.parametrize("name", WHOLE)
def test_no_break_and_the_same_values(name: str) -> None:
    f, reference = compile_both([X, AT], WHOLE[name]())
    assert f.explain().graph_break_count == 0
    if name not in ("ones", "equal entries that are not finite"):  # PyTensor's own
        assert any(note.rewrite == "jaxlink_sizes" for note in f.explain().rewritten)
    calls = [
        [np.array([size, 0.5, 1.5, -2, 3, 1]), index]
        for size in range(-2, 8)
        for index in (-3, 0, 2)
    ]
    assert_same_outcomes(f, reference, calls)


KEPT = {
    "a range that may wrap around": lambda: pt.arange(K, dtype="int8").sum(),
    "a range that begins outside": lambda: pt.arange(300, K, dtype="int8")[AT],
    "the range itself": lambda: pt.arange(K) * 2,
    "a row of a unit matrix": lambda: pt.eye(K)[AT],
    "a range of numbers": lambda: pt.arange(X[0]).sum(),
}


@pytest.mark.parametrize("name", KEPT)
def test_where_it_must_not_fire(name: str) -> None:
    f = pytensor.function([X, AT], KEPT[name](), mode="JAXSELECTIVE", on_unused_input="ignore")
    assert f.explain().graph_break_count == 1
    assert f.explain().rewritten == ()


def test_sizes_that_are_known_are_left_alone() -> None:
    n = pt.lscalar("n")
    f = pytensor.function([X, n], pt.arange(n).sum() + X.sum(), mode="JAXSELECTIVE")
    assert f.explain().rewritten == ()
    assert f.explain().static_inputs == ("n",)


def test_a_row_of_a_unit_matrix_needs_no_matrix() -> None:
    n = pt.lscalar("n")
    f, reference = compile_both([n, AT], pt.eye(n)[AT])
    assert not any(
        "Eye" in operation for region in f.plan.regions for operation in region.operations
    )
    np.testing.assert_array_equal(f(4, 2), reference(4, 2))
    with pytest.raises(IndexError):
        f(4, 4)


def test_it_can_be_turned_off() -> None:
    mode = get_mode("JAXSELECTIVE").excluding("jaxlink_sizes")
    f = pytensor.function([X], pt.arange(K).sum(), mode=mode)
    assert f.explain().graph_break_count == 1


def test_once_is_enough() -> None:
    fgraph = FunctionGraph(
        [X, AT], [rewrite_graph(pt.arange(K)[AT] + pt.arange(K).sum())], clone=False
    )
    rewrite_sizes(fgraph)
    once = [str(node.op) for node in fgraph.toposort()]
    assert not any("ARange" in op for op in once)
    rewrite_sizes(fgraph)
    assert [str(node.op) for node in fgraph.toposort()] == once


def test_a_range_that_wraps_around() -> None:
    f, reference = compile_both([X], pt.arange(K, dtype="int8").sum())
    assert_same_outcomes(f, reference, [[np.array([size, 0.5, 1.5])] for size in (3.0, 200, 256)])
