"""Linear algebra at the edges of what it takes, against the Python linker."""

from __future__ import annotations

import pytest

from tests.edges import linalg
from tests.edges.known import GPU, rows

ABSTRACT = {"BaseBlockDiagonal", "SolveBase"}


def test_every_op_has_a_case() -> None:
    assert {*linalg.family()} - ABSTRACT <= {case.op for case in linalg.CASES.values()}


@pytest.mark.parametrize("name", linalg.CASES)
def test_edges(name: str) -> None:
    assert linalg.differences(name, full=False) == []


def test_every_row_is_needed() -> None:
    of_family = [row for row in rows() if {*linalg.family()} & {*row.op.split(", ")}]
    wanted = [row for row in of_family if row.is_of_here]
    before = [row.used for row in wanted]
    on_gpu = ("cholesky", "qr", "lu_factor", "pivots") if GPU else ()
    for name in ("solve, vector", "det", *on_gpu):
        assert linalg.differences(name, full=False) == []
    used = [row.used - count for row, count in zip(wanted, before, strict=True)]
    assert wanted
    assert 0 not in used
