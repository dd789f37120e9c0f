"""Random graphs give what the Python linker gives, or raise what it raises."""

from __future__ import annotations

import pytest

from tests.differential.compare import differences
from tests.differential.grammar import PRODUCTIONS

GROUPS, SIZE = 12, 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_graphs(group: int) -> None:
    seeds = range(group * SIZE, (group + 1) * SIZE)
    assert [line for seed in seeds for line in differences(seed)] == []


def test_the_grammar_is_wide() -> None:
    assert len(PRODUCTIONS) >= 80
