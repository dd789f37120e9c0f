"""How a selection passes through an operation, one rule for each Op that can take one.

A rule says what the outputs of a node become whose inputs are selections: selections again, values
(of a reduction, a length, a scatter), or None where the node needs the selection itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from operator import and_
from typing import Any, Protocol, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.tensor.type import discrete_dtypes

from pytensor_jaxlink.ops import in_true_steps, replacing_others

Tensor: TypeAlias = Any
"""A variable of PyTensor: its annotations leave out most of what a tensor can do."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The replacement of an array: a full array, and for each dimension what is selected of it.

    Attributes
    ----------
    full
        The array before the selection, with ``mask.ndim`` dimensions in the place of one that a
        mask selects from.
    masks
        For each dimension of the selection a boolean array, true where the full array has an entry
        of the selection; None for a dimension that is there as a whole.
    """

    full: Tensor
    masks: tuple[Tensor, ...]

    @classmethod
    def along(cls, axis: int, full: object, mask: object) -> Selection:
        """A selection in one dimension."""
        after = full.type.ndim - axis - mask.type.ndim
        return cls(full, (*[None] * axis, mask, *[None] * after))

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions that are selected from."""
        return tuple(axis for axis, mask in enumerate(self.masks) if mask is not None)

    @property
    def is_plain(self) -> bool:
        """Return True if each dimension of the selection is one of the full array."""
        return all(_width(mask) == 1 for mask in self.masks)

    def places(self, axis: int) -> list[int]:
        """The dimensions of the full array that stand for a dimension of the selection."""
        first = sum(map(_width, self.masks[:axis]))
        return list(range(first, first + _width(self.masks[axis])))

    def selected(self, axes: Iterable[int]) -> Tensor:
        """Where the full array has entries of the selection, along some masked dimensions."""
        parts = [self._spread(axis) for axis in axes]
        return reduce(and_, parts)

    def _spread(self, axis: int) -> Tensor:
        order: list[Tensor] = ["x"] * self.full.type.ndim
        places = self.places(axis)
        order[places[0] : places[-1] + 1] = range(len(places))
        return self.masks[axis].dimshuffle(order)

    def masked(self, value: object, axes: Iterable[int] | None = None) -> Tensor:
        """The full array with another value where nothing is selected along some dimensions.

        The value is a number, or a variable of the array's type.
        """
        chosen = [axis for axis in self.axes if axes is None or axis in axes]
        if not chosen:
            return self.full
        if not isinstance(value, Variable):
            value = pt.constant(np.asarray(value, dtype=self.full.type.dtype))
        return replacing_others(self.selected(chosen), self.full, value)

    def marked(self, axes: Iterable[int] | None = None) -> Tensor:
        """The full array, where it does not matter what is not selected along some dimensions."""
        chosen = [axis for axis in self.axes if axes is None or axis in axes]
        if not chosen or self.full.type.dtype in discrete_dtypes:
            return self.full
        if any(self.full.type.broadcastable[k] for axis in chosen for k in self.places(axis)):
            return self.full  # its one entry is selected
        filler = pt.zeros((), dtype=self.full.type.dtype)
        return in_true_steps(self.selected(chosen), self.full, filler)

    def widened(self, axis: int, mask: object) -> Selection:
        """An array of length 1 along a dimension, in the rank of others that a mask selects from.

        It goes together with all that the mask selects.
        """
        masks = (*self.masks[:axis], mask, *self.masks[axis + 1 :])
        more = _width(mask) - 1
        if not more:
            return Selection(self.full, masks)
        order: list[Tensor] = list(range(self.full.type.ndim))
        place = self.places(axis)[0]
        order[place:place] = ["x"] * more
        return Selection(self.full.dimshuffle(order), masks)


def _width(mask: object) -> int:
    return 1 if mask is None else int(mask.type.ndim)


