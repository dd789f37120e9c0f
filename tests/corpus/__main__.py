"""``python -m tests.corpus`` writes `docs/breaks.md`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytensor
from pytensor.compile.mode import get_mode

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from tests.corpus.graphs import CORPUS, INPUTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "breaks.md"
HEAD = """# Graph breaks, before and after our rewrites

Forty graphs as people write them (`tests/corpus`), compiled without and with the rewrites that the
mode adds to PyTensor's (`mode.excluding("jaxlink")`). Written by `python -m tests.corpus`; a test
compares the page with what is found.

| family | graph | breaks before | after |
| --- | --- | --- | --- |
"""


def breaks(outputs: Any) -> tuple[int, int]:
    """The number of graph breaks without and with our rewrites."""
    mode = get_mode("JAXSELECTIVE")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, after = (
            pytensor.function(INPUTS, outputs, mode=chosen, on_unused_input="ignore")
            for chosen in (mode.excluding("jaxlink"), mode)
        )
    return before.explain().graph_break_count, after.explain().graph_break_count


def rows() -> list[tuple[str, str, int, int]]:
    """Family, graph, and the two numbers."""
    return [(family, name, *breaks(graph())) for name, (family, graph) in CORPUS.items()]


def page(found: list[tuple[str, str, int, int]]) -> str:
    """The text of the page."""
    lines = [f"| {family} | {name} | {old} | {new} |\n" for family, name, old, new in found]
    old, new = (sum(row[column] for row in found) for column in (2, 3))
    whole = [sum(row[column] == 0 for row in found) for column in (2, 3)]
    total = f"\n{old} breaks become {new}; {whole[0]} graphs were whole, {whole[1]} are.\n"
    return HEAD + "".join(lines) + total


if __name__ == "__main__":
    PAGE.write_text(page(rows()))
