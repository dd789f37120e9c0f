"""Lazy conditionals."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from pytensor_jaxlink.compat import ifelse
from tests.differential.grammar.arrays import host_sort
from tests.differential.grammar.family import Family
from tests.differential.grammar.loops import scan
from tests.differential.grammar.pool import Pool, as_float, converted

family = Family("branches")


def condition(p: Pool) -> Any:
    """A condition of any scalar type."""
    form = p.choose(4)
    if form == 0:
        return p.pick("scalar") > 0
    if form == 1:
        return p.pick("size")
    if form == 2:
        return pt.any(p.pick("mask"))
    return pt.gt(p.pick("size"), 1)


def _doubles(p: Pool) -> tuple[Any, Any]:
    return tuple(pt.cast(p.real(), "float64") for _ in range(2))


@family.gives("vector")
def host_side(p: Pool) -> Any:
    first, second = _doubles(p)
    return ifelse(condition(p), first * 2, host_sort(second))


@family.gives("vector")
def traced_sides(p: Pool) -> Any:
    first, second = _doubles(p)
    return ifelse(condition(p), pt.tanh(first), pt.cumsum(second))


@family.gives("vector")
def selecting_sides(p: Pool) -> Any:
    first, second = _doubles(p)
    return ifelse(condition(p), first[first > 0], second[: p.pick("size")])


@family.gives("scalar")
def scalars(p: Pool) -> Any:
    vector = p.real()
    return ifelse(condition(p), vector[0], as_float(vector.sum()))


@family.gives("vector")
def nested(p: Pool) -> Any:
    first, second = _doubles(p)
    inner = ifelse(condition(p), first, second + 1)
    return ifelse(condition(p), inner * 2, second)


@family.gives("vector")
def several(p: Pool) -> Any:
    first, second = _doubles(p)
    one, other = ifelse(condition(p), [first, second.sum()], [second, first.sum()])
    return one + other


@family.gives("vector")
def gradient(p: Pool) -> Any:
    first, second = p.real(), p.real()
    second = converted(second, first.type.dtype)
    cost = ifelse(condition(p), (first**2).sum(), (pt.tanh(first).sum() + second.sum()))
    return p.with_tag_of(pt.grad(cost, first), first)


@family.gives("vector")
def in_loop(p: Pool) -> Any:
    bound = pt.cast(p.pick("scalar"), "float64")
    return scan(
        lambda e: ifelse(pt.gt(e, bound), pt.tanh(e), e * 2),
        sequences=[pt.cast(p.real(), "float64")],
    )
