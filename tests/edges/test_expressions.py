"""A part of the table of expressions; `python -m tests.edges expressions` has all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytensor.tensor as pt
import pytest

from tests.edges import expressions
from tests.edges.forms import FORMS
from tests.edges.indexing import NO_GRAPH
from tests.edges.known import OLD


def _differences(start: int, step: int) -> list[str]:
    table = expressions.cases(types=("float64", "int8", "float32", "complex128"))
    return [text for case in islice(table, start, None, step) for text in case.differences()]


def test_a_few_are_the_same_as_python() -> None:
    assert _differences(31, 2503) == []


@pytest.mark.parametrize("start", range(2))
def test_the_same_as_python(start: int) -> None:
    """Signs of zero are compared for the forms without gradients and loops."""
    table = expressions.cases(types=("float64", "int8", "bool"), forms=("whole", "mask", "prefix"))
    cases = list(islice(table, 75 * start, None, 151))
    assert cases
    assert [text for case in cases for text in case.differences()] == []


def test_the_rewrite_of_masks_ends() -> None:
    """The length of ``arange(1, n + 1)`` is ``n + 1 - 1``, another variable in each round."""
    [case] = expressions.cases(("Lyapunov, continuous",), ("int8",), ("prefix",))
    assert list(case.differences()) == []


def _is_a_graph(name: str, dtypes: Sequence[str]) -> bool:
    for dtype in dtypes:
        m = pt.matrix("m", dtype=dtype)
        v, w = pt.vector("v", dtype=dtype), pt.vector("w", dtype=dtype)
        try:
            expressions.EXPRESSIONS[name](m, v, w)
        except NO_GRAPH:
            continue
        return True
    return False


@pytest.mark.skipif(OLD, reason="PyTensor 3.0 lacks some of the functions")
def test_each_expression_is_a_graph() -> None:
    names = expressions.EXPRESSIONS
    assert [name for name in names if not _is_a_graph(name, ("float64", "int64", "bool"))] == []


def test_the_table_has_each_form() -> None:
    assert {case.op.split(", ")[-2] for case in expressions.cases(("mean",), ("int8",))} == {*FORMS}
