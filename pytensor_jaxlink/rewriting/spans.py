"""The masks of slices to bounds computed from data, and which arrays are as long as each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.ops import Fitted, Realign
from pytensor_jaxlink.rewriting.bounds import length_of, normalised, tensor_behind
from pytensor_jaxlink.rewriting.selections import Masked, Selection


@dataclass(frozen=True)
class Lengths:
    """The lengths of the arrays of a graph that is being rewritten.

    Attributes
    ----------
    fgraph
        The graph.
    new
        What stands for a variable of it now.
    """

    fgraph: FunctionGraph
    new: Callable[[Any], Any]

    def of(self, array: Any, axis: int) -> Any:
        """The length of an array of the old graph, or of the new one."""
        if array in self.fgraph.variables:
            return self.new(length_of(self.fgraph, array, axis))
        return Shape_i(axis)(self.new(array))

    def same(self, array: Any, axis: int, other: Any, place: int) -> bool:
        """Whether two lengths are known to be equal."""
        if array is other and axis == place:
            return True
        lengths = array.type.shape[axis], other.type.shape[place]
        if None not in lengths:
            return lengths[0] == lengths[1]
        feature = getattr(self.fgraph, "shape_feature", None)
        if feature is None or not {array, other} <= self.fgraph.variables:
            return False
        return feature.same_shape(array, other, axis, place)

    def fitting(self, array: Any, index: Masked) -> Any:
        """The array that stands for one now, as long as a mask that selects from it."""
        places = range(index.mask.type.ndim)
        if all(self.same(array, index.axis + place, index.mask, place) for place in places):
            return self.new(array)
        return Fitted(index.axis, by_places=index.by_places)(self.new(array), self.new(index.mask))


class Spans:
    """The masks of the slices of a graph: one object for equal bounds on equal lengths."""

    def __init__(self, lengths: Lengths) -> None:
        self._lengths = lengths
        self._masks: list[tuple[Any, Any, Any, int, Any]] = []
        self._bounds: dict[Any, tuple[Any, Any]] = {}
        self._complements: dict[Any, Any] = {}

    def mask(self, start: Any, stop: Any, array: Any, axis: int) -> Any:
        """The mask of what ``array[start:stop]`` takes in a dimension."""
        for known_start, known_stop, other, place, mask in self._masks:
            if (known_start is start and known_stop is stop) and (
                self._lengths.same(array, axis, other, place)
            ):
                return mask
        length = self._lengths.of(array, axis)
        counter = pt.arange(length)
        if start is not None and stop is None:
            # What follows a bound is what does not come before it: `Join` looks for such pairs.
            before = self.mask(None, start, array, axis)
            mask = ~before
            self._complements[before] = mask
        elif start is None:
            mask = counter < self._bound(stop, length)
        else:
            mask = (counter >= self._bound(start, length)) & (counter < self._bound(stop, length))
        self._masks.append((start, stop, array, axis, mask))
        self._bounds[mask] = start, stop
        return mask

    def complement(self, mask: Any) -> Any:
        """The mask of what follows a prefix, where that has been asked for, or None."""
        return self._complements.get(mask)

    def aligned(self, chosen: Selection, like: Selection, stretch: bool) -> Selection | None:
        """A selection as one by another mask, if both are slices with the same bounds.

        Two arrays whose lengths nobody knows are mostly equally long, and then nothing moves.
        """
        bounds = self._bounds.get(chosen.mask)
        other = self._bounds.get(like.mask)
        if (
            bounds is None
            or other is None
            or any(one is not two for one, two in zip(bounds, other, strict=True))
        ):
            return None
        here = self._ends(bounds, Shape_i(0)(chosen.mask))
        length = Shape_i(0)(like.mask)
        there = self._ends(bounds, length)
        full = Realign(chosen.axis, stretch=stretch)(chosen.full, *here, *there, length)
        return Selection(full, like.mask, chosen.axis)

    def _ends(self, bounds: tuple[Any, Any], length: Any) -> list[Any]:
        start, stop = bounds
        begin = pt.constant(0, dtype="int64") if start is None else self._bound(start, length)
        return [begin, length if stop is None else self._bound(stop, length)]

    def _bound(self, bound: Any, length: Any) -> Any:
        return normalised(self._lengths.new(tensor_behind(bound)), length)
