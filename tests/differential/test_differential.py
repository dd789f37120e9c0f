"""Random graphs give what the Python linker gives, or raise what it raises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from tests.differential.compare import compare
from tests.differential.grammar import PRODUCTIONS, random_graph
from tests.differential.options import OPTIONS
from tests.differential.report import in_words
from tests.differential.search import keep_code_in
from tests.differential.shrink import shrunk

GROUPS, SIZE = 12, 8


@pytest.fixture(autouse=True)
def _code(tmp_path: Path) -> Iterator[None]:
    """JAX compiles equal programs once while a test runs."""
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    keep_code_in(str(tmp_path))
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_graphs(group: int) -> None:
    for seed in range(group * SIZE, group * SIZE + SIZE):
        if compare(random_graph(seed)).differences:
            graph, differences = shrunk(seed, OPTIONS)
            pytest.fail("\n".join([f"seed {seed}", *differences, in_words(graph)]))


def test_every_production_is_reached() -> None:
    made = {step.production for seed in range(1200) for step in random_graph(seed).steps}
    assert set(PRODUCTIONS) - made == set()


def test_the_grammar_is_wide() -> None:
    assert len(PRODUCTIONS) >= 400
