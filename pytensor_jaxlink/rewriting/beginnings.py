"""Where selections begin, and where they are written to: masks, slices to late bounds, `unique`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import Nonzero
from pytensor.tensor.extra_ops import Unique
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.sort import sort
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type import discrete_dtypes, float_dtypes

from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.graph import indices_of
from pytensor_jaxlink.ops import Fitted, held_dtype
from pytensor_jaxlink.rewriting.bounds import is_one
from pytensor_jaxlink.rewriting.graph_masks import Masks
from pytensor_jaxlink.rewriting.mask_indices import MaskIndex, mask_of
from pytensor_jaxlink.rewriting.orderings import cut_axes, literal_part, part_of, place_of
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

    def is_only_measured(self, variable: Variable) -> bool:
        """Return True if nothing but lengths is read of an array."""
        readers = self.fgraph.clients[variable]
        return all(isinstance(reader.op, Shape | Shape_i) for reader, _ in readers)

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
        if found.mask not in self.selections:
            if not self.is_late(found.mask):
                return None
            self.origin[self.new(found.mask)] = found.mask
        destination = self._by_mask(node.inputs[0], found)
        return None if destination is None else destination.entries

    def _by_mask(self, array: Tensor, index: MaskIndex) -> Destination | None:
        """The entries that an index with one mask takes, or writes to; None where nobody knows."""
        axis, mask = index.axis, index.mask
        outer, inner = self.chosen(array), self.selections.get(mask)
        if index.beside is not None and outer.axes:
            return None
        if inner is not None:
            return self._by_selected_mask(outer, index, inner)
        here = outer.masks[axis : axis + mask.type.ndim]
        if any(own is not None for own in here):
            return None
        new, whole = self.new(mask), outer.full
        if outer.axes:
            old = Fitted(outer.places(axis)[0], by_places=index.by_places)(whole, new)
            masks = (*outer.masks[:axis], new, *outer.masks[axis + mask.type.ndim :])
            return Destination(whole, Selection(old, masks), by_places=index.by_places)
        if index.beside is not None:
            whole = whole[index.beside]
        old = self._fitting(array if index.beside is None else whole, axis, index)
        entries = Selection.along(axis, old, new)
        return Destination(whole, entries, index.beside, by_places=index.by_places)

    def _by_selected_mask(
        self, outer: Selection, index: MaskIndex, inner: Selection
    ) -> Destination | None:
        """The same for a mask that is a selection itself, by the mask of the array or as long."""
        axis, own = index.axis, outer.masks[index.axis]
        moved = None if own is None else self.aligned(inner, 0, own)
        if moved is None or len(moved.masks) > 1:
            return None
        both = self.derived("both", (own, index.mask), lambda: own & moved.full)
        masks = (*outer.masks[:axis], both, *outer.masks[axis + 1 :])
        return Destination(outer.full, Selection(outer.full, masks), by_places=index.by_places)

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
            mask = self._literal(node, axis, index) if mask is None else mask
            return (index, [None]) if mask is None else (slice(None), [mask])
        if not isinstance(index, slice):
            index = self.new(tensor_behind(index))
            return index if own is None else place_of(own, index, self), []
        if self._is_front(own, index, node, axis):
            return index, [None]
        reads = not isinstance(node.op, IncSubtensor)
        if reads and (part := literal_part(chosen, axis, index, self)) is not None:
            return part[0], [part[1]]
        mask = part_of(chosen, axis, index, self)
        return None if mask is None else (slice(None), [mask])

    def _literal(self, node: Apply, axis: int, index: slice) -> Tensor:
        """The mask of a slice to literal bounds that is written to by a selection, or None."""
        if not isinstance(node.op, IncSubtensor) or not is_literal(index) or not is_one(index.step):
            return None
        if index.start is None and index.stop is None:
            return None
        array, value = node.inputs[:2]
        place, masks = axis - array.type.ndim + value.type.ndim, self.chosen(value).masks
        if not all(isinstance(each, slice) for each in indices_of(node)):
            return None
        if place < 0 or masks[place] is None:
            return None
        mask = self._spans.mask(index.start, index.stop, array, axis)
        self.origin.setdefault(mask, self.origin.get(masks[place], masks[place]))
        return mask

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

    def within(self, chosen: Selection, axis: int, start: int, stop: int) -> Tensor:
        """The mask of a prefix in the part of its array between two places; None of other masks."""
        mask, [place] = chosen.masks[axis], chosen.places(axis)
        if not self.is_prefix(mask):
            return None

        def part() -> Tensor:
            sizes: list[Tensor] = [self.count(mask), Shape_i(place)(chosen.full)]
            return self._front(*(pt.clip(size - start, 0, stop - start) for size in sizes))

        return self.derived(f"within {start}:{stop}", (mask,), part)

    # -- what the rules ask ------------------------------------------------------------------------

    def _fitting(self, array: object, axis: int, index: MaskIndex) -> Tensor:
        """The array that stands for one now, as long as a mask; `IndexError` where it cannot be."""
        return self._spans.fitting(array, axis, index.mask, by_places=index.by_places)

    def target(self, node: Apply) -> Destination | None:
        """The entries that a node writes to, or None."""
        if isinstance(node.op, IncSubtensor):
            return self.sliced(node)
        found = mask_of(node, self.new)
        return None if found is None else self._by_mask(node.inputs[0], found)
