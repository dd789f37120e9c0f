"""Bounds of lengths that are computed."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.rewriting.counts import Counts

N, PLACES, MATRIX = pt.lscalar("n"), pt.lvector("places"), pt.lmatrix("matrix")


def bound(length: Any, late: Any) -> Any:
    fgraph = FunctionGraph([N, PLACES, MATRIX], [length], clone=False)
    return Counts(fgraph, lambda variable: variable, {late}).bound(length)


@pytest.mark.parametrize("total", [PLACES.sum(), PLACES.prod(), MATRIX.sum(axis=(0, 1))])
def test_a_reduction_is_not_bound_by_its_entries(total: Any) -> None:
    """It has the operation of two entries, as an elementwise sum has."""
    assert bound(total, total) is None
    assert bound(pt.minimum(total, N), total) is N
