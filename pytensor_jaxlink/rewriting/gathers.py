"""How a selection passes through indexing by it, joining and flattening."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Join
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    indices_from_subtensor,
)

from pytensor_jaxlink.analysis.lengths import axis_and_parts
from pytensor_jaxlink.ops import Indexable, Merged
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    filler,
    follow,
    follow_scatter,
)


@follow.register(AdvancedSubtensor)
def _follow_gather(op: object, node: Apply, known: Known) -> Results:
    """``theta[group[mask]]`` is ``theta[group]`` with the same mask."""
    array = node.inputs[0]
    found = _selected_index(indices_of(node, 1), known)
    if array in known.selections or found is None:
        return None
    axis, index, mask = found
    there = _indexable(known.new(array), axis, len(index), mask)
    full = there[(*(slice(None),) * axis, *index)]
    return [Selection(full, mask, axis)]


@follow.register(AdvancedIncSubtensor)
def _follow_scatter(op: object, node: Apply, known: Known) -> Results:
    """Back by the same mask, or added at selected indices: what is not selected adds nothing."""
    base, value = node.inputs[:2]
    found = _selected_index(indices_of(node, 2), known)
    if found is None:
        return follow_scatter(node, known)
    axis, index, mask = found
    if base in known.selections or op.set_instead_of_inc:
        return None
    if getattr(op, "ignore_duplicates", False):
        return None
    whole = known.new(base)
    there = _indexable(whole, axis, len(index), mask)
    taken = there[(*(slice(None),) * axis, *index)]
    like, chosen = Selection(taken, mask, axis), known.selections.get(value)
    chosen = filler(like, known.new(value)) if chosen is None else known.aligned(chosen, like)
    if chosen is None or chosen.axis != axis or chosen.full.type.ndim != taken.type.ndim:
        return None
    added = pt.inc_subtensor(taken, chosen.masked(0))
    if type(op).__name__ == "AdvancedIncSubtensor1" and value in known.selections:
        # This Op of PyTensor before 3.1 takes one entry for one that is stretched.
        refuse = CheckAndRaise(ValueError, "Runtime broadcasting not allowed")
        added = refuse(added, pt.neq(mask.sum(), 1))
    return [added if there is whole else Merged()(added, whole)]


def _indexable(array: object, axis: int, count: int, mask: object) -> Any:
    """An array in which index 0 is in range; it may be empty where the mask selects nothing."""
    axes = tuple(range(axis, axis + count))
    return array if all(array.type.shape[a] for a in axes) else Indexable(axes)(array, mask)


# PyTensor before 3.1 has separate Ops for one vector of integers on the first axis.
for _name, _rule in (
    ("AdvancedSubtensor1", _follow_gather),
    ("AdvancedIncSubtensor1", _follow_scatter),
):
    if isinstance(_op := getattr(subtensor, _name, None), type):
        follow.register(_op)(_rule)


def indices_of(node: Apply, first: int) -> list[Any]:
    """The indices of a node, which begin at its input ``first``."""
    if not hasattr(node.op, "idx_list"):  # the separate Ops of PyTensor before 3.1
        return list(node.inputs[first:])
    return list(indices_from_subtensor(node.inputs[first:], node.op.idx_list))


def _selected_index(indices: Sequence[Any], known: Known) -> tuple[int, list[Any], Any] | None:
    """The first indexed dimension, the full indices, and the mask, or None.

    The indices are neighbours, and all are selections of vectors by one mask, or this mask itself.
    What is not selected becomes 0, an index that is in range of all but empty arrays.
    """
    axes = [axis for axis, index in enumerate(indices) if not isinstance(index, slice)]
    if any(i != slice(None) for i in indices if isinstance(i, slice)) or not axes:
        return None
    if axes != list(range(axes[0], axes[-1] + 1)):
        return None
    chosen = [known.selections.get(indices[axis]) for axis in axes]
    first = next((s for s in chosen if s is not None), None)
    if first is None:
        return None
    index = []
    for axis, selection in zip(axes, chosen, strict=True):
        if selection is None:
            if known.new(indices[axis]) is not first.mask or first.width != 1:
                return None
            index.append(pt.arange(first.mask.shape[0]))
        elif selection.mask is not first.mask or selection.full.type.ndim != first.width:
            return None
        else:
            index.append(selection.masked(0))
    if any(getattr(part.type, "dtype", None) == "bool" for part in index):
        return None
    return axes[0], index, first.mask


@follow.register(Join)
def _follow_join(op: Join, node: Apply, known: Known) -> Results:
    """Selections laid end to end are a selection of the full arrays laid end to end.

    What comes before a bound and what comes after it, of two arrays of one length, are together
    an array of this length, with no selection left.
    """
    axis, parts = axis_and_parts(node)
    if axis is None:
        return None
    chosen = [known.selections.get(part) for part in parts]
    if len(parts) == 2 and (whole := _two_halves(axis, chosen, known)) is not None:
        return [whole]
    if all(s is not None and s.width == 1 and s.axis != axis for s in chosen):
        [first, *rest] = [s for s in chosen if s is not None]
        if any(s.mask is not first.mask or s.axis != first.axis for s in rest):
            return None
        return [
            Selection(pt.join(axis, first.full, *(s.full for s in rest)), first.mask, first.axis)
        ]
    if any(s is not None and (s.axis != axis or s.width != 1) for s in chosen):
        return None
    fulls, masks = [], []
    for part, selection in zip(parts, chosen, strict=True):
        full = known.new(part) if selection is None else selection.full
        everything = pt.ones((full.shape[axis],), dtype="bool")
        fulls.append(full)
        masks.append(everything if selection is None else selection.mask)
    mask = known.derived("joined", tuple(masks), lambda: pt.join(0, *masks))
    return [Selection(pt.join(axis, *fulls), mask, axis)]


def _two_halves(axis: int, chosen: Sequence[object], known: Known) -> Any:
    before, after = chosen
    if before is None or after is None or before.axis != axis or after.axis != axis:
        return None
    if known.complement(before.mask) is not after.mask:
        return None
    order: list[Any] = ["x"] * before.full.type.ndim
    order[axis] = 0
    return pt.switch(before.mask.dimshuffle(order), before.full, after.full)


@follow.register(Reshape)
def _follow_flattening(op: Reshape, node: Apply, known: Known) -> Results:
    """A selection laid out in one dimension is one by a mask of all dimensions."""
    chosen = known.selections.get(node.inputs[0])
    if chosen is None or op.ndim != 1:
        return None
    ndim = chosen.full.type.ndim
    order: list[Any] = ["x"] * ndim
    order[chosen.axis : chosen.axis + chosen.width] = range(chosen.width)

    def everywhere() -> Any:
        return pt.switch(
            chosen.mask.dimshuffle(order), pt.ones(chosen.full.shape, "bool"), np.array(False)
        )

    return [Selection(chosen.full, known.derived(f"flat {order}", (chosen.mask,), everywhere), 0)]
