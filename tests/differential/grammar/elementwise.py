"""Operations on each entry."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float, converted

family = Family("elementwise")

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip

family.entries(
    absolute=pt.abs, sign=pt.sign, negative=lambda v: -v, square=lambda v: v**2,
    cube=lambda v: v**3, invert=lambda v: ~v, is_nan=pt.isnan, is_inf=pt.isinf,
    half=lambda v: v // 2, remainder=lambda v: v % 3, clip=lambda v: pt.clip(v, -1, 2),
    not_zero=lambda v: pt.neq(v, 0), plus=lambda v: v + 1, times=lambda v: v * 100,
    reciprocal=lambda v: 1 / v,
)  # fmt: skip
family.floats(
    exp=lambda v: pt.exp(-pt.abs(v)), grow=pt.exp, log1p=lambda v: pt.log1p(pt.abs(v)),
    log=lambda v: pt.log(pt.abs(v)), tanh=pt.tanh, sin=pt.sin, cos=pt.cos, sqrt=pt.sqrt,
    sigmoid=pt.sigmoid, floor=pt.floor, ceil=pt.ceil, trunc=pt.trunc, softplus=pt.softplus,
    round=pt.round, erf=pt.erf, gammaln=lambda v: pt.gammaln(pt.abs(v) + 1),
    expm1=lambda v: pt.expm1(-pt.abs(v)), arctan=pt.arctan, root=lambda v: pt.abs(v) ** 0.5,
    inverse_square=lambda v: v**-2,
)  # fmt: skip
family.pairs(
    add=lambda a, b: a + b, subtract=lambda a, b: a - b, multiply=lambda a, b: a * b,
    divide=lambda a, b: a / b, floor_divide=lambda a, b: a // b, modulo=lambda a, b: a % b,
    maximum=pt.maximum, minimum=pt.minimum, arctan2=lambda a, b: pt.arctan2(as_float(a), b),
    logaddexp=lambda a, b: pt.logaddexp(as_float(a), as_float(b)),
    power=lambda a, b: a**b,
    switch=lambda a, b: pt.switch(pt.gt(a, b), a, b * 2), equal=pt.eq,
)  # fmt: skip
family.of(
    "index", "index", bit_and=lambda i: i & 3, bit_xor=lambda i: i ^ 5, bit_or=lambda i: i | 1
)
family.pairs(
    "mask", less=pt.lt, at_least=pt.ge, differs=pt.neq, both=lambda a, b: pt.gt(a, 0) & pt.lt(b, 1)
)
family.entries("mask", positive=lambda v: pt.gt(as_float(v), 0), finite=lambda v: ~pt.isnan(v))


@family.gives("vector")
def cast(p: Pool) -> Any:
    vector = p.pick("vector")
    return p.with_tag_of(converted(vector, p.one_of(DTYPES)), vector)


@family.gives("vector")
def narrow(p: Pool) -> Any:
    """Small numbers, which every dtype holds."""
    vector = p.pick("vector")
    small = pt.clip(pt.abs(as_float(vector)), 0, 9)
    whole = pt.floor(pt.switch(pt.isnan(small), 0, small))
    return p.with_tag_of(pt.cast(whole, p.one_of(DTYPES[1:9])), vector)


@family.gives("vector")
def from_complex(p: Pool) -> Any:
    vector = p.real()
    value = pt.cast(vector, p.one_of(["complex64", "complex128"])) * (1 + 2j)
    changed = p.one_of([abs, pt.real, pt.imag, lambda v: pt.real(v * v)])
    return p.with_tag_of(changed(value), vector)


@family.gives("vector")
def with_scalar(p: Pool) -> Any:
    vector, scalar = p.pick("vector"), p.pick("scalar")
    operation = p.one_of(
        [lambda a, b: a + b, lambda a, b: a * b, pt.maximum, lambda a, b: a // b, pt.power]
    )
    return p.with_tag_of(operation(vector, scalar), vector)


@family.gives("vector")
def with_size(p: Pool) -> Any:
    vector, size = p.pick("vector"), p.pick("size")
    operation = p.one_of(
        [
            lambda a, b: a + b,
            lambda a, b: a * b,
            pt.minimum,
            lambda a, b: a // b,
            lambda a, b: a % b,
        ]
    )
    return p.with_tag_of(operation(vector, size), vector)


@family.gives("vector")
def gradient(p: Pool) -> Any:
    vector = p.real()
    curve = p.one_of(
        [
            lambda v: pt.tanh(v * 2) ** 2,
            pt.sigmoid,
            lambda v: pt.switch(pt.gt(v, 0), v**2, -v),
            lambda v: pt.sqrt(pt.abs(v)),
            lambda v: v**3 / (1 + v**2),
            pt.softplus,
            lambda v: pt.maximum(v, 0.5),
        ]
    )
    return p.with_tag_of(pt.grad(curve(vector).sum(), vector), vector)


family.of(
    "scalar", "scalar", tame=lambda v: pt.tanh(v), scalar_log=lambda v: pt.log(pt.abs(v) + 1),
    scalar_floor=lambda v: pt.floor(v) // 2,
)  # fmt: skip
