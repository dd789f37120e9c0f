"""How a selection passes through indexing by it, and joining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Join
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor

from pytensor_jaxlink.graph import axis_and_parts, indices_of, is_vector_of_places
from pytensor_jaxlink.ops import Fitted, Indexable, Merged, NegativeZero, is_for_numpy_types
from pytensor_jaxlink.rewriting.bounds import as_int64, in_range
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    agreed,
    follow,
)
from pytensor_jaxlink.rewriting.updates import follow_scatter, value_written

_NOT_STRETCHED = CheckAndRaise(ValueError, "Runtime broadcasting not allowed")


@follow.register(AdvancedSubtensor)
def _follow_gather(op: object, node: Apply, known: Known) -> Results:
    """``theta[group[mask]]`` is ``theta[group]`` with the same mask."""
    taken = _taken(node, known)
    if taken is not None:
        return [taken.entries]
    ranked = _ranked(node, known)
    return None if ranked is None else [ranked[1]]


@follow.register(AdvancedIncSubtensor)
def _follow_scatter(op: object, node: Apply, known: Known) -> Results:
    """Back by the same mask, or added at selected indices: what is not selected adds nothing."""
    base, value = node.inputs[:2]
    if is_for_numpy_types(node):
        return None
    taken = _taken(node, known)
    if taken is None:
        return _by_ranks(node, known) or follow_scatter(node, known)
    chosen = value_written(node, taken.entries, known)
    if chosen is None:
        return None
    if is_vector_of_places(indices_of(node)) and taken.mask.type.ndim > 1:
        chosen = _unstretched(value, chosen, taken.entries)
    if op.set_instead_of_inc:
        return _set(node, taken, chosen, known)
    if getattr(op, "ignore_duplicates", False):
        return None
    dtype = chosen.full.type.dtype
    if np.dtype(dtype).kind in "biu":  # there is no -0.0 among integers
        dtype = base.type.dtype
        chosen = Selection(pt.cast(chosen.full, dtype), chosen.masks)
    nothing = NegativeZero(dtype)() if np.dtype(dtype).kind in "fc" else 0
    added = pt.inc_subtensor(taken.entries.full, chosen.masked(nothing))
    whole = known.chosen(base)
    if type(op).__name__ == "AdvancedIncSubtensor1" and value in known.selections:
        # This Op of PyTensor before 3.1 takes one entry for one that is stretched, but for arrays
        # of one entry.
        own = whole.masks[taken.axis]
        length = whole.full.shape[taken.axis] if own is None else own.sum()
        added = _NOT_STRETCHED(added, pt.or_(pt.neq(taken.mask.sum(), 1), pt.eq(length, 1)))
    result = added if taken.array is whole.full else Merged()(added, whole.full)
    return [Selection(result, whole.masks)]


def _unstretched(value: Tensor, written: Selection, entries: Selection) -> Selection:
    """A value written to ``x[places]``, where the mask of the places has several dimensions.

    So have the full indices, and PyTensor checks only the values that are written by a vector.
    """
    apart = range(1, min(value.type.ndim, len(entries.masks) - 1) + 1)
    fits = [
        pt.or_(pt.neq(written.full.shape[-axis], 1), pt.eq(entries.full.shape[-axis], 1))
        for axis in apart
        if not value.type.broadcastable[-axis]
    ]
    return Selection(_NOT_STRETCHED(written.full, *fits), written.masks) if fits else written


def _by_ranks(node: Apply, known: Known) -> Results:
    """Written to some entries of a selection, as many whatever the mask."""
    op, base = node.op, node.inputs[0]
    ranked = _ranked(node, known)
    if ranked is None or getattr(op, "ignore_duplicates", False):
        return None
    places, entries = ranked
    chosen = value_written(node, entries, known)
    if chosen is None:
        return None
    whole = known.plain(base)
    write = pt.set_subtensor if op.set_instead_of_inc else pt.inc_subtensor
    return [Selection(write(whole.full[places], chosen.full), whole.masks)]


def _ranked(node: Apply, known: Known) -> tuple[tuple[Tensor, ...], Selection] | None:
    """The places of some entries of a selection, and the entries: indices that are no selections.

    The indices are neighbours.
    """
    indices, array = indices_of(node), node.inputs[0]
    axes = _indexed(indices)
    if array not in known.selections or axes is None:
        return None
    if any(indices[k] in known.selections or indices[k].type.dtype == "bool" for k in axes):
        return None
    whole, everywhere = known.plain(array), pt.constant(np.array(True))
    places: list[Tensor] = list(map(known.new, indices))
    for axis in axes:
        own = whole.masks[axis]
        if own is not None:
            places[axis] = known.place(own, places[axis], everywhere)
    rank = max(indices[axis].type.ndim for axis in axes)
    masks = (*whole.masks[: axes[0]], *[None] * rank, *whole.masks[axes[-1] + 1 :])
    return (*places,), Selection(whole.full[(*places,)], masks)


def _indexed(indices: Sequence[Tensor]) -> list[int] | None:
    """The dimensions that are indexed, beside whole ones: neighbours; None of others."""
    axes = [axis for axis, index in enumerate(indices) if not isinstance(index, slice)]
    if any(i != slice(None) for i in indices if isinstance(i, slice)) or not axes:
        return None
    return axes if axes == list(range(axes[0], axes[-1] + 1)) else None


def _set(node: Apply, taken: _Taken, chosen: Selection, known: Known) -> Results:
    """Set at selected indices, in their order; what is not selected goes to one more row."""
    whole, axis = known.chosen(node.inputs[0]), taken.axis
    count = taken.array.shape[axis]
    row = pt.switch(taken.mask, in_range(taken.index[0], count), count)
    before = (slice(None),) * axis
    longer: Tensor = pt.join(axis, taken.array, pt.zeros_like(taken.array[(*before, slice(1))]))
    written: Tensor = pt.set_subtensor(longer[(*before, row, *taken.index[1:])], chosen.marked())
    written = written[(*before, slice(count))]
    if taken.array is not whole.full:
        written = Merged()(written, whole.full)
    return [Selection(written, whole.masks)]


@dataclass(frozen=True)
class _Taken:
    """The entries of an array that selected indices take: a selection by the same masks.

    Attributes
    ----------
    array, axis, index
        The array, and the indices of its neighbouring dimensions from the axis on.
    mask
        Where indices are selected, in the rank of the full indices.
    entries
        The selection.
    """

    array: Tensor
    axis: int
    index: list[Tensor]
    mask: Tensor
    entries: Selection


def _taken(node: Apply, known: Known) -> _Taken | None:
    found = _selected_index(node, known)
    if found is None:
        return None
    axis, index, selected, chosen = found
    whole = known.chosen(node.inputs[0])
    if not whole.is_plain or not chosen.axes:
        return None
    mask, everywhere = chosen.selected(chosen.axes), pt.constant(np.array(True))
    for place, own in enumerate(whole.masks[axis : axis + len(index)]):
        if own is not None:
            among = mask if axis + place in selected else everywhere
            index[place] = known.place(own, index[place], among)
    array = _indexable(whole.full, selected, mask)
    entries = array[(*(slice(None),) * axis, *index)]
    masks = (*whole.masks[:axis], *chosen.masks, *whole.masks[axis + len(index) :])
    return _Taken(array, axis, index, mask, Selection(entries, masks))


def _indexable(array: object, axes: Sequence[int], mask: object) -> Tensor:
    """An array in which index 0 is in range; it may be empty where the mask selects nothing."""
    return array if all(array.type.shape[a] for a in axes) else Indexable((*axes,))(array, mask)


# PyTensor before 3.1 has separate Ops for one vector of integers on the first axis.
for _name, _rule in (
    ("AdvancedSubtensor1", _follow_gather),
    ("AdvancedIncSubtensor1", _follow_scatter),
):
    if isinstance(_op := getattr(subtensor, _name, None), type):
        follow.register(_op)(_rule)


def _selected_index(
    node: Apply, known: Known
) -> tuple[int, list[Tensor], list[int], Selection] | None:
    """The first indexed dimension, the full indices, and the selection that they are; or None.

    The indices are neighbours, and go together entry by entry; one may be the mask of the others.
    What is not selected becomes 0, an index that is in range of all but empty arrays; the
    dimensions of such indices come third.  NumPy looks at the others where nothing is selected; at
    a number also where the mask has no entries, and so a number gets no dimensions.
    """
    indices, array = indices_of(node), node.inputs[0]
    axes = _indexed(indices)
    chosen = [] if axes is None else [known.selections.get(indices[axis]) for axis in axes]
    first = next((s for s in chosen if s is not None), None)
    if axes is None or first is None:
        return None
    rank = max(indices[axis].type.ndim for axis in axes)
    given, parts, ones = [], [], []
    for axis in axes:
        kind = indices[axis].type
        part: Selection | None = known.chosen(indices[axis])
        if kind.dtype == "bool":
            part = _counted(known.new(indices[axis]), first, known.chosen(array), axis)
        if part is None:
            return None
        if not kind.ndim:  # a number of uint64 is beyond all, one of an array counts from the end
            part = Selection(as_int64(part.full), part.masks)
        given.append(part)
        missing = rank - kind.ndim
        order = [*["x"] * missing, *range(part.full.type.ndim)]
        parts.append(Selection(part.full.dimshuffle(order), (*[None] * missing, *part.masks)))
        ones.append([*[True] * missing, *kind.broadcastable])
    together = agreed(parts, ones, known)
    if together is None:
        return None
    index = [
        moved.masked(0) if part.axes else moved.full if part.full.type.ndim else part.full
        for part, moved in zip(given, together, strict=True)
    ]
    selected = [axis for axis, part in zip(axes, parts, strict=True) if part.axes]
    return axes[0], index, selected, together[0]


def _counted(mask: Tensor, entries: Selection, array: Selection, axis: int) -> Selection | None:
    """The places of a mask of one dimension, where it selects some entries; or None."""
    if entries.masks[0] is not mask or len(entries.masks) != 1 or not entries.is_plain:
        return None
    if array.masks[axis] is not None:  # NumPy compares with a length that is not known
        return None
    places = pt.arange(array.full.shape[axis])
    return Selection(Fitted(0, by_places=False)(places, mask), (mask,))


@follow.register(Join)
def _follow_join(op: Join, node: Apply, known: Known) -> Results:
    """Selections laid end to end are a selection of the full arrays laid end to end.

    What comes before a bound and what comes after it, of two arrays of one length, are together
    an array of this length, with no selection left.
    """
    axis, parts = axis_and_parts(node)
    if axis is None:
        return None
    given = list(map(known.plain, parts))
    along = [part.masks[axis] for part in given]
    rest = [_without(part, axis) for part in given]
    chosen = agreed(rest, [[False] * len(rest[0].masks)] * len(rest), known)
    if chosen is None:
        return None
    fulls, masks = [part.full for part in chosen], chosen[0].masks
    if all(mask is None for mask in along):
        return [Selection(pt.join(axis, *fulls), masks)]
    if len(parts) == 2 and None not in along and known.complement(along[0]) is along[1]:
        first, second = (
            Selection.along(axis, full, mask) for full, mask in zip(fulls, along, strict=True)
        )
        return [Selection(first.masked(second.marked()), masks)]
    everything = [
        pt.ones((full.shape[axis],), dtype="bool") if mask is None else mask
        for full, mask in zip(fulls, along, strict=True)
    ]
    mask = known.derived("joined", tuple(everything), lambda: pt.join(0, *everything))
    return [Selection(pt.join(axis, *fulls), (*masks[:axis], mask, *masks[axis + 1 :]))]


def _without(chosen: Selection, axis: int) -> Selection:
    """A selection with the full array in one dimension."""
    return Selection(chosen.full, (*chosen.masks[:axis], None, *chosen.masks[axis + 1 :]))
