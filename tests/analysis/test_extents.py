"""Lengths as polynomials that know of minima."""

from __future__ import annotations

from typing import Any

import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.analysis.extents import Extents

X, M = pt.dvector("x"), pt.dmatrix("m")
N, K = Shape_i(0)(X), pt.lscalar("k")
LENGTHS: dict[str, tuple[Any, Any]] = {
    "a minimum and a choice": (pt.minimum(N, K), pt.switch(N < K, N, K)),
    "the other way round": (pt.minimum(N, K), pt.switch(N >= K, K, N)),
    "a maximum and a choice": (pt.maximum(K, N), pt.switch(K <= N, N, K)),
    "what is left of one": (N - pt.minimum(1, N), pt.maximum(N - 1, 0)),
    "the same from both sides": (pt.minimum(N - 1, K), pt.minimum(K, N - 1)),
    "sums of both": (pt.minimum(N, K) + pt.maximum(N, K), N + K),
    "of equal numbers": (pt.minimum(N + 1, 1 + N), N + 1),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "the other one": (pt.minimum(N, K), pt.maximum(N, K)),
    "the choice of neither": (pt.minimum(N, K), pt.switch(N < K, N, K + 1)),
    "the other comparison": (pt.minimum(N, K), pt.switch(N > K, N, K)),
    "equality": (pt.minimum(N, K), pt.switch(pt.eq(N, K), N, K)),
    "other numbers": (pt.minimum(N, K), pt.minimum(N + 1, K)),
}


@pytest.mark.parametrize("name", [*LENGTHS, *DIFFERENT])
def test_numbers(name: str) -> None:
    left, right = (LENGTHS | DIFFERENT)[name]
    extents = Extents(FunctionGraph([X, K], [left, right], clone=False))
    assert (extents.of(left) == extents.of(right)) == (name in LENGTHS)


SLICES: dict[str, tuple[Any, Any]] = {
    "whole": (X[:], N),
    "turned around": (X[::-1], N),
    "without the first": (X[1:], pt.maximum(N - 1, 0)),
    "without the last": (X[:-1], pt.maximum(N - 1, 0)),
    "turned around, without the last": (X[-2::-1], pt.maximum(N - 1, 0)),
    "cut to its length": (X[:N], N),
    "of a known length": (pt.zeros(5)[3:-6:-1], pt.constant(4)),
    "filled": (pt.set_subtensor(pt.empty((N + 2,))[:N], X), N + 2),
    "outputs of a loop": (
        pytensor.scan(lambda x: pt.exp(x), sequences=[X], n_steps=N, return_updates=False),
        N,
    ),
}


@pytest.mark.parametrize("name", SLICES)
def test_lengths(name: str) -> None:
    array, length = SLICES[name]
    extents = Extents(FunctionGraph([X], [array, length], clone=False))
    assert extents.length(array) == extents.of(length)


@pytest.mark.parametrize("array", [X[::2], X[2::-1], X[:3], X[-3:], X[K:], X[K]])
def test_lengths_that_depend_on_more(array: Any) -> None:
    """They are numbers of their own."""
    extents = Extents(FunctionGraph([X, K, M], [array, M[0]], clone=False))
    if array.type.ndim:
        length = extents.length(array)
        assert length not in (extents.length(X), extents.plus(extents.length(X), -3))
        assert length == extents.length(array)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 1.5])
def test_numbers_that_are_no_integers(number: float) -> None:
    x = pt.dscalar("x")
    lengths = Extents(FunctionGraph([x], [x + 1], clone=False))
    assert lengths.of(pt.constant(number)) != lengths.of(pt.constant(1))
    assert lengths.of(pt.minimum(x, number)) != lengths.of(pt.minimum(x, 1))