@dataclass(frozen=True)
class Destination:
    """The entries of an array that an index takes, where this is an array and masks of it.

    Attributes
    ----------
    array
        The array that ``beside`` leaves.
    entries
        The selection: ``array``, as long as the masks, with the masks.
    beside
        The other indices, literals and scalars, with whole slices for the masks; None where there
        are none.
    by_places
        Whether the index are the places that `nonzero` gives.
    """

    array: Tensor
    entries: Selection
    beside: tuple[Tensor, ...] | None = None
    by_places: bool = False


class Known(Protocol):
    """The facts about a graph so far."""

    selections: dict[Variable, Selection]

    def new(self, variable: object) -> Tensor:
        """The present replacement of a variable."""
        ...

    def chosen(self, variable: object) -> Selection:
        """The replacement of a variable as a selection, if of everything."""
        ...

    def plain(self, variable: object) -> Selection:
        """The replacement of a variable, with each mask in one dimension."""
        ...

    def sliceable(self, variable: object, axes: Iterable[int]) -> Selection:
        """The replacement of a variable, of which parts are taken along some dimensions."""
        ...

    def target(self, node: Apply) -> Destination | None:
        """The entries that a node writes to, or None."""
        ...

    def count(self, mask: object) -> Tensor:
        """How many entries a mask selects."""
        ...

    def is_prefix(self, mask: object) -> bool:
        """Return True for the mask of entries at the front."""
        ...

    def within(self, chosen: Selection, axis: int, start: int, stop: int) -> Tensor:
        """The mask of a prefix in the part of its array between two places; None of other masks."""
        ...

    def least(self, one: object, other: object) -> Tensor:
        """The mask of as many entries as the shorter one of two prefixes has."""
        ...

    def as_many(self, one: object, other: object) -> bool:
        """Return True if two masks are known to select as many entries."""
        ...

    def longer(self, mask: object, more: int) -> Tensor:
        """The mask of more entries than another one selects, at the front; itself for no more."""
        ...

    def grouped(self, mask: object, size: int) -> Tensor:
        """The mask of one entry for so many that another one selects, at the front."""
        ...

    def length_key(self, array: object, axis: int) -> object:
        """Equal keys of lengths that are known to be equal."""
        ...

    def is_only_measured(self, variable: Variable) -> bool:
        """Return True if nothing but lengths is read of an array."""
        ...

    def has_length(self, length: object, array: object, axes: Iterable[int]) -> bool:
        """Return True if a length without checks is that of some dimensions of an array."""
        ...

    def mask_counted_by(self, length: object, *, or_none: bool = False) -> Tensor:
        """The mask of a selection whose length a variable is, or None.

        A negative number is refused, or counts as 0 (``or_none``).
        """
        ...

    def mask_along(self, array: object, axis: int) -> Tensor:
        """The mask whose true entries are as many as an array has along a dimension, or None."""
        ...

    def is_late_number(self, variable: object) -> bool:
        """Return True for an integer that is no array, and computed late."""
        ...

    def checked(self, value: object, *lengths: object) -> Tensor:
        """A value, if some lengths that masks count pass their checks."""
        ...

    def allocated(self, value: object, *lengths: object) -> Tensor:
        """A value, if some lengths that masks count pass their checks, and are not negative."""
        ...

    def derived(self, how: str, of: tuple[object, ...], make: Callable[[], Tensor]) -> Tensor:
        """A mask that follows from others: the same object for the same ones."""
        ...

    def complement(self, mask: object) -> Tensor:
        """The mask of what follows a prefix, where that has been asked for, or None."""
        ...

    def ranks(self, mask: object) -> Tensor:
        """For each entry that a mask selects how many it selects before; for others anything."""
        ...

    def place(self, mask: object, ranks: object, among: object) -> Tensor:
        """The places of the entries of some ranks; `IndexError` where there is none.

        Only ranks that the mask ``among`` selects have to be there.
        """
        ...

    def front(self, mask: object) -> Tensor:
        """The mask of as many entries as another one selects, at the front; itself if it is."""
        ...

    def every(self, mask: Tensor, step: int) -> Tensor:
        """The mask of the first entry that a mask selects, and of every so many after it."""
        ...

    def backward(self, mask: object) -> Tensor:
        """The mask of the same entries of an array that has been turned around."""
        ...

    def part(self, chosen: Selection, axis: int, start: object, stop: object) -> Tensor:
        """The mask of a slice of a selection along a dimension, or None."""
        ...

    def slice_mask(self, array: object, axis: int, taken: slice) -> Tensor:
        """The mask of a slice to bounds computed late, or None."""
        ...

    def early_slice(self, taken: slice) -> slice | None:
        """A slice to what its bounds are now; None where they are computed late."""
        ...

    def everything(self, chosen: Selection, axis: int) -> Selection:
        """A selection as one by the mask of all entries along a dimension that is there whole."""
        ...

    def aligned(
        self, chosen: Selection, axis: int, mask: object, *, stretch: bool = False
    ) -> Selection | None:
        """A selection as one by another mask along a dimension, where both take as many; or None.

        One entry may stand for many where it is to be stretched.
        """
        ...


