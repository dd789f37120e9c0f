"""How a selection passes through a search in sorted values.

Values that are searched for go one by one.  Values that are searched in go to the front, and the
rest is larger than all::

    searchsorted(edges, x[mask])        searchsorted(sort(x[mask]), y)
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.extra_ops import SearchsortedOp

from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    at_front,
    follow,
)


@follow.register(SearchsortedOp)
def _follow_search(op: SearchsortedOp, node: Apply, known: Known) -> Results:
    """The places of selected values, or places in selected values."""
    values, searched, *sorter = node.inputs
    if any(order in known.selections for order in sorter):
        return None
    wanted = known.chosen(searched)
    if values not in known.selections:
        found = op(known.new(values), wanted.full, *map(known.new, sorter))
        return [Selection(found, wanted.masks)]
    chosen = known.plain(values)
    largest = _largest(np.dtype(chosen.full.type.dtype))
    front = at_front(chosen, [0], known)
    if front is None or largest is None or sorter:
        return None
    [mask] = front.masks
    # Of values that are as large as the filler, or NaN, no place is behind the selection.
    places: Tensor = pt.minimum(op(front.masked(largest), wanted.full), known.count(mask))
    return [Selection(places.astype(node.outputs[0].type.dtype), wanted.masks)]


def _largest(kind: np.dtype) -> object:
    """The value of a type that is sorted behind all others, or None."""
    if kind.kind == "f":
        return np.nan
    return np.iinfo(kind).max if kind.kind in "iu" else None
