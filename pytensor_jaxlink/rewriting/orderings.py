"""How a selection passes through what depends on the order of its entries.

Sorting, running sums, the place of an extreme, a softmax, one entry, a few in a row.  All of them
take selections by a mask of one dimension; the empty selection raises what NumPy raises, or is
empty.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax
from pytensor.tensor.sort import ArgSortOp, SortOp, argsort
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import float_dtypes

from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.compat import EMPTY_SOFTMAX_RAISES
from pytensor_jaxlink.graph import indices_of
from pytensor_jaxlink.ops import DynamicSlice, running_dtype
from pytensor_jaxlink.rewriting.bounds import as_int64, is_one, normalised
from pytensor_jaxlink.rewriting.packing import order as order_of
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    at_front,
    follow,
    has_entries,
    is_literal,
)


@follow.register(CumOp)
def _follow_running(op: CumOp, node: Apply, known: Known) -> Results:
    """A running sum or product takes over what is not selected as it is."""
    chosen = known.plain(node.inputs[0])
    axis = 0 if op.axis is None and node.inputs[0].type.ndim == 1 else op.axis
    if axis is None or running_dtype(chosen.full.type.dtype) != chosen.full.type.dtype:
        return None  # what is not selected would be replaced in the declared type
    full = chosen.masked(0 if op.mode == "add" else 1, [axis])
    return [Selection(CumOp(axis, op.mode)(full), chosen.masks)]


@follow.register(Softmax)
@follow.register(LogSoftmax)
def _follow_softmax(op: Any, node: Apply, known: Known) -> Results:
    """Minus infinity is what a softmax passes over."""
    chosen = known.plain(node.inputs[0])
    axes = range(node.inputs[0].type.ndim) if op.axis is None else np.atleast_1d(op.axis)
    axes = [int(axis) % len(chosen.masks) for axis in axes]
    across = [axis for axis in chosen.axes if axis in axes]
    if across and chosen.full.type.dtype not in float_dtypes:
        return None
    full = chosen.masked(-np.inf, across)
    if across and EMPTY_SOFTMAX_RAISES:
        message = "zero-size array to reduction operation maximum which has no identity"
        full = CheckAndRaise(ValueError, message)(full, has_entries(chosen, across))
    return [Selection(op(full), chosen.masks)]


@follow.register(SortOp)
def _follow_sort(op: SortOp, node: Apply, known: Known) -> Results:
    """The selected entries in order, and then the others; across all others as they come."""
    chosen, axis = known.plain(node.inputs[0]), _sorted_along(node)
    if axis is None:
        return None
    if chosen.masks[axis] is None:
        return [
            Selection(node.op.make_node(chosen.full, *node.inputs[1:]).outputs[0], chosen.masks)
        ]
    masks, places = _order_of_selected(chosen, axis, known)
    return [Selection(_at(chosen.full, places, axis), masks)]


@follow.register(ArgSortOp)
def _follow_ranks(op: ArgSortOp, node: Apply, known: Known) -> Results:
    """The numbers of the selected entries in order, and then any."""
    chosen, axis = known.plain(node.inputs[0]), _sorted_along(node)
    if axis is None:
        return None
    if chosen.masks[axis] is None:
        return [
            Selection(node.op.make_node(chosen.full, *node.inputs[1:]).outputs[0], chosen.masks)
        ]
    masks, places = _order_of_selected(chosen, axis, known)
    numbers = known.ranks(chosen.masks[axis])[places]
    return [Selection(numbers.astype(node.outputs[0].type.dtype), masks)]


def _sorted_along(node: Apply) -> int | None:
    """The dimension of a sort: until PyTensor 3.1 an input, which may be no literal (None)."""
    if len(node.inputs) == 1:
        return int(node.op.axis)
    array, axis = node.inputs
    return int(axis.data) % array.type.ndim if isinstance(axis, Constant) else None


def _order_of_selected(
    chosen: Selection, axis: int, known: Known
) -> tuple[tuple[Tensor, ...], Tensor]:
    """The masks of the sorted selection, and the places of its entries in order.

    NaN is the last of all, so no value can stand for what is not selected: those that are
    selected are moved to the front afterwards.
    """
    mask, masks = chosen.masks[axis], [*chosen.masks]
    masks[axis] = known.front(mask)
    order: Tensor = argsort(chosen.full, axis=axis, kind="stable")
    if len(masks) == 1:
        return (*masks,), order[order_of(mask[order])]
    last: Tensor = argsort(~mask[order], axis=axis, kind="stable")
    return (*masks,), _at(order, last, axis)


def _at(array: Tensor, places: Tensor, axis: int) -> Tensor:
    """The entries of an array at places along a dimension."""
    return array[places] if array.type.ndim == 1 else pt.take_along_axis(array, places, axis)


@follow.register(Argmax)
def _follow_place(op: Argmax, node: Apply, known: Known) -> Results:
    """The place of the largest entry among the selected ones: the first, and NaN before all."""
    chosen = known.plain(node.inputs[0])
    ndim = node.inputs[0].type.ndim
    axes = tuple(range(ndim)) if op.axis is None else tuple(op.axis)
    across = [axis for axis in axes if chosen.masks[axis] is not None]
    left = tuple(mask for axis, mask in enumerate(chosen.masks) if axis not in axes)
    if not across:
        return [Selection(Argmax(axes)(chosen.full), left)]
    kind = np.dtype(chosen.full.type.dtype)
    if axes != (*across,) or len(across) != 1 or kind.kind not in "bfiu":
        return None
    if kind.kind == "b":
        chosen, kind = Selection(chosen.full.astype("int8"), chosen.masks), np.dtype("int8")
    [axis], mask = across, chosen.masks[across[0]]
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    best = chosen.masked(lowest, across).max(axis=axis, keepdims=True)
    found: Tensor = pt.eq(chosen.full, best)
    if kind.kind == "f":
        found = found | pt.isnan(chosen.full)
    place = Argmax(axes)((chosen.selected(across) & found).astype("int8"))
    rank = known.ranks(mask)[place]
    empty = CheckAndRaise(ValueError, "attempt to get argmax of an empty sequence")
    rank = empty(rank.astype(node.outputs[0].type.dtype), has_entries(chosen, across))
    return [Selection(rank, left)]


@follow.register(Subtensor)
def _follow_index(op: Subtensor, node: Apply, known: Known) -> Results:
    """Single entries of a selection, the selection backward, or parts of it."""
    array = node.inputs[0]
    if array not in known.selections:
        return None
    indices = indices_of(node)
    indices += [slice(None)] * (array.type.ndim - len(indices))
    chosen = known.sliceable(array, cut_axes(indices))
    places: list[Tensor] = []
    masks: list[Tensor] = []
    for axis, index in enumerate(indices):
        taken = _along(chosen, array, axis, index, known)
        if taken is None:
            return None
        places += taken[0]
        masks += taken[1]
    full = chosen.full
    whole = all(isinstance(place, slice) and place == slice(None) for place in places)
    return [Selection(full if whole else full[tuple(places)], tuple(masks))]


@follow.register(DynamicSlice)
def _follow_dynamic_slice(op: DynamicSlice, node: Apply, known: Known) -> Results:
    """A few entries in a row, taken of a selection or written to it: those of the full array.

    The bounds count from the ends of the selection.
    """
    array, *values, start, stop, length = node.inputs
    chosen = known.chosen(array)
    beside = set(chosen.axes) - {op.axis}
    if any(v in known.selections for v in node.inputs[1:]) or not all(
        _is_one_along(value, beside, array.type.ndim) for value in values
    ):
        return None
    mask = chosen.masks[op.axis] if chosen.is_plain else None
    moved = None if mask is None else at_front(chosen, [op.axis], known)
    if moved is None:
        return None
    count = known.count(mask)
    bounds = [normalised(known.new(bound), count) for bound in (start, stop)]
    full = op.inexact()(moved.full, *map(known.new, values), *bounds, known.new(length))
    masks = list(moved.masks)
    if not values:
        masks[op.axis] = None
    return [Selection(full, tuple(masks))]


def _is_one_along(value: Tensor, axes: Collection[int], ndim: int) -> bool:
    """Return True if a value that is written to an array is stretched along some dimensions."""
    ones = (True,) * (ndim - value.type.ndim) + value.type.broadcastable
    return all(ones[axis] for axis in axes)


def cut_axes(indices: Sequence[Tensor]) -> list[int]:
    """The dimensions that indices take parts of, from a bound or to one."""
    return [
        axis
        for axis, index in enumerate(indices)
        if isinstance(index, slice) and (index.start is not None or index.stop is not None)
    ]


def _along(
    chosen: Selection, array: object, axis: int, index: object, known: Known
) -> tuple[list[Tensor], list[Tensor]] | None:
    """The part of a dimension that an index takes: its full index, and the mask left."""
    mask, whole = chosen.masks[axis], [slice(None)]
    if isinstance(index, slice) and index == slice(None):
        return whole, [mask]
    if mask is None:
        if not isinstance(index, slice):
            return [known.new(tensor_behind(index))], []
        late = known.slice_mask(array, axis, index)
        if late is not None:
            return whole, [late]
        early = known.early_slice(index)
        return None if early is None else ([early], [None])
    if not isinstance(index, slice):
        return [place_of(mask, known.new(tensor_behind(index)), known)], []
    backward = _is_backward(index)
    literal = None if backward else literal_part(chosen, axis, index, known)
    if literal is not None:
        part = literal[1]
    else:
        part = part_of(chosen, axis, _forward(index, mask, known) if backward else index, known)
    if part is None:
        return None
    if not backward:
        return whole if literal is None else [literal[0]], [part]
    turned, step = known.backward(part), -int(index.step.data)
    return [slice(None, None, -1)], [turned if step == 1 else known.every(turned, step)]


def _is_backward(index: slice) -> bool:
    return getattr(index.step, "data", 0) < 0


def _forward(index: slice, mask: object, known: Known) -> slice:
    """The slice that takes the entries of a backward one in their order, and those between."""

    def after(bound: object) -> Tensor:
        if bound is None:
            return None
        value = as_int64(pt.as_tensor(_bound(bound, known)))
        place: Tensor = pt.switch(value < 0, value + known.count(mask), value)
        last: Tensor = pt.clip(place, -1, known.count(mask))
        return last + 1

    if isinstance(index.start, Constant) and index.stop is None and int(index.start.data) < 0:
        last = int(index.start.data) + 1
        return slice(None, pt.constant(last) if last else None)
    return slice(after(index.stop), after(index.start))


def part_of(chosen: Selection, axis: int, index: slice, known: Known) -> Tensor:
    """The mask of a slice of a selection, with a literal, positive step, or None."""
    step = 1 if index.step is None else getattr(index.step, "data", 0)
    if step < 1:
        return None
    start, stop = (_bound(bound, known) for bound in (index.start, index.stop))
    whole = start is None and stop is None
    mask = chosen.masks[axis] if whole else known.part(chosen, axis, start, stop)
    return mask if mask is None or step == 1 else known.every(mask, step)


def literal_part(
    chosen: Selection, axis: int, index: slice, known: Known
) -> tuple[slice, Tensor] | None:
    """The slice of the array that has a literal slice of a prefix, and the mask of that; or None.

    Nothing is computed for the entries that follow: a few of a long array stay a few.
    """
    if index.stop is None or not is_one(index.step) or not is_literal(index):
        return None
    start, stop = _bound(index.start, known) or 0, _bound(index.stop, known)
    mask = known.within(chosen, axis, start, stop) if 0 <= start <= stop else None
    return None if mask is None else (slice(start, stop), mask)


def _bound(bound: object, known: Known) -> Tensor:
    """A bound of a slice: an integer, a variable, or None."""
    if bound is None or isinstance(bound, Constant):
        return None if bound is None else int(bound.data)
    return known.new(tensor_behind(bound))


def place_of(mask: Tensor, rank: Tensor, known: Known) -> Tensor:
    """Where the entry of a rank is; out of range where there is none, so that indexing raises."""
    rank = as_int64(pt.as_tensor(rank))
    rank = pt.switch(rank < 0, rank + known.count(mask), rank)
    place = (pt.cumsum(mask.astype("int64")) <= rank).sum(dtype="int64")
    return pt.switch(rank < 0, mask.shape[0], place)
