"""Random graphs give what the Python linker gives, or raise what it raises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.__main__ import turn
from tests.differential.bounds import LOWERED
from tests.differential.compare import compare
from tests.differential.grammar import PRODUCTIONS, random_graph
from tests.differential.options import OPTIONS
from tests.differential.report import in_words
from tests.differential.shared_code import shared_code
from tests.differential.shrink import shrunk

GRAPHS = 12


@pytest.fixture(autouse=True, scope="module")
def _code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """XLA compiles equal programs once while these tests run: most options give the same ones."""
    with shared_code(tmp_path_factory.mktemp("code")):
        yield


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graph(seed: int) -> None:
    if compare(random_graph(seed)).differences:
        graph, differences = shrunk(seed, OPTIONS)
        pytest.fail("\n".join([f"seed {seed}", *differences, in_words(graph)]))


@pytest.mark.parametrize("seed", range(GRAPHS, GRAPHS + 2))
def test_random_graph_with_lowered_bounds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is for large arrays, and for many calls, meets small ones."""
    for module, bounds in LOWERED.items():
        for name, bound in bounds.items():
            monkeypatch.setattr(module, name, bound)
    assert compare(random_graph(seed)).differences == []


def test_every_production_is_reached() -> None:
    left = set(PRODUCTIONS)
    for seed in range(250):
        left -= {step.production for step in random_graph(seed).steps}
    for name in left:  # the rare ones; about 1,100 graphs of the whole grammar reach all
        graphs = (random_graph(seed, only=(name,)) for seed in range(40))
        assert any(step.production == name for graph in graphs for step in graph.steps), name


def test_processes_take_the_options_in_turn() -> None:
    taken = [turn(OPTIONS, 2, number) for number in range(9)]
    assert all(options[0] == OPTIONS[0] and len({*options}) == 3 for options in taken)
    assert {option for options in taken for option in options} == {*OPTIONS}
    assert turn(OPTIONS, 0, 3) == turn(OPTIONS, 20, 3) == OPTIONS


def test_the_grammar_is_wide() -> None:
    assert len(PRODUCTIONS) >= 400
