"""Arrays that are made as long as a selection."""

from __future__ import annotations

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.tensor.basic import Alloc, AllocEmpty, ARange, Eye
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.rewriting.bounds import is_countable
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    follow,
)


@follow.register(Alloc)
def _follow_alloc(op: Alloc, node: Apply, known: Known) -> Results:
    """An array as long as selections, filled with one value."""
    value, *lengths = node.inputs
    masks = tuple(map(known.mask_counted_by, lengths))
    filler, lead = known.chosen(value), len(lengths) - value.type.ndim
    if all(mask is None for mask in masks):
        return None
    for axis in reversed(range(value.type.ndim)):
        mask, own = masks[lead + axis], filler.masks[axis]
        if mask is not None and value.type.broadcastable[axis]:
            moved = filler.widened(axis, mask)
        elif mask is not None and own is not None:
            moved = known.aligned(filler, axis, mask)
        else:
            moved = filler if mask is None and own is None else None
        if moved is None:
            return None
        filler = moved
    sizes = [
        known.new(length) if mask is None else mask.shape[0]
        for mask, length in zip(masks, lengths, strict=True)
    ]
    value = known.allocated(filler.full, *lengths)
    return [Selection(pt.alloc(value, *sizes), masks)]


@follow.register(AllocEmpty)
def _follow_room(op: AllocEmpty, node: Apply, known: Known) -> Results:
    """Room for as many entries as a selection has."""
    masks = tuple(map(known.mask_counted_by, node.inputs))
    if all(mask is None for mask in masks):
        return None
    sizes = [
        known.new(length) if mask is None else Shape_i(0)(mask)
        for mask, length in zip(masks, node.inputs, strict=True)
    ]
    return [Selection(known.allocated(op(*sizes), *node.inputs), masks)]


@follow.register(Eye)
def _follow_unit(op: Eye, node: Apply, known: Known) -> Results:
    """A unit matrix as wide, or as high, as a selection."""
    *sizes, offset = node.inputs
    masks = tuple(map(known.mask_counted_by, sizes))
    if all(mask is None for mask in masks) or offset in known.selections:
        return None
    row, column = (
        known.ranks(mask) if mask is not None else pt.arange(known.new(size))
        for mask, size in zip(masks, sizes, strict=True)
    )
    unit = pt.eq(row[:, None] + known.new(offset), column[None, :])
    unit = known.allocated(unit.astype(node.outputs[0].type.dtype), *sizes)
    return [Selection(unit, masks)]


@follow.register(ARange)
def _follow_numbers(op: ARange, node: Apply, known: Known) -> Results:
    """The numbers of the entries of a selection, from a literal one on."""
    start, stop, step = node.inputs
    if not (isinstance(start, Constant) and _is_one(step)) or not is_countable(node):
        return None
    first = int(start.data)
    length = pt.sub(stop.astype("int64"), first) if first else stop
    mask = known.mask_counted_by(length, or_none=True)
    if mask is None:
        return None
    numbers = (first + known.ranks(mask)).astype(op.dtype)
    return [Selection(known.checked(numbers, stop), (mask,))]


def _is_one(variable: object) -> bool:
    return isinstance(variable, Constant) and int(variable.data) == 1
