"""The corpus runs to the same values, and the page of its breaks is right."""

from __future__ import annotations

import re

import numpy as np
import pytensor
import pytest

from tests.corpus.__main__ import PAGE, page, rows
from tests.corpus.graphs import CORPUS, INPUTS, values
from tests.helpers import PYTHON, as_list


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CORPUS)
def test_values(name: str) -> None:
    _, graph = CORPUS[name]
    outputs = graph()
    f, reference = (
        pytensor.function(INPUTS, outputs, mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE", PYTHON)
    )
    for seed in range(2):
        for one, other in zip(
            as_list(f(*values(seed))), as_list(reference(*values(seed))), strict=True
        ):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other)
    assert f.stats.fallbacks == 0


@pytest.mark.skipif(pytensor.__version__.startswith("3.0"), reason="the page is of PyTensor 3.3")
def test_the_page_is_right() -> None:
    assert len(CORPUS) == 44
    assert PAGE.read_text() == page(rows())


def test_other_pages_have_its_figures() -> None:
    root = PAGE.parents[1]
    [(before, after)] = re.findall(r"^(\d+) breaks become (\d+);", PAGE.read_text(), re.MULTILINE)
    assert f"leave {after} of the {before} breaks" in (root / "README.md").read_text()
    quoted = f"{before} breaks become {after}."
    assert quoted in (root / "docs" / "graph_breaks.md").read_text()
