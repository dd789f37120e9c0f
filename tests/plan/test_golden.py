"""Plans as text.  ``UPDATE_GOLDEN=1 pytest tests/plan`` writes them anew; read the difference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytensor.tensor as pt
import pytest

from tests.helpers import compiled
from tests.partition.graphs import sort

GOLDEN = Path(__file__).parent / "golden"


def symbols() -> tuple[Any, Any]:
    return pt.dvector("x"), pt.lscalar("n")


GRAPHS = {
    "one_region": lambda x, n: [pt.exp(x).sum() * n],
    "static_size": lambda x, n: [x.reshape((n // 2, -1)) * n],
    "host_step": lambda x, n: [sort(pt.exp(x)) * n],
    "fetched_size": lambda x, n: [x[: x.argmax() + n] * 2],
    "two_in_one_slot": lambda x, n: [sort(pt.exp(x)) + sort(pt.tanh(x)), x.shape[0] + n],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_plan_as_text(name: str) -> None:
    x, n = symbols()
    text = str(compiled([x, n], GRAPHS[name](x, n)).plan) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
