"""The masks of slices to bounds computed from data."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.analysis.extents import length_of, tensor_behind
from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.ops import Fitted, Realign
from pytensor_jaxlink.rewriting.bounds import normalised
from pytensor_jaxlink.rewriting.selections import Selection, Tensor

_ZERO: Any = pt.constant(0, dtype="int64")


class Spans:
    """The masks of the slices of a graph: one object for equal bounds on equal lengths.

    Parameters
    ----------
    fgraph
        The graph, which is being rewritten.
    new
        What stands for a variable of it now.
    """

    def __init__(self, fgraph: FunctionGraph, new: Callable[[Tensor], Tensor]) -> None:
        self._fgraph, self._new, self._lengths = fgraph, new, Lengths(fgraph)
        self._masks: list[tuple[Any, Any, Any, int, Any]] = []
        self._bounds: dict[Any, tuple[Tensor, Tensor]] = {}
        self._complements: dict[Tensor, Tensor] = {}
        self._ends: dict[Any, tuple[Tensor, Tensor]] = {}

    def mask(self, start: object, stop: object, array: Tensor, axis: int) -> Tensor:
        """The mask of what ``array[start:stop]`` takes in a dimension."""
        for known_start, known_stop, other, place, mask in self._masks:
            if (known_start is start and known_stop is stop) and (
                self._lengths.same(array, axis, other, place)
            ):
                return mask
        length = self._length(array, axis)
        counter = pt.arange(length)
        if start is not None and stop is None:
            # What follows a bound is what does not come before it: `Join` looks for such pairs.
            before = self.mask(None, start, array, axis)
            mask = ~before
            self._complements[before] = mask
            ends = self._ends[before][1], length
        elif start is None:
            ends = _ZERO, self._bound(stop, length)
            mask = counter < ends[1]
        else:
            ends = self._bound(start, length), self._bound(stop, length)
            mask = (counter >= ends[0]) & (counter < ends[1])
        self._masks.append((start, stop, array, axis, mask))
        self._bounds[mask], self._ends[mask] = (start, stop), ends
        return mask

    def _length(self, array: Tensor, axis: int) -> Tensor:
        """The length of an array of the old graph, or of the new one."""
        if array in self._fgraph.variables:
            return self._new(length_of(self._fgraph, array, axis))
        return Shape_i(axis)(self._new(array))

    def fitting(self, array: Tensor, axis: int, mask: Tensor, *, by_places: bool) -> Tensor:
        """The array that stands for one now, as long as a mask that selects from it."""
        if all(self._lengths.same(array, axis + k, mask, k) for k in range(mask.type.ndim)):
            return self._new(array)
        return Fitted(axis, by_places=by_places)(self._new(array), self._new(mask))

    def complement(self, mask: object) -> Tensor:
        """The mask of what follows a prefix, where that has been asked for, or None."""
        return self._complements.get(mask)

    def is_slice(self, mask: object) -> bool:
        """Return True for the mask of neighbours."""
        return mask in self._ends

    def is_prefix(self, mask: object) -> bool:
        """Return True for the mask of entries at the front."""
        return mask in self._ends and self._ends[mask][0] is _ZERO

    def aligned(
        self, chosen: Selection, axis: int, mask: object, stretch: bool
    ) -> Selection | None:
        """A selection as one by another mask along a dimension, if both are slices.

        Two arrays whose lengths nobody knows are mostly equally long, and then nothing moves
        between slices with the same bounds.
        """
        own, [place, *_] = chosen.masks[axis], chosen.places(axis)
        here, there = self._ends.get(own), self._ends.get(mask)
        if here is None or there is None:
            return None
        bounds, others = self._bounds.get(own, ()), self._bounds.get(mask, (None,))
        same = len(bounds) == len(others) and all(map(is_, bounds, others))
        move = Realign(place, stretch=stretch, same_bounds=same)
        full = move(chosen.full, *here, *there, Shape_i(0)(mask))
        return Selection(full, (*chosen.masks[:axis], mask, *chosen.masks[axis + 1 :]))

    def backward(self, mask: Tensor) -> Tensor:
        """The mask of the same entries of an array that has been turned around."""
        turned = mask[::-1]
        if mask in self._ends:
            length, [begin, end] = Shape_i(0)(mask), self._ends[mask]
            self._ends[turned] = length - end, length - begin
        return turned

    def front(self, count: object, length: object) -> Tensor:
        """The mask of the first entries of an array."""
        found = pt.arange(length) < count
        self._ends[found] = _ZERO, count
        return found

    def part(self, mask: Tensor, start: Tensor, stop: Tensor) -> Tensor:
        """The mask of a slice of what a slice takes; None of other masks."""
        if mask not in self._ends:
            return None
        begin, size = self._ends[mask][0], self.size(mask)
        low = begin if start is None else begin + normalised(pt.as_tensor(start), size)
        high = begin + (size if stop is None else normalised(pt.as_tensor(stop), size))
        counter = pt.arange(Shape_i(0)(mask))
        found = (counter >= low) & (counter < high)
        self._ends[found] = low, high
        return found

    def index(self, mask: object) -> slice | None:
        """The slice that takes the same entries; None for other masks than those of slices."""
        if mask not in self._ends:
            return None
        if mask not in self._bounds:
            start, stop = self._ends[mask]
            return slice(None if start is _ZERO else start, stop)
        bounds = (tensor_behind(bound) for bound in self._bounds[mask])
        return slice(*(bound if bound is None else self._new(bound) for bound in bounds))

    def size(self, mask: object) -> Tensor:
        """How many entries a slice takes, by its bounds; None for other masks."""
        if mask not in self._ends:
            return None
        begin, end = self._ends[mask]
        return end if begin is _ZERO else pt.maximum(end - begin, 0)

    def _bound(self, bound: object, length: object) -> Tensor:
        return normalised(self._new(tensor_behind(bound)), length)
