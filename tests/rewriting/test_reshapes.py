"""Reshapes to shapes computed from data, lifted toward an end that does not need the shape."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.utils import rewrite_graph

from pytensor_jaxlink.rewriting.reshapes import rewrite_reshapes
from tests.helpers import assert_same_outcomes, compile_both

X, Y, A = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("a")
K = pt.cast(X[0], "int64")  # known only when the data are
TABLE, OTHER = Y.reshape((K, -1)), pt.sin(Y).reshape((K, -1))
INPUTS = [X, Y, A]

WHOLE = {
    "sum": lambda: (pt.exp(TABLE) * 2).sum(),
    "product of tables": lambda: (TABLE * OTHER).max(),
    "beside a scalar": lambda: (TABLE * pt.dot(Y, Y)).prod(),
    "transposed": lambda: (TABLE.T * pt.exp(OTHER.T)).sum(),
    "new dimensions": lambda: (TABLE[:, None] - OTHER[:, None])[None].min(),
    "mean and deviation": lambda: pt.stack([TABLE.mean(), TABLE.std()]),
    "logarithm of a sum": lambda: pt.logsumexp(TABLE),
    "largest": lambda: pt.argmax(TABLE * 2),
    "cast": lambda: TABLE.astype("float32").sum(),
    "any": lambda: (TABLE > 2).any() | (OTHER > 2).all(),
    "flattened": lambda: (TABLE[:, None] + 1).ravel(),
    "another table": lambda: (TABLE * 3).reshape((2, -1)).sum(axis=1),
    "running sum": lambda: pt.cumsum(TABLE * 2),
    "sorted": lambda: pt.sort(TABLE - 1, axis=None)[-2:],
    "softmax": lambda: pt.special.softmax(TABLE, axis=None).ravel(),
    "its shape said": lambda: (pt.specify_shape(TABLE, (None, 3)) * 2).ravel(),
    "joined": lambda: (pt.concatenate([TABLE, OTHER * 2], axis=1) * 2).sum(),
    "joined in order": lambda: pt.concatenate([OTHER, TABLE]).ravel(),
    "joined to another matrix": lambda: pt.concatenate([TABLE, A], axis=1).max(),
    "joined and combined": lambda: (
        pt.concatenate([TABLE, A], axis=1) * pt.exp(pt.concatenate([TABLE, A], axis=1))
    ).sum(),
    "repeated": lambda: (pt.alloc(TABLE, 3, K, Y.shape[0] // K) * 2).sum(),
    "repeated in order": lambda: pt.exp(pt.alloc(TABLE, 2, 2, K, 3)).ravel(),
    "one entry": lambda: (TABLE * 2)[1, -1] + TABLE[0, 0],
    "gradient": lambda: pt.grad((pt.exp(TABLE) ** 2).sum(), Y),
    "size": lambda: TABLE.size * Y.sum(),
}


def calls() -> list[list[np.ndarray]]:
    y = np.array([0.5, -1.0, 2.5, 0.25, 3.5, 1.0])
    matrices = [np.arange(4.0).reshape(2, 2), np.arange(6.0).reshape(3, 2)]
    found = [[np.array([k, 1.0]), y, a] for k in (-2, -1, 0, 1, 2, 3, 4, 6) for a in matrices]
    nan = np.where(y > 3, np.nan, y)
    return [*found, [np.array([2.0]), nan, matrices[0]], [np.array([2.0]), y[:0], matrices[0]]]


@pytest.mark.parametrize("name", WHOLE)
def test_no_break_and_the_same_values(name: str) -> None:
    f, reference = compile_both(INPUTS, WHOLE[name]())
    assert f.explain().graph_break_count == 0
    if name != "size":  # PyTensor's own
        assert f.explain().rewritten
    assert_same_outcomes(f, reference, calls())


KEPT = {
    "rows": lambda: TABLE.sum(axis=1),
    "tables of two shapes": lambda: (TABLE * Y.reshape((-1, K))).sum(),
    "repeated as often as data say": lambda: pt.alloc(TABLE, K, K, 3).ravel(),
    "in another order": lambda: TABLE.T.ravel(),
    "place in another order": lambda: pt.argmax(TABLE.T),
    "beside a row": lambda: (TABLE * A[0]).sum(),
    "joined in another order": lambda: pt.concatenate([TABLE, OTHER], axis=1).ravel(),
    "one reader that needs it": lambda: TABLE.sum() + TABLE.sum(axis=0).max(),
    "a row": lambda: TABLE[1],
}


@pytest.mark.parametrize("name", KEPT)
def test_where_it_must_not_fire(name: str) -> None:
    f = pytensor.function(INPUTS, KEPT[name](), mode="JAXSELECTIVE", on_unused_input="ignore")
    assert f.explain().graph_break_count == 1
    assert f.explain().rewritten == ()


def test_a_shape_that_is_known_is_left_alone() -> None:
    n = pt.lscalar("n")
    f = pytensor.function([Y, n], (Y.reshape((n, -1)) * 2).sum(), mode="JAXSELECTIVE")
    assert f.explain().rewritten == ()


def test_it_can_be_turned_off() -> None:
    mode = get_mode("JAXSELECTIVE").excluding("jaxlink_reshapes")
    f = pytensor.function([X, Y], (TABLE * 2).sum(), mode=mode)
    assert f.explain().graph_break_count == 1


def test_once_is_enough() -> None:
    fgraph = FunctionGraph([X, Y], [rewrite_graph((pt.exp(TABLE) * 2).sum())], clone=False)
    rewrite_reshapes(fgraph)
    once = [str(node.op) for node in fgraph.toposort()]
    rewrite_reshapes(fgraph)
    assert [str(node.op) for node in fgraph.toposort()] == once