Results = Sequence[Any] | None


@singledispatch
def follow(op: Op, node: Apply, known: Known) -> Results:
    """The outputs of a node that reads selections, rewritten; None where they escape."""
    return None


def agreed(
    parts: Sequence[Selection], stretched: Sequence[Sequence[bool]], known: Known
) -> list[Selection] | None:
    """Arrays of one rank that go together entry by entry, by the same masks; or None.

    Parameters
    ----------
    parts
        The arrays.
    stretched
        For each of them, the dimensions of length 1, which go together with any.
    """
    found = list(parts)
    for axis in range(len(stretched[0])):
        here = [k for k, ones in enumerate(stretched) if not ones[axis]]
        mask = next((m for part in found if (m := part.masks[axis]) is not None), None)
        if mask is None:
            continue
        for k, part in enumerate(found):
            if part.masks[axis] is not None:
                moved = known.aligned(part, axis, mask)
            else:
                moved = None if k in here else part.widened(axis, mask)
            if moved is None:
                return None
            found[k] = moved
    return found


def at_front(chosen: Selection, axes: Iterable[int], known: Known) -> Selection | None:
    """A selection with the selected entries before all others along some masked dimensions."""
    for axis in axes:
        moved = known.aligned(chosen, axis, known.front(chosen.masks[axis]))
        if moved is None:
            return None
        chosen = moved
    return chosen


def has_entries(chosen: Selection, axes: Iterable[int]) -> Tensor:
    """A condition: there is something along each of some dimensions, selected or of all entries."""
    return reduce(and_, [_has_some(chosen, axis) for axis in axes])


def _has_some(chosen: Selection, axis: int) -> Tensor:
    mask = chosen.masks[axis]
    return pt.neq(chosen.full.shape[axis], 0) if mask is None else mask.any()


def written_to(
    like: Selection, value: object, known: Known, *, stretch: bool = False
) -> Selection | None:
    """A value that is written to the places of a selection, as what stands for a selection."""
    missing = len(like.masks) - value.type.ndim
    if missing < 0:
        return None
    given = known.chosen(value)
    order = [*["x"] * missing, *range(given.full.type.ndim)]
    found = Selection(given.full.dimshuffle(order), (*[None] * missing, *given.masks))
    for axis in reversed(range(len(like.masks))):
        mask, own = like.masks[axis], found.masks[axis]
        one = axis < missing or value.type.broadcastable[axis - missing]
        if mask is not None and one and own is None:
            moved = found.widened(axis, mask)
        elif mask is not None:
            given = known.everything(found, axis) if own is None else found
            moved = known.aligned(given, axis, mask, stretch=stretch)
        else:
            moved = found if own is None else None
        if moved is None:
            return None
        found = moved
    return found


def is_literal(index: object) -> bool:
    """Return True if an index is literal: its result has the same length whatever the data."""
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return all(part is None or isinstance(part, Constant) for part in parts)
