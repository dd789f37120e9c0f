"""Every form of index: read, set, incremented, and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytensor.tensor as pt

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float, converted
from tests.differential.grammar.sizes import NARROW

family = Family("indexing")

Index = Callable[[Pool, Any], Any]
"""Gives an index of an array."""


def _mask_like(p: Pool, vector: Any) -> Any:
    """A mask computed from the vector, or one of the pool."""
    if p.sometimes(3):
        return p.pick("mask")
    return p.one_of(
        [lambda v: v > 0.3, lambda v: pt.le(v, v.mean()), lambda v: pt.neq(v, 0), pt.isnan]
    )(as_float(vector))


def _narrow_index(p: Pool, vector: Any) -> Any:
    return pt.cast(p.pick("index"), p.one_of(NARROW))


def _in_range(p: Pool, vector: Any) -> Any:
    """An index that fits any array with an entry."""
    length = pt.maximum(vector.shape[0], 1)
    return pt.cast(pt.mod(p.pick("index"), length), p.one_of(NARROW[:3]))


def _window(p: Pool, vector: Any) -> Any:
    start = p.pick("size")
    return slice(start, start + 2)


def _pair(p: Pool, matrix: Any) -> Any:
    index = p.pick("index")
    return index, index % 2


VECTOR: dict[str, Index] = {
    "to": lambda p, v: slice(None, p.pick("size")),
    "from": lambda p, v: slice(p.pick("size"), None),
    "between": lambda p, v: slice(p.pick("size"), p.pick("size")),
    "backward": lambda p, v: slice(p.pick("size"), None, -1),
    "every_other": lambda p, v: slice(None, p.pick("size"), 2),
    "step": lambda p, v: slice(None, None, p.pick("size")),
    "window": _window,
    "empty": lambda p, v: slice(p.pick("size") * 0 + 50, None),
    "scalar": lambda p, v: p.pick("size"),
    "constant": lambda p, v: p.one_of([0, -1, 1]),
    "largest": lambda p, v: pt.cast(v.argmax(), p.one_of(NARROW)) - p.one_of([0, 1]),
    "index": lambda p, v: p.pick("index"),
    "narrow": _narrow_index,
    "in_range": _in_range,
    "order": lambda p, v: pt.argsort(v, kind="stable"),
    "mask": _mask_like,
    "nonzero": lambda p, v: pt.nonzero(_mask_like(p, v)),
    "list": lambda p, v: p.one_of([[0, 0], [-1, 0], []]),
    "matrix_of_places": lambda p, v: pt.stack([_in_range(p, v), _in_range(p, v)]),
}  # fmt: skip

MATRIX: dict[str, Index] = {
    "row": lambda p, m: p.pick("size"),
    "column": lambda p, m: (slice(None), p.pick("size")),
    "rows": lambda p, m: p.pick("index"),
    "columns": lambda p, m: (slice(None), _narrow_index(p, m)),
    "rows_to": lambda p, m: slice(None, p.pick("size")),
    "corner": lambda p, m: (slice(None, p.pick("size")), slice(p.pick("size"), None)),
    "entry": lambda p, m: (p.pick("size"), p.pick("size")),
    "places": lambda p, m: (p.pick("index"), 0),
    "row_mask": lambda p, m: m[:, 0] > 0,
    "mask": lambda p, m: m > 0.2,
    "mask_and_column": lambda p, m: (m[:, 0] > 0, p.one_of([0, -1, slice(1, None)])),
    "pair_of_indices": _pair,
    "index_and_slice": lambda p, m: (p.pick("index"), slice(None, p.pick("size"))),
    "new_axis": lambda p, m: (slice(None), None, 0),
    "constant_rows": lambda p, m: [0, -1],
}  # fmt: skip


def _kind(value: Any) -> Any:
    """The value in a form that the pool has a kind for."""
    if value.type.ndim > 2:
        return value.reshape((value.shape[0], -1))
    return as_float(value) if value.type.ndim == 0 else value


def _value_for(p: Pool, part: Any) -> Any:
    """A value for a part of an array: one number, or as many numbers."""
    form = p.choose(4)
    if form == 0 or part.type.ndim == 0:
        return converted(p.pick("scalar"), part.type.dtype)
    if form == 1:
        return part * 2
    if form == 2 or part.type.ndim > 1:
        return pt.ones_like(part)
    return converted(p.pick("vector"), part.type.dtype)


def _get(p: Pool, array: Any, index: Any) -> Any:
    return array[index]


def _set(p: Pool, array: Any, index: Any) -> Any:
    return pt.set_subtensor(array[index], _value_for(p, array[index]))


def _increment(p: Pool, array: Any, index: Any) -> Any:
    return pt.inc_subtensor(array[index], _value_for(p, array[index]))


_CURVES: tuple[Callable[[Any], Any], ...] = (
    lambda v: v**2, pt.tanh, lambda v: 1 / v, lambda v: pt.exp(-v), lambda v: v * v.sum(),
    lambda v: pt.cumsum(v) * v,
)  # fmt: skip


def _gradient(p: Pool, array: Any, index: Any) -> Any:
    array = as_float(array)
    return pt.grad(p.one_of(_CURVES)(array[index]).sum(), array, disconnected_inputs="ignore")


def _gradient_of_set(p: Pool, array: Any, index: Any) -> Any:
    array = as_float(array)
    value = as_float(_value_for(p, array[index]))
    change = p.one_of([pt.set_subtensor, pt.inc_subtensor])
    cost = p.one_of(_CURVES)(change(array[index], value)).sum()
    return pt.grad(cost, array if p.choose(2) else value, disconnected_inputs="ignore")


def _reduced(p: Pool, array: Any, index: Any) -> Any:
    part = array[index]
    reduce = p.one_of(
        [pt.sum, pt.mean, pt.max, pt.prod, pt.any, lambda v: (1 / as_float(v)).sum(), pt.argmax]
    )
    return as_float(reduce(part)) * pt.ones(1)


ACTIONS: dict[str, Callable[[Pool, Any, Any], Any]] = {
    "get": _get, "set": _set, "increment": _increment, "gradient": _gradient,
    "gradient_of_set": _gradient_of_set, "reduced": _reduced,
}  # fmt: skip


def _made(
    action: Callable[[Pool, Any, Any], Any], index: Index, kind: str
) -> Callable[[Pool], Any]:
    def make(p: Pool) -> Any:
        array = p.pick(kind)
        return _kind(action(p, array, index(p, array)))

    return make


for _kind_of_array, _indices in (("vector", VECTOR), ("matrix", MATRIX)):
    for _form, _index in _indices.items():
        for _name, _action in ACTIONS.items():
            family.add(
                "any", f"{_name}.{_kind_of_array}.{_form}", _made(_action, _index, _kind_of_array)
            )


@family.gives("index")
def places(p: Pool) -> Any:
    return pt.nonzero(_mask_like(p, p.pick("vector")))[0]


@family.gives("index")
def clipped(p: Pool) -> Any:
    return pt.clip(p.pick("index"), 0, 1)


@family.gives("index")
def narrow_index(p: Pool) -> Any:
    return _narrow_index(p, None)


@family.gives("vector")
def from_constant(p: Pool) -> Any:
    """An index into a long constant."""
    return pt.constant([0.5 * k for k in range(200)])[p.pick("index")]


@family.gives("vector")
def taken(p: Pool) -> Any:
    return pt.take(p.pick("vector"), p.pick("index"), mode=p.one_of(["raise", "wrap", "clip"]))


@family.gives("vector")
def same_mask_twice(p: Pool) -> Any:
    """A selection that is written where it was read."""
    first, second = p.pair()
    mask = _mask_like(p, first)
    return pt.set_subtensor(first[mask], as_float(second)[mask].astype(first.type.dtype))
