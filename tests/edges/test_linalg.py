"""Linear algebra at the edges of what it takes, against the Python linker."""

from __future__ import annotations

import pytest

from tests.edges import linalg

ABSTRACT = {"BaseBlockDiagonal", "SolveBase"}


def test_every_op_has_a_case() -> None:
    assert {*linalg.family()} - ABSTRACT <= {case.op for case in linalg.CASES.values()}


@pytest.mark.parametrize("name", linalg.CASES)
def test_edges(name: str) -> None:
    assert linalg.differences(name, full=False) == []
