"""How a selection passes through operations entry by entry, orders of dimensions and reductions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Max, Min, MulWithoutZeros
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.type_other import NoneTypeT

from pytensor_jaxlink.ops import Fitted, Merged, Stretched, is_entry_by_entry
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    agreed,
    at_front,
    follow,
    has_entries,
)


@follow.register(Shape_i)
def _follow_length(op: Shape_i, node: Apply, known: Known) -> Results:
    length = selected_length(known.selections[node.inputs[0]], op.i, known)
    return [_once_selected(length, node.inputs[0], known)]


@follow.register(Shape)
def _follow_shape(op: Shape, node: Apply, known: Known) -> Results:
    chosen = known.selections[node.inputs[0]]
    lengths = [selected_length(chosen, axis, known) for axis in range(node.inputs[0].type.ndim)]
    return [_once_selected(pt.stack(lengths).astype("int64"), node.inputs[0], known)]


def _once_selected(length: Tensor, variable: Tensor, known: Known) -> Tensor:
    """Lengths of an array that nothing else needs: what it is made of may fail.

    PyTensor's rewrites compute most of them without the array.  The condition is known when the
    program is traced, so it costs no call anything.
    """
    chosen = known.selections[variable]
    if chosen.full.owner is None or not known.is_only_measured(variable):
        return length
    there = pt.ge(Shape_i(chosen.places(chosen.axes[0])[0])(chosen.full), 0)
    return CheckAndRaise(AssertionError, "an array has no length")(length, there)


def selected_length(chosen: Selection, axis: int, known: Known) -> Tensor:
    """A length of a selection."""
    if chosen.masks[axis] is not None:
        return known.count(chosen.masks[axis])
    return Shape_i(chosen.places(axis)[0])(chosen.full)


@follow.register(Elemwise)
def _follow_elementwise(op: Elemwise, node: Apply, known: Known) -> Results:
    parts = agreed(
        [known.chosen(v) for v in node.inputs], [v.type.broadcastable for v in node.inputs], known
    )
    if parts is None or op.inplace_pattern:
        return None
    outputs = op.make_node(*(part.full for part in parts)).outputs
    return [Selection(output, parts[0].masks) for output in outputs]


@follow.register(CheckAndRaise)
def _follow_check(op: CheckAndRaise, node: Apply, known: Known) -> Results:
    """Conditions that depend on no selection: of one, `all` gives a value."""
    value, *conditions = node.inputs
    if any(condition in known.selections for condition in conditions):
        return None
    chosen = known.selections[value]
    return [replace(chosen, full=op(chosen.full, *map(known.new, conditions)))]


@follow.register(SpecifyShape)
def _follow_specified(op: SpecifyShape, node: Apply, known: Known) -> Results:
    """Lengths that are given.  A selection of a given length is a part of the full array."""
    chosen, lengths = known.plain(node.inputs[0]), node.inputs[1:]
    for axis, length in enumerate(lengths):
        mask = chosen.masks[axis]
        if mask is not None and not isinstance(length.type, NoneTypeT):
            found = at_front(chosen, [axis], known)
            if found is None:
                return None
            chosen = _cut(found, axis, known.new(length), known.count(mask))
    return [replace(chosen, full=op(chosen.full, *map(known.new, lengths)))]


def _cut(chosen: Selection, axis: int, length: Tensor, count: Tensor) -> Selection:
    """A selection at the front of a dimension, of a given length."""
    refuse = CheckAndRaise(AssertionError, "SpecifyShape: a length is not the given one")
    full: Tensor = refuse(chosen.full, pt.eq(count, length))
    part = full[(*[slice(None)] * axis, slice(length))]
    return Selection(part, (*chosen.masks[:axis], None, *chosen.masks[axis + 1 :]))


@follow.register(DeepCopyOp)
def _follow_copy(op: DeepCopyOp, node: Apply, known: Known) -> Results:
    return [known.selections[node.inputs[0]]]


@follow.register(ViewOp)
def _follow_view(op: ViewOp, node: Apply, known: Known) -> Results:
    """An Op that passes its input on, and has a gradient entry by entry."""
    if not is_entry_by_entry(op):
        return None
    chosen = known.selections[node.inputs[0]]
    return [replace(chosen, full=op(chosen.full))]


@follow.register(Fitted)
def _follow_fitted(op: Fitted, node: Apply, known: Known) -> Results:
    """An array and a mask of it, both as long as a selection."""
    array, mask = (known.selections.get(v) for v in node.inputs)
    if array is None or mask is None or op.axis not in array.axes or mask.axes != (0,):
        return None
    mask = known.aligned(mask, 0, array.masks[op.axis])
    if mask is None or not array.is_plain or len(mask.masks) != 1:
        return None
    return [Selection(op(array.full, mask.full), array.masks)]


@follow.register(Merged)
@follow.register(Stretched)
def _follow_written(op: Merged | Stretched, node: Apply, known: Known) -> Results:
    """A value written into an array that is a selection."""
    value, there = map(known.chosen, node.inputs)
    if not there.axes or not there.is_plain or not value.is_plain:
        return None
    for axis, mask in enumerate(there.masks):
        if mask is not None and value.masks[axis] is not None:
            value = known.aligned(value, axis, mask)
            if value is None:
                return None
        elif mask is not None and isinstance(op, Stretched):
            if not node.inputs[0].type.broadcastable[axis]:
                return None
        elif mask is not None or value.masks[axis] is not None:
            return None
    return [Selection(op(value.full, there.full), there.masks)]


@follow.register(DimShuffle)
def _follow_order(op: DimShuffle, node: Apply, known: Known) -> Results:
    chosen = known.selections[node.inputs[0]]
    order = list(node.op.new_order)
    if not {*chosen.axes} <= {*order}:
        return None
    places: list[Tensor] = []
    for axis in order:
        places += ["x"] if axis == "x" else chosen.places(axis)
    masks = tuple(None if axis == "x" else chosen.masks[axis] for axis in order)
    return [Selection(chosen.full.dimshuffle(places), masks)]


@follow.register(CAReduce)
def _follow_reduction(op: CAReduce, node: Apply, known: Known) -> Results:
    chosen = known.selections[node.inputs[0]]
    ndim = node.inputs[0].type.ndim
    axes = range(ndim) if op.axis is None else op.axis
    places = tuple(place for axis in axes for place in chosen.places(axis))
    across = [axis for axis in axes if chosen.masks[axis] is not None]
    full, left = chosen.full, tuple(m for k, m in enumerate(chosen.masks) if k not in axes)
    if across:
        neutral = _neutral(op.scalar_op, full.type.dtype)
        if neutral is None:
            return None
        full = chosen.masked(neutral, across)
    result = op.clone(axis=places)(full)
    if across and isinstance(op, Max | Min) and not getattr(op, "initial", None):
        name = "maximum" if isinstance(op, Max) else "minimum"
        empty = CheckAndRaise(
            ValueError, f"zero-size array to reduction operation {name} which has no identity"
        )
        result = empty(result, has_entries(chosen, across))
    return [Selection(result, left)]


_NEUTRAL_TRUTH = {
    scalar.AND: True,
    scalar.Add: False,
    scalar.Maximum: False,
    scalar.Minimum: True,
    scalar.Mul: True,
    scalar.OR: False,
}
"""The booleans that change no reduction."""


def _neutral(op: object, dtype: str) -> Tensor:
    """The value that changes no reduction by ``op``, or None where there is none."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return _NEUTRAL_TRUTH.get(type(op))
    lowest, highest = (-np.inf, np.inf) if kind.kind == "f" else (None, None)
    if kind.kind in "iu":
        lowest, highest = np.iinfo(kind).min, np.iinfo(kind).max
    return {
        scalar.Add: 0,
        scalar.Mul: 1,
        MulWithoutZeros: 0,
        scalar.Maximum: lowest,
        scalar.Minimum: highest,
    }.get(type(op))
