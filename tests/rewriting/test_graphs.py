"""The graph that each rewrite leaves, beside one written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.printing import debugprint
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.ops import DynamicSlice, Fitted
from pytensor_jaxlink.rewriting.database import NAMES, rewrite_again
from pytensor_jaxlink.rewriting.dynamic_slices import rewrite_dynamic_slices
from pytensor_jaxlink.rewriting.known_lengths import rewrite_lengths
from pytensor_jaxlink.rewriting.masks import rewrite_masks
from pytensor_jaxlink.rewriting.reshapes import rewrite_reshapes
from pytensor_jaxlink.rewriting.sizes import rewrite_sizes

X, Y, A, MASK = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("a"), pt.vector("m", dtype="bool")
K = pt.cast(X[0], "int64")  # known only when the data are

N = Shape_i(0)(Y)

Case = tuple[Any, Callable[[], Any], Callable[[], Any], int]

CASES: dict[str, Case] = {
    "a range": (
        rewrite_lengths,
        lambda: pt.arange(2, K) * Y,
        lambda: (2 + pt.arange(N)) * Y,
        1,
    ),
    "a reshape with one late length": (
        rewrite_lengths,
        lambda: Y.reshape((K, 3)),  # of which 3 is cast, and may be 0 for all the rewrite knows
        lambda: Y.reshape((Y.shape[0] // 3, 3)),
        2,
    ),
    "a reshape under a reduction": (
        rewrite_reshapes,
        lambda: pt.exp(Y.reshape((K, -1)).T).sum(),
        lambda: pt.exp(Y).sum(),
        1,
    ),
    "reshapes joined": (
        rewrite_reshapes,
        lambda: pt.concatenate([Y.reshape((K, -1)), A], axis=1).max(),
        lambda: pt.concatenate([Y, A.flatten()]).max(),
        3,
    ),
    "the sum of ones": (
        rewrite_sizes,
        lambda: pt.alloc(Y[1], K).sum(),
        lambda: pt.switch(
            pt.eq(pt.stack([K]).prod(), 0), 0.0, Y[1] * pt.stack([K]).prod().astype("float64")
        ),
        1,
    ),
    "a dynamic slice": (
        rewrite_dynamic_slices,
        lambda: Y[K : K + 3],
        lambda: DynamicSlice(0, exact=False)(Y, K, K + 3, pt.constant(3, dtype="int64")),
        0,
    ),
    "a mask": (
        rewrite_masks,
        lambda: pt.exp(Y[MASK]).sum(),
        lambda: pt.switch(MASK, pt.exp(Fitted(0, by_places=False)(Y, MASK)), 0.0).sum(),
        0,
    ),
    "a prefix": (
        rewrite_masks,
        lambda: Y[:K].prod(),
        lambda: pt.switch(
            pt.arange(N) < pt.clip(pt.switch(K < 0, K + N, K), 0, N),
            Y,
            1.0,
        ).prod(),
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_graph(name: str) -> None:
    rewrite, before, after, checks = CASES[name]
    inputs = [X, Y, A, MASK]
    fgraph = FunctionGraph(inputs, [before()], clone=False)
    rewrite(fgraph)
    found = [node for node in fgraph.toposort() if isinstance(node.op, CheckAndRaise)]
    assert len(found) == checks
    for node in found:
        fgraph.replace(node.outputs[0], node.inputs[0])
    one, other = (rewrite_graph(graph) for graph in (fgraph.outputs[0], after()))
    assert debugprint(one, file="str") == debugprint(other, file="str")


def test_what_is_computed_with_equal_constants_is_computed_once() -> None:
    theta, group, length = pt.dvector("theta"), pt.lvector("group"), pt.lscalar("length")
    read = theta[group[:length]]
    graph = FunctionGraph([theta, group, length], [read.sum(), pt.grad((read**2).sum(), theta)])
    rewrite_again(graph, {2}, NAMES)
    computed = [(node.op, *map(_value, node.inputs)) for node in graph.apply_nodes]
    assert len(computed) == len(set(computed)) > 10


def _value(variable: Any) -> Any:
    return variable.signature() if isinstance(variable, Constant) else variable
