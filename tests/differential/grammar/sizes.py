"""Integer scalars: lengths, counts and bounds, of wide and narrow types."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool

family = Family("sizes")

NARROW = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "int64")

family.of(
    "size", "vector",
    length=lambda v: v.shape[0], count=lambda v: (v > 0.5).sum(), place=lambda v: v.argmax(),
    count_distinct=lambda v: pt.unique(v).shape[0],
    length_of_nonzero=lambda v: pt.nonzero(v)[0].shape[0],
    dtyped_count=lambda v: pt.sum(v > 0, dtype="int8"),
)  # fmt: skip
family.of("size", "matrix", width=lambda m: m.shape[1], entries=lambda m: m.size)
family.of("size", "mask", chosen=lambda b: b.sum())
family.of(
    "size", "size",
    half=lambda n: n // 2, at_least_one=lambda n: pt.maximum(n, 1), back=lambda n: -n,
    distance=lambda n: pt.abs(n), less_one=lambda n: n - 1,
)  # fmt: skip


@family.gives("size")
def total(p: Pool) -> Any:
    return p.pick("size") + p.pick("size")


@family.gives("size")
def product(p: Pool) -> Any:
    return p.length(6) * p.length(6)


@family.gives("size")
def quotient(p: Pool) -> Any:
    return p.pick("size") // p.pick("size")


@family.gives("size")
def narrowed(p: Pool) -> Any:
    return pt.cast(p.pick("size"), p.one_of(NARROW))


@family.gives("size")
def entry(p: Pool) -> Any:
    return p.pick("index")[p.one_of([0, -1])]


@family.gives("size")
def least(p: Pool) -> Any:
    return pt.minimum(p.pick("size"), p.pick("size"))


@family.gives("scalar")
def as_number(p: Pool) -> Any:
    return pt.cast(p.pick("size"), "float64") / 2


@family.gives("size")
def where(p: Pool) -> Any:
    return pt.switch(pt.gt(p.pick("scalar"), 0), p.pick("size"), p.pick("size"))
