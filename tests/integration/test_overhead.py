"""Our part of `pytensor.function` is small beside the rewriting, and linear."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.link.compiler import CompiledGraph
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.rewriting.database import FAMILIES

pytestmark = pytest.mark.skipif(
    pytensor.__version__.startswith("3.0."), reason="speed is judged on the newest stack"
)


@pytest.fixture(autouse=True)
def frozen_heap() -> Iterator[None]:
    """What earlier tests have left is not looked at in each collection."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def chain(length: int) -> FunctionGraph:
    x = value = pt.dvector("x")
    steps = [pt.exp, pt.tanh, lambda v: v + x, lambda v: v * 2.5, lambda v: v - v.sum(), pt.cos]
    for position in range(length):
        value = steps[position % len(steps)](value)
    return FunctionGraph([x], [value], clone=True)


def seconds(action: Any) -> float:
    gc.collect()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@pytest.mark.parametrize("length", [50, 300])
def test_a_small_part_of_rewriting(length: int) -> None:
    rewriter = get_mode("JAXSELECTIVE").optimizer
    graphs = [chain(length) for _ in range(2 if length == 50 else 1)]
    rewriting = min(seconds(lambda g=graph: rewriter.rewrite(g)) for graph in graphs)
    compiling = min(seconds(lambda: CompiledGraph(graphs[0], Options())) for _ in range(10))
    assert compiling < 0.1 * rewriting
    if length == 300:  # the rewrites, which find nothing here
        found = sum(
            min(seconds(lambda r=r: r.rewrite(graphs[0])) for _ in range(3)) for r in FAMILIES
        )
        assert found < 0.05 * rewriting


def test_linear_growth() -> None:
    small, large = chain(250), chain(2_000)
    times = [
        min(seconds(lambda g=graph: CompiledGraph(g, Options())) for _ in range(5))
        for graph in (small, large)
    ]
    assert times[1] < 2 * 8 * times[0]
