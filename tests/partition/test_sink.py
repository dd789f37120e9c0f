"""Nodes move to later regions only where that moves no more data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.compat import ifelse
from tests.helpers import assert_same, compile_both, compiled
from tests.partition.graphs import sort

LARGE = pytensor.shared(np.ones(1 << 19), name="large")  # four megabytes


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


class TestNewStates:
    """They are computed in the last region, where the memory of the old ones can be reused."""

    x = pt.dvector("x")

    def operations(self, outputs: Any, new: Any, state: Any) -> list[tuple[str, ...]]:
        given = {"updates": {state: new}, "on_unused_input": "ignore"}
        f = pytensor.function([self.x], outputs, mode="JAXSELECTIVE", **given)
        return [region.operations for region in f.plan.regions]

    def test_with_what_they_alone_read(self) -> None:
        state = pytensor.shared(np.ones(3))
        new = pt.sinh(state * pt.arctan(self.x) + pt.cosh(self.x).sum())
        first, second = self.operations(pt.exp(sort(pt.tanh(self.x))), new, state)
        assert "Tanh" in first
        assert {"Sinh", "Mul", "Add"} <= set(second)

    def test_not_where_a_host_step_follows(self) -> None:
        state = pytensor.shared(np.ones(3))
        [only] = self.operations(sort(pt.tanh(self.x)), pt.sinh(state), state)
        assert "Sinh" in only

    def test_a_large_one_opens_a_region_after_the_host_step(self) -> None:
        new = pt.sinh(LARGE * pt.tanh(self.x).sum())
        first, second = self.operations(sort(pt.tanh(self.x)), new, LARGE)
        assert first == ("Tanh",)
        assert "Sinh" in second

    def test_not_where_as_much_would_cross(self) -> None:
        both = pt.cosh(self.x)  # of unknown length, as the state
        [only] = self.operations(sort(both * 2), pt.sinh(LARGE * both), LARGE)
        assert "Cosh" in only

    @pytest.mark.parametrize("read", [lambda new: sort(new), lambda new: [new, sort(new)]])
    def test_not_where_the_host_or_the_caller_reads_it(self, read: Any) -> None:
        new = pt.sinh(LARGE)
        [only] = self.operations(read(new), new, LARGE)
        assert "Sinh" in only

    def test_not_where_nothing_is_donated(self) -> None:
        f = pytensor.function(
            [self.x],
            sort(pt.tanh(self.x)),
            updates={LARGE: LARGE * 2},
            mode=JAXLinker(donate="none"),
        )
        assert len(f.plan.regions) == 1

    def test_not_where_more_would_cross(self) -> None:
        state = pytensor.shared(np.ones(3))
        parts = [pt.cosh(self.x), pt.arctan(self.x)]
        new = state * 2 + parts[0] * parts[1]
        outputs = [sort(pt.tanh(self.x)) * 2, *parts]
        first, second = self.operations(outputs, new, state)
        assert sum(name.startswith(("Mul", "Add")) for name in first) == 3
        assert not any(name.startswith("Add") for name in second)

    def test_not_where_it_is_returned_too(self) -> None:
        state = pytensor.shared(np.ones(3))
        new = pt.sinh(state)
        first, _ = self.operations([pt.exp(sort(pt.tanh(self.x))), new], new, state)
        assert "Sinh" in first

    def test_a_long_chain(self) -> None:
        state = pytensor.shared(np.ones(3))
        new = state
        for _ in range(600):
            new = pt.sinh(pt.erf(new))
        first, second = self.operations(pt.exp(sort(pt.tanh(self.x))), new, state)
        assert first == ("Tanh",)
        assert len(second) > 1200
