"""What a loop computes from its sequences alone is computed before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.scan.op import Scan

from pytensor_jaxlink.rewriting.hoisting import hoist_from_loops
from tests.helpers import check_against_python, compile_both

M, W = pt.dmatrix("m"), pt.dvector("w")
ROWS, WEIGHTS = np.random.default_rng(0).normal(size=(5, 3)), np.array([0.5, -1.0, 2.0])


def scan(step: Any, **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def forward() -> Any:
    """The forward algorithm of a hidden Markov model."""
    alphas = scan(
        lambda row, alpha, w: row + pt.logsumexp(alpha[:, None] + w[None, :] * w[:, None], axis=0),
        sequences=[M[1:]],
        outputs_info=[M[0]],
        non_sequences=[W],
    )
    return pt.logsumexp(alphas[-1])


LOOPS = {
    "a norm of each row": lambda: scan(
        lambda row, s, w: s * pt.exp(row - row.max()).sum() + w.sum(),
        sequences=[M],
        outputs_info=[pt.constant(1.0, dtype="float64")],
        non_sequences=[W],
    ),
    "with what is fixed": lambda: scan(
        lambda row, s, w: s + pt.log(pt.exp(row * w).sum()),
        sequences=[M],
        outputs_info=[pt.constant(0.0, dtype="float64")],
        non_sequences=[W],
    ),
    "fewer steps than rows": lambda: scan(
        lambda row, s: s + pt.exp(row).sum(),
        sequences=[M],
        outputs_info=[pt.constant(0.0, dtype="float64")],
        n_steps=3,
    ),
    "gradient of the forward algorithm": lambda: pytensor.grad(forward(), [M, W]),
    "gradient in a loop over lags": lambda: pytensor.grad(
        scan(
            lambda now, before, s: s * pt.tanh(pt.logsumexp(now * before)),
            sequences=[{"input": M, "taps": [0, -1]}],
            outputs_info=[pt.constant(1.0, dtype="float64")],
        ).sum(),
        M,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_same_values(name: str) -> None:
    f = check_against_python([M, W], LOOPS[name](), (ROWS, WEIGHTS), (ROWS[:3], WEIGHTS))
    assert f.explain().graph_break_count == 0


def loops_of(graph: FunctionGraph) -> list[Any]:
    return [node for node in graph.toposort() if isinstance(node.op, Scan)]


def test_a_reduction_leaves_the_loop() -> None:
    graph = FunctionGraph([M, W], [LOOPS["a norm of each row"]()], clone=True)
    hoist_from_loops(graph)
    [loop] = loops_of(graph)
    inside = {str(node.op) for node in loop.op.fgraph.apply_nodes}
    assert "Exp" not in inside
    hoist_from_loops(graph)
    assert loops_of(graph) == [loop]


KEPT = {
    "cheap arithmetic": lambda row, s: s + (row * 2).sum(),
    "of the state": lambda row, s: s + pt.exp(row * s).sum(),
    "solutions": lambda row, s: s + pt.linalg.solve(row[:, None] * row + pt.eye(3), row).sum(),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    out = scan(KEPT[name], sequences=[M], outputs_info=[pt.constant(1.0, dtype="float64")])
    graph = FunctionGraph([M], [out], clone=True)
    before = loops_of(graph)
    hoist_from_loops(graph)
    assert loops_of(graph) == before


def test_an_empty_loop() -> None:
    f, reference = compile_both([M, W], LOOPS["with what is fixed"]())
    found, expected = (g(ROWS[:0], WEIGHTS) for g in (f, reference))
    np.testing.assert_array_equal(found, expected)
