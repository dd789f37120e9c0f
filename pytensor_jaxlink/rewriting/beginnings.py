"""Where selections begin, and where they are written to: masks, slices to late bounds, `unique`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Nonzero
from pytensor.tensor.extra_ops import Unique
from pytensor.tensor.sort import sort
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type import discrete_dtypes, float_dtypes

from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.graph import indices_of
from pytensor_jaxlink.ops import Fitted, held_dtype
from pytensor_jaxlink.rewriting.graph_masks import Masks
from pytensor_jaxlink.rewriting.mask_indices import MaskIndex, mask_of
from pytensor_jaxlink.rewriting.orderings import cut_axes, part_of, place_of
from pytensor_jaxlink.rewriting.selections import Destination, Selection, Tensor, is_literal


class Beginnings(Masks):
    """The nodes of a graph at which selections begin or end, as `Masks` knows the masks."""

    def source(self, node: Apply) -> list[Selection]:
        """The selections that the outputs of a node are, where they begin here."""
        if node.inputs and held_dtype(node.inputs[0]) is not None:
            return []  # what is not selected would be replaced in the declared type
        match node.op:
            case AdvancedSubtensor():
                found = self._selected(node)
            case Subtensor() if node.inputs[0] not in self.selections:
                found = self._part_of(node)
            case Unique():
                found = self._distinct(node)
            case Nonzero():
                return self._places(node)
            case _:
                return []
        return [] if found is None else [found]

    def _places(self, node: Apply) -> list[Selection]:
        """``nonzero(mask)`` selects from the numbers of the rows, columns, ..., by the mask."""
        given = node.inputs[0]
        if given not in self.late_masks or given in self.refused or given in self.selections:
            return []
        mask = self.new(given)
        if mask.type.dtype != "bool":
            mask = self.derived("true", (mask,), lambda: pt.neq(self.new(given), 0))
        self.origin[mask] = given
        numbers = []
        for axis in range(mask.type.ndim):
            order: list[Tensor] = ["x"] * mask.type.ndim
            order[axis] = 0
            counter = pt.arange(mask.shape[axis]).dimshuffle(order)
            numbers.append(Selection(pt.switch(mask, counter, 0), (mask,)))
        return numbers

    def _distinct(self, node: Apply) -> Selection | None:
        """``unique(x)`` selects from the sorted values those that differ from the one before."""
        array, op = node.inputs[0], node.op
        extra = op.return_index or op.return_inverse or op.return_counts
        if (
            extra
            or op.axis is not None
            or array.type.dtype not in (*float_dtypes, *discrete_dtypes)
        ):
            return None
        if array not in self.late_masks or array in self.refused or array in self.selections:
            return None
        ordered: Any = sort(self.new(array).flatten())
        repeated: Any = pt.eq(ordered[1:], ordered[:-1])
        if array.type.dtype in float_dtypes:
            missing: Any = pt.isnan(ordered)
            repeated = repeated | (missing[1:] & missing[:-1])
        first: Any = pt.ones(ordered.shape, dtype="bool")
        mask = pt.set_subtensor(first[1:], ~repeated)
        self.origin[mask] = array
        return Selection(ordered, (mask,))

    def _selected(self, node: Apply) -> Selection | None:
        found = mask_of(node, self.new)
        if found is None:
            return None
        axis, mask = found.axis, found.mask
        array = node.inputs[0]
        outer, inner = self.chosen(array), self.selections.get(mask)
        if found.beside is not None and outer.axes:
            return None
        if inner is None:
            here = outer.masks[axis : axis + mask.type.ndim]
            if not self.is_late(mask) or any(own is not None for own in here):
                return None
            new = self.new(mask)
            self.origin[new] = mask
            if outer.axes:
                full = Fitted(outer.places(axis)[0], by_places=found.by_places)(outer.full, new)
                after = outer.masks[axis + mask.type.ndim :]
                return Selection(full, (*outer.masks[:axis], new, *after))
            whole = outer.full if found.beside is None else outer.full[found.beside]
            full = self._fitting(array if whole is outer.full else whole, axis, found)
            return Selection.along(axis, full, new)
        own = outer.masks[axis]
        moved = None if own is None else self.aligned(inner, 0, own)
        if moved is None or len(moved.masks) > 1:
            return None
        both = self.derived("both", (own, mask), lambda: own & moved.full)
        return Selection(outer.full, (*outer.masks[:axis], both, *outer.masks[axis + 1 :]))

    def _part_of(self, node: Apply) -> Selection | None:
        """The selection that slices to late bounds take of an array."""
        found = self.sliced(node)
        if found is None:
            return None
        return found.entries

    def sliced(self, node: Apply) -> Destination | None:
        """The part of an array that a node takes by slices to late bounds, literals and scalars."""
        array = node.inputs[0]
        indices = indices_of(node)
        indices += [slice(None)] * (array.type.ndim - len(indices))
        chosen, beside, masks = self.sliceable(array, cut_axes(indices)), [], []
        if not chosen.is_plain:
            return None
        for axis, index in enumerate(indices):
            taken = self._taken(node, axis, index)
            if taken is None:
                return None
            beside.append(taken[0])
            masks += taken[1]
        if not chosen.axes and all(mask is None for mask in masks):
            return None
        if all(isinstance(index, slice) and index == slice(None) for index in beside):
            return Destination(chosen.full, Selection(chosen.full, tuple(masks)))
        if not all(is_literal(index) for index in beside if isinstance(index, slice)):
            return None
        left = chosen.full[tuple(beside)]
        return Destination(left, Selection(left, tuple(masks)), tuple(beside))

    def _taken(self, node: Apply, axis: int, index: object) -> tuple[Any, Sequence[Tensor]] | None:
        """The index of the full array in one dimension, and the mask of what that leaves."""
        array = node.inputs[0]
        chosen = self.chosen(array)
        own = chosen.masks[axis]
        if own is None and isinstance(index, slice):
            mask = self.slice_mask(array, axis, index)
            return (index, [None]) if mask is None else (slice(None), [mask])
        if not isinstance(index, slice):
            index = self.new(tensor_behind(index))
            return index if own is None else place_of(own, index, self), []
        if self._is_front(own, index, node, axis):
            return index, [None]
        mask = part_of(chosen, axis, index, self)
        return None if mask is None else (slice(None), [mask])

    def _is_front(self, mask: object, index: slice, node: Apply, axis: int) -> bool:
        """Return True where all of a value is written to the first entries of a longer prefix."""
        writes = isinstance(node.op, IncSubtensor)
        if not writes or not is_literal(index) or not self._spans.is_prefix(mask):
            return False
        missing = node.inputs[0].type.ndim - node.inputs[1].type.ndim
        value = self.chosen(node.inputs[1])
        stop = None if index.stop is None else int(index.stop.data)
        _, more = self._longer.get(mask, (mask, 0))
        return (
            index.start is None
            and stop is not None
            and 0 <= stop <= more
            and (axis < missing or value.masks[axis - missing] is None)
        )

    # -- what the rules ask ------------------------------------------------------------------------

    def _fitting(self, array: object, axis: int, index: MaskIndex) -> Tensor:
        """The array that stands for one now, as long as a mask; `IndexError` where it cannot be."""
        return self._spans.fitting(array, axis, index.mask, by_places=index.by_places)

    def target(self, node: Apply) -> Destination | None:
        """The entries that a node writes to, or None."""
        if isinstance(node.op, IncSubtensor):
            return self.sliced(node)
        base, found = node.inputs[0], mask_of(node, self.new)
        if found is None or base in self.selections:
            return None
        new, there = self.new(found.mask), self.new(base)
        if found.beside is not None:
            there = there[found.beside]
        old = self._fitting(base if found.beside is None else there, found.axis, found)
        entries = Selection.along(found.axis, old, new)
        return Destination(there, entries, found.beside, by_places=found.by_places)
