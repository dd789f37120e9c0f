"""``python -m tests.corpus`` writes `docs/break_counts.md`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytensor
from pytensor.compile.mode import get_mode

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from pytensor_jaxlink.rewriting.database import NAMES, TAG
from tests.corpus.graphs import CORPUS, INPUTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "break_counts.md"
HEAD = """# Graph breaks in numbers

Forty-four graphs as people write them (`tests/corpus`), compiled without and with the rewrites that
the mode adds to PyTensor's (`mode.excluding("jaxlink")`). Written by `python -m tests.corpus`; a
test compares the page with what is found.

| family | graph | breaks before | after |
| --- | --- | --- | --- |
"""

# Not written by this program: it takes an hour, and PyMC is no dependency.
ELSEWHERE = """
## Elsewhere

What a plugin of pytest found on 21 November 2026 (PyTensor 3.3.7, PyMC 6.4) that compiled each
function twice, without and with the rewrites. *Could be moved*: `Reshape`, `DimShuffle`,
`SpecifyShape` and slices that sit on an elementwise operation, `Alloc` or `Join`; *at a break*:
such nodes at which the graph breaks.

| graphs | functions | breaks before | after | could be moved | of these at a break |
| --- | --- | --- | --- | --- | --- |
| PyTensor `tensor/test_subtensor.py` | 485 | 4 | 2 | 4 | 0 |
| PyTensor `tensor/test_extra_ops.py` | 977 | 265 | 265 | 699 | 0 |
| PyTensor `tensor/test_basic.py`, `_shape`, `_math`, `_sort` | 3,685 | 61 | 61 | 86 | 0 |
| PyTensor `test_blockwise.py`, `random/test_basic.py`, `test_ifelse.py` | 215 | 6 | 6 | 8 | 0 |
| PyTensor `scan/test_basic.py` | 98 | 10 | 10 | 32 | 2 |
| 41 PyMC models: log density | 41 | 4 | 2 | 42 | 0 |
| its gradient | 39 | 4 | 2 | 92 | 0 |
| prior draws | 37 | 4 | 3 | 18 | 0 |
| forty of the graphs above | 40 | 41 | 2 | 26 | 0 |

What remains in PyTensor's tests are Ops without a JAX function (`FillDiagonalOffset`, `Repeat` by a
vector, `PermuteRowElements`) and results whose length is data (`unique`, `nonzero` as outputs); in
PyMC's models splines, a black box and three samplers. The model with `hyp2f1` was measured again on
22 November 2026, when the function had an implementation: no break in its density or gradient.
`FillDiagonalOffset` and `PermuteRowElements` have had one since, and were not counted again.

**Is lifting reshapes worth it?** The proposal that this project started from had "no idea whether
those opportunities exist". Of more than 5,600 functions about a thousand nodes could be moved, and
two of them stand at a break, both the cut of a while-loop's trace to its length, which moving does
not remove. A region is specialised on the value of a size, so a reshape breaks only where its shape
is computed from data. There `jaxlink_lengths` finds the shape elsewhere where it can, and
`jaxlink_reshapes` lifts it toward an end that does not depend on it; elsewhere nothing is moved.
"""

WITHOUT = """
## One rewrite turned off

| without | breaks |
| --- | --- |
"""


def breaks(outputs: Any, *without: str) -> int:
    """The number of graph breaks without some of our rewrites."""
    mode = get_mode("JAXSELECTIVE").excluding(*without)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = pytensor.function(INPUTS, outputs, mode=mode, on_unused_input="ignore")
    return f.explain().graph_break_count


def rows() -> list[tuple[str, str, int, int]]:
    """Family, graph, and the numbers of breaks without our rewrites and with them."""
    return [
        (family, name, breaks(graph(), TAG), breaks(graph()))
        for name, (family, graph) in CORPUS.items()
    ]


def alone() -> str:
    """How many breaks there would be without one of the rewrites."""
    lines = []
    for name in NAMES:
        left = sum(breaks(graph(), name) for _, graph in CORPUS.values())
        lines.append(f"| `{name}` | {left} |\n")
    return WITHOUT + "".join(lines)


def page(found: list[tuple[str, str, int, int]]) -> str:
    """The text of the page."""
    lines = [f"| {family} | {name} | {old} | {new} |\n" for family, name, old, new in found]
    old, new = (sum(row[column] for row in found) for column in (2, 3))
    whole = [sum(row[column] == 0 for row in found) for column in (2, 3)]
    total = f"\n{old} breaks become {new}; {whole[0]} graphs were whole, {whole[1]} are.\n"
    return HEAD + "".join(lines) + total + alone() + ELSEWHERE


if __name__ == "__main__":
    PAGE.write_text(page(rows()))
