"""Nodes move to later regions only where that moves no more data."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt

from pytensor_jaxlink.compat import ifelse
from tests.helpers import assert_same, compile_both, compiled
from tests.partition.graphs import sort


def test_what_a_size_is_computed_from_stays_where_it_is_fetched() -> None:
    x, y = pt.dvector("x"), pt.dvector("y")
    chosen = ifelse(x.sum() > 0, y * 2, sort(pt.exp(x)))
    # The length of `chosen` is folded on the host, from the sum and from the host step; of the sum
    # all readers but that one run in the later region.
    length = pt.minimum(chosen.shape[0], y.shape[0])
    values = np.arange(3.0) + 1, np.arange(5.0)
    f, reference = compile_both([x, y], chosen[:length] + y[:length])
    for sign in (1, -1):
        arguments = sign * values[0], values[1]
        assert_same(f(*arguments), reference(*arguments))


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
