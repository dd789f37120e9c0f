"""Random graphs give what the Python linker gives, or raise what it raises."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.differential.compare import differences
from tests.differential.grammar import PRODUCTIONS

GROUPS, SIZE = 12, 25  # 300 graphs, in groups that run side by side

NUMBERS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_graphs(group: int) -> None:
    @seed(group)
    @settings(
        max_examples=SIZE,
        deadline=None,
        database=None,
        derandomize=False,  # the seed is given
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(NUMBERS, st.data())
    def check(number: int, data: st.DataObject) -> None:
        def choose(below: int) -> int:
            return data.draw(st.integers(0, below - 1))

        assert differences(number, choose) == []

    check()


@pytest.mark.parametrize("number", range(3))
def test_random_loops(number: int) -> None:
    assert differences(number, loops=True) == []


def test_the_grammar_is_wide() -> None:
    assert len(PRODUCTIONS) >= 100
