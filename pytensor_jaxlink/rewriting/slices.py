"""The masks of slices to bounds computed from data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.analysis.lengths import Lengths, length_of
from pytensor_jaxlink.ops import Fitted, Realign
from pytensor_jaxlink.rewriting.bounds import normalised
from pytensor_jaxlink.rewriting.selections import Masked, Selection


class Spans:
    """The masks of the slices of a graph: one object for equal bounds on equal lengths.

    Parameters
    ----------
    fgraph
        The graph, which is being rewritten.
    new
        What stands for a variable of it now.
    """

    def __init__(self, fgraph: FunctionGraph, new: Callable[[Any], Any]) -> None:
        self._fgraph, self._new, self._lengths = fgraph, new, Lengths(fgraph)
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
        length = self._length(array, axis)
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

    def _length(self, array: Any, axis: int) -> Any:
        """The length of an array of the old graph, or of the new one."""
        if array in self._fgraph.variables:
            return self._new(length_of(self._fgraph, array, axis))
        return Shape_i(axis)(self._new(array))

    def fitting(self, array: Any, index: Masked) -> Any:
        """The array that stands for one now, as long as a mask that selects from it."""
        places = range(index.mask.type.ndim)
        if all(self._lengths.same(array, index.axis + k, index.mask, k) for k in places):
            return self._new(array)
        return Fitted(index.axis, by_places=index.by_places)(
            self._new(array), self._new(index.mask)
        )

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
        return normalised(self._new(tensor_behind(bound)), length)
