"""How a selection passes through what depends on the order of its entries.

Sorting, running sums, the place of an extreme, a softmax, one entry.  All of them take selections
by a mask of one dimension; the empty selection raises what NumPy raises, or is empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax
from pytensor.tensor.sort import SortOp, argsort
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor

from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.compat import EMPTY_SOFTMAX_RAISES
from pytensor_jaxlink.rewriting.selections import Known, Results, Selection, follow, is_literal


@follow.register(CumOp)
def _follow_running(op: CumOp, node: Apply, known: Known) -> Results:
    """A running sum or product takes over what is not selected as it is."""
    chosen = known.selections[node.inputs[0]]
    axis = 0 if op.axis is None and node.inputs[0].type.ndim == 1 else op.axis
    if axis is None or chosen.width != 1 or chosen.full.type.dtype == "bool":
        return None
    full = chosen.masked(0 if op.mode == "add" else 1) if axis == chosen.axis else chosen.full
    return [Selection(CumOp(axis, op.mode)(full), chosen.mask, chosen.axis)]


@follow.register(Softmax)
@follow.register(LogSoftmax)
def _follow_softmax(op: Any, node: Apply, known: Known) -> Results:
    """Minus infinity is what a softmax passes over."""
    chosen = known.selections[node.inputs[0]]
    if chosen.width != 1:
        return None
    axes = range(node.inputs[0].type.ndim) if op.axis is None else np.atleast_1d(op.axis)
    full = chosen.full
    if chosen.axis in axes:
        full = chosen.masked(-np.inf)
        if EMPTY_SOFTMAX_RAISES:
            message = "zero-size array to reduction operation maximum which has no identity"
            full = CheckAndRaise(ValueError, message)(full, chosen.mask.any())
    return [Selection(op(full), chosen.mask, chosen.axis)]


@follow.register(SortOp)
def _follow_sort(op: SortOp, node: Apply, known: Known) -> Results:
    """The selected entries in order, and then the others.

    NaN is the last of all, so no value can stand for what is not selected: a second, stable sort
    brings the selected entries to the front.
    """
    chosen = known.selections.get(node.inputs[0])
    if chosen is None or chosen.width != 1 or node.inputs[0].type.ndim != 1:
        return None
    order: Any = argsort(chosen.full, kind="stable")
    order = order[argsort(~chosen.mask[order], kind="stable")]

    def front() -> Any:
        return pt.arange(chosen.mask.shape[0]) < chosen.mask.sum(dtype="int64")

    return [Selection(chosen.full[order], known.derived("sorted", (chosen.mask,), front), 0)]


@follow.register(Argmax)
def _follow_place(op: Argmax, node: Apply, known: Known) -> Results:
    """The place of the largest entry among the selected ones: the first, and NaN before all."""
    chosen = known.selections[node.inputs[0]]
    ndim = node.inputs[0].type.ndim
    axes = tuple(range(ndim)) if op.axis is None else tuple(op.axis)
    if chosen.axis not in axes:
        places = Argmax(tuple(chosen.places(axis)[0] for axis in axes))(chosen.full)
        before = sum(axis < chosen.axis for axis in axes)
        return [Selection(places, chosen.mask, chosen.axis - before)]
    if chosen.width != 1 or axes != (chosen.axis,):
        return None
    kind = np.dtype(chosen.full.type.dtype)
    if kind.kind not in "fiu":
        return None
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    order: list[Any] = ["x"] * ndim
    order[chosen.axis] = 0
    selected = chosen.mask.dimshuffle(order)
    best = chosen.masked(lowest).max(axis=chosen.axis, keepdims=True)
    found: Any = pt.eq(chosen.full, best)
    if kind.kind == "f":
        found = found | pt.isnan(chosen.full)
    place = Argmax(axes)((selected & found).astype("int8"))
    counted: Any = pt.cumsum(chosen.mask.astype("int64"))
    rank = counted[place] - 1
    empty = CheckAndRaise(ValueError, "attempt to get argmax of an empty sequence")
    return [empty(rank.astype(node.outputs[0].type.dtype), chosen.mask.any())]


@follow.register(Subtensor)
def _follow_index(op: Subtensor, node: Apply, known: Known) -> Results:
    """One entry of a selection, the selection backward, or other dimensions of it."""
    if node.inputs[0] not in known.selections:
        return None
    chosen = known.selections[node.inputs[0]]
    indices: list[Any] = list(indices_from_subtensor(node.inputs[1:], op.idx_list))
    indices += [slice(None)] * (node.inputs[0].type.ndim - len(indices))
    here = indices[chosen.axis]
    others = [index for axis, index in enumerate(indices) if axis != chosen.axis]
    if not all(is_literal(index) for index in others):
        return None
    places: list[Any] = []
    for axis, index in enumerate(indices):
        places += [slice(None)] * chosen.width if axis == chosen.axis else [index]
    full = chosen.full[tuple(places)] if others else chosen.full
    axis = sum(isinstance(index, slice) for index in indices[: chosen.axis])
    if here == slice(None):
        return [Selection(full, chosen.mask, axis)]
    if chosen.width != 1:
        return None
    before = (slice(None),) * axis
    if not isinstance(here, slice):
        return [full[(*before, _place(chosen.mask, known.new(here)))]]
    if not _is_backward(here):
        mask = _part(chosen, here, known)
        return None if mask is None else [Selection(full, mask, axis)]
    mask = known.derived("backward", (chosen.mask,), lambda: chosen.mask[::-1])
    return [Selection(full[(*before, slice(None, None, -1))], mask, axis)]


def _part(chosen: Selection, index: slice, known: Known) -> Any:
    """The mask of a slice of a selection, with a literal, positive step, or None."""
    step = 1 if index.step is None else getattr(index.step, "data", 0)
    if step < 1:
        return None
    start, stop = (_bound(bound, known) for bound in (index.start, index.stop))
    whole = start is None and stop is None
    mask = chosen.mask if whole else known.part(chosen, start, stop)
    if mask is None or step == 1:
        return mask

    def every() -> Any:
        counted: Any = pt.cumsum(mask.astype("int64"))
        return mask & pt.eq((counted - 1) % step, 0)

    return known.derived(f"every {step}", (mask,), every)


def _bound(bound: Any, known: Known) -> Any:
    """A bound of a slice: an integer, a variable, or None."""
    if bound is None or isinstance(bound, Constant):
        return None if bound is None else int(bound.data)
    return known.new(tensor_behind(bound))


def _place(mask: Any, rank: Any) -> Any:
    """Where the entry of a rank is; out of range where there is none, so that indexing raises."""
    rank = pt.as_tensor(rank).astype("int64")
    rank = pt.switch(rank < 0, rank + mask.sum(dtype="int64"), rank)
    place = (pt.cumsum(mask.astype("int64")) <= rank).sum(dtype="int64")
    return pt.switch(rank < 0, mask.shape[0], place)


def _is_backward(index: slice) -> bool:
    return index.start is None and index.stop is None and getattr(index.step, "data", 0) == -1
