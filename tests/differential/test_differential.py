"""Random graphs give what the Python linker gives, or raise what it raises."""

from __future__ import annotations

from collections.abc import Iterator

import pytensor
import pytest

from tests.differential.compare import compare
from tests.differential.grammar import PRODUCTIONS, random_graph
from tests.differential.options import OPTIONS
from tests.differential.report import in_words
from tests.differential.shared_code import shared_code
from tests.differential.shrink import shrunk

GRAPHS = 24


@pytest.fixture(autouse=True, scope="module")
def _code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """XLA compiles equal programs once while these tests run: most options give the same ones."""
    with shared_code(tmp_path_factory.mktemp("code")):
        yield


AWAITED: dict[int, str] = {}
if pytensor.__version__.startswith("3.0."):
    AWAITED[10] = "a loaded region does not refuse a length of 1 that PyTensor 3.0 refuses"
"""Graphs that differ, and why."""


def _awaited(seed: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(reason=AWAITED[seed])] if seed in AWAITED else []


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=_awaited(seed)) for seed in range(GRAPHS)],
)
def test_random_graph(seed: int) -> None:
    if compare(random_graph(seed)).differences:
        graph, differences = shrunk(seed, OPTIONS)
        pytest.fail("\n".join([f"seed {seed}", *differences, in_words(graph)]))


def test_every_production_is_reached() -> None:
    made = {step.production for seed in range(1200) for step in random_graph(seed).steps}
    assert set(PRODUCTIONS) - made == set()


def test_the_grammar_is_wide() -> None:
    assert len(PRODUCTIONS) >= 400
