"""The page that says how each Op runs is complete and right."""

from __future__ import annotations

import pytest

from tests.ops.table import answer, installed, written


@pytest.mark.filterwarnings("ignore")
def test_every_op_has_an_answer() -> None:
    rows, ops = written(), installed()
    assert len(ops) > 250
    missing = [name for name in ops if name not in rows]
    assert not missing, f"no row for {missing}: run python -m tests.ops.table and read what it says"
    wrong = {
        name: (rows[name], answer(kind)) for name, kind in ops.items() if rows[name] != answer(kind)
    }
    assert not wrong, f"the page and the code disagree (page, code): {wrong}"
