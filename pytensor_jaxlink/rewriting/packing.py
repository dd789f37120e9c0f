"""Selections moved to the front of a dimension, and back to the places of a mask.

Entries go together by their rank where masks differ.  Pattern::

    x[m][1:] - x[m][:-1]        dot(x[m], y[k])        scan(step, sequences=[x[m]])

Replacement: ``x`` becomes ``x[order]``, where ``order`` begins with the places that ``m`` selects.
All that holds of a prefix then holds of the selection.  A mask of several dimensions is laid out in
one before.
"""

from __future__ import annotations

import pytensor.tensor as pt

from pytensor_jaxlink.rewriting.selections import Selection, Tensor


def ranks(mask: Tensor) -> Tensor:
    """The number of entries that a mask selects before each place; for others anything."""
    counted: Tensor = pt.cumsum(mask.flatten().astype("int64"))
    counted = counted - 1
    return counted if mask.type.ndim == 1 else counted.reshape(mask.shape, ndim=mask.type.ndim)


def order(mask: Tensor) -> Tensor:
    """The places that a mask of one dimension selects, and then 0.

    Cost: a running sum and a scatter, which take a tenth of the time of a sort.
    """
    count = mask.shape[0]
    room: Tensor = pt.zeros((count + 1,), dtype="int64")
    target = pt.switch(mask, ranks(mask), count)
    found: Tensor = pt.set_subtensor(room[target], pt.arange(count))
    return found[:count]


def packed(chosen: Selection, axis: int, places: Tensor, front: Tensor) -> Selection:
    """The entries that are selected along a dimension in front of the others."""
    return _with_mask(chosen, axis, _taken(chosen, axis, places), front)


def unpacked(chosen: Selection, axis: int, mask: Tensor) -> Selection:
    """Entries at the front of a dimension, moved to the places that a mask selects."""
    places = pt.maximum(ranks(mask), 0)
    return _with_mask(chosen, axis, _taken(chosen, axis, places), mask)


def flattened(chosen: Selection, axis: int, flat: Tensor) -> Selection:
    """A selection by the same mask in one dimension."""
    full, places = chosen.full, chosen.places(axis)
    before = [full.shape[k] for k in range(places[0])]
    after = [full.shape[k] for k in range(places[-1] + 1, full.type.ndim)]
    shape = (*before, flat.shape[0], *after)
    return _with_mask(chosen, axis, full.reshape(shape, ndim=len(shape)), flat)


def raised(chosen: Selection, axis: int, mask: Tensor) -> Selection:
    """A selection by a mask in one dimension as one by a mask of several."""
    full, [place] = chosen.full, chosen.places(axis)
    before = [full.shape[k] for k in range(place)]
    within = [mask.shape[k] for k in range(mask.type.ndim)]
    after = [full.shape[k] for k in range(place + 1, full.type.ndim)]
    shape = (*before, *within, *after)
    return _with_mask(chosen, axis, full.reshape(shape, ndim=len(shape)), mask)


def _taken(chosen: Selection, axis: int, places: Tensor) -> Tensor:
    return chosen.full[(*[slice(None)] * chosen.places(axis)[0], places)]


def _with_mask(chosen: Selection, axis: int, full: object, mask: object) -> Selection:
    return Selection(full, (*chosen.masks[:axis], mask, *chosen.masks[axis + 1 :]))
