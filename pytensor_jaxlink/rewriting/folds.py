"""How a selection passes through a reshape that divides its entries into groups::

    x[mask].reshape((-1, 2))        x[:k].reshape((3, -1))

The selected entries go to the front.  As many groups as fit into the full array are made, and those
at the front are selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.raise_op import CheckAndRaise

from pytensor_jaxlink.rewriting.selections import Known, Selection, Tensor, at_front, has_entries


def folded(
    chosen: Selection, array: Tensor, lengths: Sequence[Tensor], known: Known
) -> Selection | None:
    """The first dimension as several, of which one is open; or None.

    Parameters
    ----------
    chosen
        What stands for the array.
    array
        The array, which is selected from in its first dimension alone.
    lengths
        The new shape: the literal lengths of the parts, and once -1 or a length that is computed;
        then the other dimensions.
    """
    rest = len(chosen.masks) - 1
    parts, others = lengths[: len(lengths) - rest], lengths[len(lengths) - rest :]
    if chosen.axes != (0,):
        return None
    if not all(known.has_length(n, array, [1 + axis]) for axis, n in enumerate(others)):
        return None
    sizes = [int(part.data) if isinstance(part, Constant) else -1 for part in parts]
    if sizes.count(-1) != 1 or any(size < 1 for size in sizes if size != -1):
        return None
    front = at_front(chosen, [0], known)
    if front is None:
        return None
    place, mask = sizes.index(-1), front.masks[0]
    before, after = prod(sizes[:place]), prod(sizes[place + 1 :])
    groups = known.grouped(mask, before * after)
    count: Tensor = known.count(mask)
    message = f"cannot reshape a selection into shape ({', '.join(map(str, sizes))})"
    divides: Tensor = pt.eq(count % (before * after), 0)
    if rest:  # NumPy computes no length where the others are of nothing
        divides &= has_entries(front, range(1, 1 + rest))
    if not isinstance(parts[place], Constant):
        length = known.new(parts[place]).astype("int64")
        divides = (pt.lt(length, 0) & divides) | pt.eq(count, length * (before * after))
    full: Tensor = CheckAndRaise(ValueError, message)(front.full, divides)
    entries = full[_places(before, groups, after, count, full)]
    shape = [*sizes[:place], groups.shape[0], *sizes[place + 1 :]]
    shape += [full.shape[1 + axis] for axis in range(rest)]
    masks = (*[None] * place, groups, *[None] * (len(sizes) - place - 1 + rest))
    return Selection(entries.reshape(shape, ndim=len(shape)), masks)


def _places(before: int, groups: Tensor, after: int, count: Tensor, full: Tensor) -> Tensor:
    """The entries of all groups in the order of the new dimensions, as indices or a slice."""
    length = groups.shape[0]
    if before == 1:
        return slice(None, length * after)
    parts: list[Tensor] = [pt.arange(size) for size in (before, length, after)]
    rows = parts[0][:, None, None] * (count // before // after)
    places: Tensor = (rows + parts[1][:, None]) * after + parts[2]
    return pt.minimum(places, full.shape[0] - 1).flatten()
