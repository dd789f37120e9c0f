"""A part of the table of edge values of indexing; `python -m tests.edges indexing` has all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from tests.edges import indexing
from tests.edges.indexing import Case

PARTS: dict[str, Callable[[], Iterator[Case]]] = {
    "narrow": lambda: islice(indexing.all_indexing(["int8", "uint8"], [200]), 0, None, 73),
    "all types": lambda: islice(indexing.all_indexing(), 5, None, 1401),
    "slices": lambda: islice(indexing.slices((None, 1, 5, -1, -6), (None, 2, -1), 5), 3),
    "written": lambda: islice(indexing.written(), 0, None, 6),
    "converted": lambda: islice(indexing.converted(), 0, None, 3),
    "takers": lambda: islice(indexing.takers(), 0, None, 86),
}


@pytest.mark.parametrize("part", PARTS)
def test_the_same_as_python(part: str) -> None:
    cases = list(PARTS[part]())
    assert cases
    assert [text for case in cases for text in case.differences()] == []


@pytest.mark.parametrize("options", [{"recompile_limit": 1}, {"checks": "ignore"}])
def test_the_same_under_other_options(options: dict[str, object]) -> None:
    cases = islice(indexing.takers(["int8"], ["computed"]), 0, None, 6)
    for case in cases:
        other = Case(case.op, case.build, case.inputs, case.calls, tuple(options.items()))
        assert list(other.differences()) == []


def test_every_op_that_takes_integers_has_a_graph() -> None:
    for case in indexing.takers(["int8", "int64"], ["input"]):
        assert case.build(*case.inputs) is not None
