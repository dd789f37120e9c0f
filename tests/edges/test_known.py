"""The table of known differences can be read, and its conditions hold where they should."""

from __future__ import annotations

import numpy as np

from tests.edges.known import known, rows


def test_every_row_is_an_expression() -> None:
    assert rows()
    for row in rows():
        compile(row.where, row.op, "eval")


def test_denormal_numbers_are_known() -> None:
    one = np.array(1.0)
    assert known("Exp", (one,), np.array(5e-324), np.array(0.0)) is not None
    assert known("Exp", (one,), np.array(6e-8, "float16"), np.array(0, "float16")) is None
    assert known("Exp", (one,), np.array(2.0), np.array(3.0)) is None
    assert known("Exp", (one,), ValueError, np.array(0.0)) is None
