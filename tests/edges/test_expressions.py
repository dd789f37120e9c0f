"""A part of the table of expressions; `python -m tests.edges expressions` has all."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.edges import expressions


@pytest.mark.parametrize("start", range(2))
def test_the_same_as_python(start: int) -> None:
    cases = list(islice(expressions.cases(), 75 * start, None, 151))
    assert cases
    assert [text for case in cases for text in case.differences()] == []
