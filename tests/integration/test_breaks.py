"""Graphs that must be cut: where, how often, and what runs on either side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scan.utils import until

from tests.helpers import black_box, check_against_python, sort_down

X = np.array([0.3, 0.9, 0.1, 0.7, 0.5, 0.7])
sort = black_box(sort_down)
other_sort = black_box(np.sort)


def loop(steps: Any) -> Any:
    return pytensor.scan(
        lambda value: value * 2,
        outputs_info=[pt.ones((), dtype="float64")],
        n_steps=steps,
        return_updates=False,
    )


def steps_from(x: Any) -> Any:
    return pt.cast(pt.floor(pt.exp(x).sum()), "int64")


GRAPHS = {
    "argmax_slice": lambda x: x[: x.argmax(), None] * x,
    "argmax_slice_and_arithmetic": lambda x: (
        (pt.exp(x)[: x.argmax() + 1] * 2).cumsum()[:, None] + x
    ),
    "mask": lambda x: pt.exp(x)[pt.exp(x) > 1.5].reshape((-1, 2)) * 2 + 1,
    "unique_then_sorted": lambda x: pt.sort(pt.unique(pt.exp(x)) * -2),
    "unique": lambda x: pt.unique(pt.exp(x)) * 2,
    "nonzero": lambda x: pt.nonzero(pt.exp(x) > 1.5)[0].reshape((-1, 2)) * 2,
    "black_box": lambda x: sort(pt.exp(x)) * 2,
    "loop": lambda x: loop(steps_from(x)) * 2,
    "zeros": lambda x: pt.zeros(pt.cast(x.sum(), "int64")) + x.max(),
    "sum_of_two_sizes": lambda x: pt.zeros(pt.cast(x.sum(), "int64") + x.argmin()) + x.max(),
    "size_of_a_size": lambda x: (
        pt.zeros(pt.cast(x.sum(), "int64") + x[: x.argmax()].shape[0]) + x.max()
    ),
    "maximum_of_selected": lambda x: pt.zeros(pt.nonzero(x > 0.5)[0].max()) + x.max(),
}


@pytest.mark.parametrize("graph", [pytest.param(g, id=name) for name, g in GRAPHS.items()])
def test_exactly_one_break_between_two_regions(graph: Any) -> None:
    x = pt.dvector("x")
    f = check_against_python([x], graph(x), (X,), (X[::-1].copy(),))
    explanation = f.explain()
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    assert all(region.operations for region in explanation.regions)


def test_the_break_names_the_users_line() -> None:
    x = pt.dvector("x")
    before = pt.exp(x)
    selected = before[before > 1.5]  # this line
    f = pytensor.function([x], selected.cumsum()[:, None] * x, mode="JAXSELECTIVE")
    [cut] = f.explain().breaks
    source = Path(__file__).read_text().splitlines()
    line = 1 + source.index("    selected = before[before > 1.5]  # this line")
    assert cut.where == f"{__file__}:{line}"


def test_everything_else_is_jitted() -> None:
    x = pt.dvector("x")
    f = check_against_python([x], pt.tanh(sort(pt.exp(x)) * 2), (X,))
    first, second = f.explain().regions
    assert first.operations == ("Exp",)
    assert second.operations == ("Mul", "Tanh")


def test_independent_breaks_share_a_host_stage() -> None:
    x = pt.dvector("x")
    f = check_against_python([x], sort(pt.exp(x)) * 2 + other_sort(pt.sin(x)) * 3, (X,))
    explanation = f.explain()
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 2)


def test_a_chain_of_breaks_alternates() -> None:
    x = pt.dvector("x")
    f = check_against_python([x], sort(other_sort(pt.exp(x)) * 2) * 3, (X,))
    explanation = f.explain()
    assert (explanation.graph_count, explanation.graph_break_count) == (3, 2)


def test_adjacent_host_steps_need_no_region_between_them() -> None:
    x = pt.dvector("x")
    f = check_against_python([x], sort(other_sort(pt.exp(x))) * 3, (X,))
    assert f.explain().graph_count == 2


def test_a_host_step_on_an_input_needs_no_region_before_it() -> None:
    x = pt.dvector("x")
    f = check_against_python([x], pt.unique(x) * 2, (X,))
    assert (f.explain().graph_count, f.explain().graph_break_count) == (1, 1)


def test_the_loop_is_named_not_its_buffers() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], loop(steps_from(x)) * 2, mode="JAXSELECTIVE")
    [cut] = f.explain().breaks
    assert cut.op.startswith("Scan")


def test_a_while_loop_runs_on_the_host() -> None:
    x = pt.dvector("x")
    powers = pytensor.scan(
        lambda value: (value * 2, until(value > 10)),
        outputs_info=[x.sum()],
        n_steps=50,
        return_updates=False,
    )
    f = check_against_python([x], powers * 2, (X,))
    assert f.explain().graph_break_count == 1


def test_many_scattered_breaks() -> None:
    x = pt.dvector("x")
    value, breaks = x, 20
    for position in range(2_000):
        value = (
            sort(value) if position % 100 == 50 else pt.tanh(value) if position % 2 else value + x
        )
    f = pytensor.function([x], value, mode="JAXSELECTIVE")
    explanation = f.explain()
    assert explanation.graph_break_count == breaks
    assert explanation.graph_count == breaks + 1
