"""Nodes move to later regions only where that moves no more data."""

from __future__ import annotations

import pytensor.tensor as pt

from tests.helpers import compiled
from tests.partition.graphs import sort


def test_a_node_on_inputs_alone_moves_to_its_reader() -> None:
    x, y = pt.dvector("x"), pt.dvector("y")
    plan = compiled([x, y], [sort(pt.exp(x)) + pt.tanh(y)]).plan
    first, second = plan.regions
    assert first.operations == ("Exp",)
    assert "Tanh" in second.operations


def test_a_reduction_stays_where_its_input_is() -> None:
    x = pt.dvector("x")
    big = pt.exp(x)
    plan = compiled([x], [sort(big) * pt.tanh(pt.cosh(x) + big).sum()]).plan
    first, _ = plan.regions
    assert any(name.startswith("Sum") for name in first.operations)


def test_a_value_that_is_returned_does_not_move() -> None:
    x, y = pt.dvector("x"), pt.dvector("y")
    moved = pt.tanh(y)
    plan = compiled([x, y], [sort(pt.exp(x)) + moved, moved]).plan
    assert "Tanh" in plan.regions[0].operations
