"""How a selection passes through a reshape.

Neighbouring dimensions become one, others stay::

    x[mask].ravel()        x[mask].reshape((k, 2, -1))        kron(x[:k], y)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import and_

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.shape import Reshape

from pytensor_jaxlink.rewriting.bounds import entries_of_shape
from pytensor_jaxlink.rewriting.folds import folded
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    follow,
    has_entries,
)

_ONE: Tensor = pt.constant(1, dtype="int64")


@follow.register(Reshape)
def _follow_reshape(op: Reshape, node: Apply, known: Known) -> Results:
    """Dimensions that are selected from stay, or become one with their neighbours."""
    array = node.inputs[0]
    lengths = entries_of_shape(node.inputs[1])
    if array not in known.selections:
        return None
    if op.ndim == 1:
        length = lengths[0] if lengths else pt.squeeze(node.inputs[1], axis=0)
        return [_flat(array, length, known)]
    if len(lengths) != op.ndim:
        return None
    chosen = known.plain(array)
    groups = _groups(chosen, array, lengths, known)
    rest = lengths[len(groups) :]
    if max(chosen.axes) >= sum(map(len, groups)):
        divided = folded(chosen, array, lengths, known)
        return None if divided is None else [divided]
    full = _divisible(chosen, groups, lengths, known)
    sizes = [prod((full.shape[axis] for axis in axes), start=_ONE) for axes in groups]
    masks = [_merged(chosen, array, axes, known) for axes in groups]
    shape = [*sizes, *map(known.new, rest)]
    result = full.reshape(shape, ndim=op.ndim)
    return [Selection(result, (*masks, *[None] * len(rest)))]


def _flat(array: Tensor, length: Tensor, known: Known) -> Selection:
    """All entries in one dimension; `ValueError` if there are not as many as a length says."""
    chosen = known.plain(array)
    axes = range(len(chosen.masks))
    mask, full = _merged(chosen, array, axes, known), chosen.full
    if not _is_open(length) and not known.has_length(length, array, axes):
        size = known.new(length).astype("int64")
        fits = pt.or_(pt.lt(size, 0), pt.eq(size, known.count(mask)))
        message = f"cannot reshape a selection into shape ({_written(length, 0, [], [])},)"
        full = CheckAndRaise(ValueError, message)(full, fits)
    return Selection(full.flatten(), (mask,))


def _groups(
    chosen: Selection, array: Tensor, lengths: Sequence[Tensor], known: Known
) -> list[list[int]]:
    """The dimensions that become one, for the first of some lengths, as far as they are clear."""
    groups: list[list[int]] = []
    first, ndim = 0, len(chosen.masks)
    for place, length in enumerate(lengths):
        starts = [list(range(first, last)) for last in range(first + 1, ndim + 1)]
        if _is_open(length):
            found = starts[-1:] if place == len(lengths) - 1 else []
        else:
            found = [axes for axes in starts if known.has_length(length, array, axes)]
        if not found:
            break
        groups.append(found[0])
        first = found[0][-1] + 1
    return groups


def _divisible(
    chosen: Selection, groups: Sequence[Sequence[int]], lengths: Sequence[Tensor], known: Known
) -> Tensor:
    """The full array; `ValueError` where an open length is one of the entries of nothing.

    A length that is computed is open where it is negative.
    """
    places = [place for place, length in enumerate(lengths) if _is_open(length)]
    computed = [length for length in lengths[len(groups) :] if not isinstance(length, Constant)]
    held = [axis for place, axes in enumerate(groups) if place not in places for axis in axes]
    across = [axis for axis in held if not chosen.full.type.shape[axis] or axis in chosen.axes]
    if not (places or computed) or not across:
        return chosen.full
    divisible = has_entries(chosen, across)
    if not places:
        divisible = reduce(and_, [pt.ge(known.new(length), 0) for length in computed]) | divisible
    held_lengths = [_written(length, place, groups, across) for place, length in enumerate(lengths)]
    message = f"cannot reshape array of size 0 into shape ({','.join(held_lengths)})"
    return CheckAndRaise(ValueError, message)(chosen.full, divisible)


def _merged(chosen: Selection, array: Tensor, axes: Sequence[int], known: Known) -> Tensor:
    """The mask of the dimension that some dimensions become, or None."""
    masks = [chosen.masks[axis] for axis in axes]
    if len(axes) == 1 or all(mask is None for mask in masks):
        return masks[0]

    def merged() -> Tensor:
        parts = [
            pt.ones((chosen.full.shape[axis],), "bool") if mask is None else mask
            for axis, mask in zip(axes, masks, strict=True)
        ]
        return reduce(lambda one, other: (one[:, None] & other).flatten(), parts)

    free = [known.length_key(array, axis) for axis in axes if chosen.masks[axis] is None]
    return known.derived("merged", (*masks, *free), merged)


def _written(
    length: Tensor, place: int, groups: Sequence[Sequence[int]], empty: Sequence[int]
) -> str:
    """A length in NumPy's words, where some dimensions of the array are empty."""
    if _is_open(length):
        return "newaxis"
    if isinstance(length, Constant):
        return str(int(length.data))
    return "0" if place < len(groups) and {*groups[place]} & {*empty} else "?"


def _is_open(length: object) -> bool:
    """Return True for the length that follows from the others; NumPy takes any negative one."""
    return getattr(length, "data", 0) < 0
