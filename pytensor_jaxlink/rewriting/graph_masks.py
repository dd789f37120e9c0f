"""The masks of a graph, and what follows from them.

Equal masks are one object, because arrays go together where their masks are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.type import discrete_dtypes

from pytensor_jaxlink.analysis import BindingTime, input_binding_times
from pytensor_jaxlink.analysis.extents import length_of, tensor_behind
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.ops import Assumption
from pytensor_jaxlink.rewriting.bounds import as_int64, is_one
from pytensor_jaxlink.rewriting.buffers import not_negative
from pytensor_jaxlink.rewriting.counts import Counts, summed
from pytensor_jaxlink.rewriting.notes import late_values
from pytensor_jaxlink.rewriting.packing import flattened, order, packed, raised, ranks, unpacked
from pytensor_jaxlink.rewriting.selections import Selection, Tensor
from pytensor_jaxlink.rewriting.slices import Spans


def is_one_integer(variable: object) -> bool:
    """Return True for an integer that is no array."""
    kind = variable.type
    return getattr(kind, "ndim", 1) == 0 and kind.dtype in discrete_dtypes


class Masks:
    """The masks of a graph.

    Parameters
    ----------
    fgraph, view
        The graph.
    changing
        The positions of the inputs that are data whatever their type.
    refused
        Masks, bounds and lengths of which something is needed as it is.
    """

    def __init__(
        self,
        fgraph: FunctionGraph,
        view: GraphView,
        changing: Collection[int],
        refused: set[Variable],
    ) -> None:
        self.fgraph, self.refused, self._changing = fgraph, refused, changing
        times = input_binding_times(view, changing)
        self.late_bounds = late_values(view, times)
        # A mask may be made of sizes, but vectors of integers and real numbers are data to it.
        self.late_masks = late_values(
            view,
            [
                time if is_one_integer(view.variables[number]) else BindingTime.DEVICE
                for time, number in zip(times, view.inputs, strict=True)
            ],
        )
        self.selections: dict[Variable, Selection] = {}
        self.values: dict[Variable, Any] = {}
        self.origin: dict[Tensor, Tensor] = {}  # of a mask that we made: what refuses it
        self._derived: dict[Tensor, Tensor] = {}
        self._orders: dict[Tensor, Tensor] = {}
        self._longer: dict[Any, tuple[Tensor, int]] = {}
        self._spans = Spans(fgraph, self.new)
        self._counts = Counts(fgraph, self.new, self.late_bounds)

    def new(self, variable: Tensor) -> Tensor:
        """The present replacement of a variable."""
        return self.values.get(variable, variable)

    def chosen(self, variable: Tensor) -> Selection:
        """The replacement of a variable as a selection, if of everything."""
        found = self.selections.get(variable)
        return (
            Selection(self.new(variable), (None,) * variable.type.ndim) if found is None else found
        )

    def slice_mask(self, array: object, axis: int, taken: slice) -> Tensor:
        """The mask of a slice to bounds computed late, with a literal, positive step; or None.

        It is the same for the same bounds on the same length.
        """
        if not is_one(taken.step):
            step = getattr(taken.step, "data", 0)
            part = (
                self.slice_mask(array, axis, slice(taken.start, taken.stop)) if step > 0 else None
            )
            return None if part is None else self.every(part, int(step))
        start, stop = taken.start, taken.stop
        bounds = [b for b in (start, stop) if b is not None]
        computed = [b for b in bounds if self._counts.is_late(tensor_behind(b))]
        if not computed or computed[0] in self.refused:
            return None
        mask = self._spans.mask(start, stop, array, axis)
        self.origin.setdefault(mask, computed[0])
        if start is None and self._changing:
            # A longer range beside it (`eye(n)` for `n > len(x)`) is left to PyTensor, which has
            # the graph before this rewrite only where a size has changed.
            self._counts.bound_by(tensor_behind(stop), mask)
        return mask

    def early_slice(self, taken: slice) -> slice | None:
        """A slice to what its bounds are now; None where they are computed late."""
        bounds = [taken.start, taken.stop, taken.step]
        if any(b is not None and self._counts.is_late(tensor_behind(b)) for b in bounds):
            return None
        return slice(*(b if b is None else self.new(tensor_behind(b)) for b in bounds))

    def derived(self, how: str, of: tuple[Tensor, ...], make: Callable[[], Tensor]) -> Tensor:
        """A mask that follows from others: the same object for the same ones."""
        key = how, *of
        if key not in self._derived:
            self._derived[key] = mask = make()
            self.origin[mask] = next((self.origin[m] for m in of if m in self.origin), mask)
        return self._derived[key]

    def every(self, mask: Tensor, step: int) -> Tensor:
        """The mask of the first entry that a mask selects, and of every so many after it."""

        def stepped() -> Tensor:
            counted: Tensor = pt.cumsum(mask.astype("int64"))
            return mask & pt.eq((counted - 1) % step, 0)

        return self.derived(f"every {step}", (mask,), stepped)

    def backward(self, mask: object) -> Tensor:
        """The mask of the same entries of an array that has been turned around."""
        turned = self.derived("backward", (mask,), lambda: self._spans.backward(mask))
        self._derived["backward", turned] = mask
        self._counts.know(turned, self.count(mask))
        return turned

    def front(self, mask: object) -> Tensor:
        """The mask of as many entries as another one selects, at the front."""
        if self._spans.is_prefix(mask):
            return mask
        make = partial(self._front, self.count(mask), Shape_i(0)(self.flat(mask)))
        return self.derived("front", (mask,), make)

    def _front(self, count: object, length: object) -> Tensor:
        found = self._spans.front(count, length)
        self._counts.know(found, count)
        return found

    def complement(self, mask: object) -> Tensor:
        """The mask of what follows a prefix, where that has been asked for, or None."""
        return self._spans.complement(mask)

    def part(self, chosen: Selection, axis: int, start: object, stop: object) -> Tensor:
        """The mask of a slice of a selection along a dimension, or None."""
        of = chosen.masks[axis], start, stop
        found = self._derived.get(("part", *of))
        if found is None:
            found = self._spans.part(*of)
        return None if found is None else self.derived("part", of, lambda: found)

    def everything(self, chosen: Selection, axis: int) -> Selection:
        """A selection as one by the mask of all entries along a dimension that is there whole."""
        [place] = chosen.places(axis)
        length = Shape_i(place)(chosen.full)
        mask = self._front(length, length)
        return Selection(chosen.full, (*chosen.masks[:axis], mask, *chosen.masks[axis + 1 :]))

    def aligned(
        self, chosen: Selection, axis: int, mask: object, *, stretch: bool = False
    ) -> Selection | None:
        """A selection as one by another mask along a dimension, where both take as many; or None.

        One entry may stand for many where it is to be stretched.
        """
        own, flat = chosen.masks[axis], self.flat(mask)
        if own is mask:
            return chosen
        if self.flat(own) is not flat:
            found = self._aligned(chosen, axis, flat, stretch)
        else:
            found = self._flattened(chosen, axis)
        return found if found is None or flat is mask else raised(found, axis, mask)

    def _aligned(
        self, chosen: Selection, axis: int, mask: Tensor, stretch: bool
    ) -> Selection | None:
        """The same for a mask of one dimension: slices move, other selections go to the front."""
        target = mask if self._spans.is_slice(mask) else self.front(mask)
        found = self._spans.aligned(self.packed(chosen, axis), axis, target, stretch)
        return found if found is None or target is mask else unpacked(found, axis, mask)

    def packed(self, chosen: Selection, axis: int) -> Selection:
        """A selection by a slice or a prefix along a dimension: by others, they go to the front."""
        chosen = self._flattened(chosen, axis)
        mask = chosen.masks[axis]
        if self._spans.is_slice(mask):
            return chosen
        return packed(chosen, axis, self._order(mask), self.front(mask))

    def _order(self, mask: Tensor) -> Tensor:
        if mask not in self._orders:
            self._orders[mask] = order(mask)
        return self._orders[mask]

    def sliceable(self, variable: Tensor, axes: Iterable[int]) -> Selection:
        """The replacement of a variable, of which parts are taken along some dimensions.

        All that reads the variable later gets the same.
        """
        chosen = self.plain(variable)
        for axis in axes:
            if chosen.masks[axis] is not None:
                chosen = self.packed(chosen, axis)
        return self._kept(variable, chosen)

    def plain(self, variable: Tensor) -> Selection:
        """The replacement of a variable, with each mask in one dimension."""
        chosen = self.chosen(variable)
        for axis in chosen.axes:
            chosen = self._flattened(chosen, axis)
        return self._kept(variable, chosen)

    def _kept(self, variable: Tensor, chosen: Selection) -> Selection:
        if variable in self.selections:
            self.selections[variable] = chosen
        return chosen

    def flat(self, mask: Tensor) -> Tensor:
        """A mask laid out in one dimension."""
        if mask.type.ndim == 1:
            return mask
        found = self.derived(f"flat [{mask.type.ndim}]", (mask,), mask.flatten)
        self._counts.know(found, self.count(mask))
        return found

    def _flattened(self, chosen: Selection, axis: int) -> Selection:
        mask = chosen.masks[axis]
        flat = self.flat(mask)
        return chosen if flat is mask else flattened(chosen, axis, flat)

    def ranks(self, mask: object) -> Tensor:
        """For each entry that a mask selects how many it selects before; for others anything."""
        if self._spans.is_prefix(mask):
            return pt.arange(Shape_i(0)(mask))
        return ranks(mask)

    def place(self, mask: Tensor, ranks: Tensor, among: Tensor) -> Tensor:
        """The places of the entries of some ranks; `IndexError` where there is none.

        Only ranks that the mask ``among`` selects have to be there.
        """
        count = self.count(mask)
        ranks = ranks.astype("int64") if ranks.type.ndim else as_int64(ranks)
        held = pt.all(~among | ((ranks >= -count) & (ranks < count)))
        ranks = CheckAndRaise(IndexError, "index out of bounds")(ranks, held)
        ranks = pt.switch(ranks < 0, ranks + count, ranks)
        if self._spans.is_prefix(mask):
            return ranks
        return self._order(mask)[ranks]

    def is_prefix(self, mask: object) -> bool:
        """Return True for the mask of entries at the front."""
        return self._spans.is_prefix(mask)

    def least(self, one: object, other: object) -> Tensor:
        """The mask of as many entries as the shorter one of two prefixes has."""
        length: Tensor = pt.minimum(self.count(one), self.count(other))
        bound: Tensor = pt.minimum(Shape_i(0)(one), Shape_i(0)(other))
        make = partial(self._front, length, bound)
        found = self.derived("length", self._counts.key(length), make)
        self.origin[found] = self.origin.get(one, one)
        return found

    def as_many(self, one: object, other: object) -> bool:
        """Return True if two masks are known to select as many entries."""
        return one is other or self._counts.equal(one, other)

    def length_key(self, array: Tensor, axis: int) -> object:
        """Equal keys of lengths that are known to be equal."""
        return self._counts.key(length_of(self.fgraph, array, axis))

    def has_length(self, length: Tensor, array: Tensor, axes: Iterable[int]) -> bool:
        """Return True if a length without checks is that of some dimensions of an array."""
        lengths = [length_of(self.fgraph, array, axis) for axis in axes]
        return self._counts.same(length, pt.mul(*lengths) if len(lengths) > 1 else lengths[0])

    def longer(self, mask: object, more: int) -> Tensor:
        """The mask of more entries than another one selects, at the front; itself for no more."""
        if not more:
            return mask
        mask, before = self._longer.get(mask, (mask, 0))
        if not more + before:
            return self.front(mask)

        def make() -> Tensor:
            sizes = [self.count(mask), Shape_i(0)(mask)]
            return self._front(*(pt.maximum(size + more + before, 0) for size in sizes))

        found = self.derived(f"longer {more + before}", (mask,), make)
        self._longer[found] = mask, more + before
        return found

    def grouped(self, mask: Tensor, size: int) -> Tensor:
        """The mask of one entry for so many that another one selects, at the front."""

        def make() -> Tensor:
            sizes = [self.count(mask), Shape_i(0)(mask)]
            return self._front(*(length // size for length in sizes))

        return self.derived(f"groups of {size}", (mask,), make)

    def count(self, mask: object) -> Tensor:
        """How many entries a mask selects."""
        return self._counts.of(mask)

    def sizes_of_slices(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs: the number of true entries of a slice's mask, as it is summed and by its bounds.

        While the graph is rewritten a sum names the mask that it counts.  Afterwards a difference
        of two bounds is one kernel less.
        """
        sizes = [(count, self._spans.size(mask)) for mask, count in self._counts.summed()]
        return [(c, size) for c, size in sizes if size is not None and c in self.fgraph.variables]

    def mask_counted_by(self, length: object, *, or_none: bool = False) -> Tensor:
        """The mask of one dimension whose true entries a variable counts, or None.

        A negative number is refused, or counts as 0 (``or_none``).
        """
        if (counted := summed(length)) is not None:
            if not self.is_late(counted):
                return None
            self.origin[self.new(counted)] = counted
            return self.flat(self.new(counted))
        if length.type.ndim or not self._counts.is_late(length):
            return None
        found = self._counts.counted(length)
        if found is None:
            return self._bounded(length, or_none=or_none)
        mask, more = found
        return self.longer(self.flat(mask), more)

    def mask_along(self, array: Tensor, axis: int) -> Tensor:
        """The mask whose true entries are as many as an array has along a dimension, or None."""
        return self.mask_counted_by(length_of(self.fgraph, array, axis))

    def allocated(self, value: object, *lengths: object) -> Tensor:
        """A value, if some lengths that masks count pass their checks, and are not negative."""
        value = self.checked(value, *lengths)
        sizes = [self.new(each) for each in lengths if self._counts.may_be_negative(each)]
        return not_negative(value, *sizes) if sizes else value

    def checked(self, value: object, *lengths: object) -> Tensor:
        """A value, if some lengths that masks count pass their checks."""
        for check in self._counts.checks(lengths):
            value = check.op(value, *map(self.new, check.inputs[1:]))
        return value

    def _bounded(self, length: object, *, or_none: bool) -> Tensor:
        """The mask of as many entries as a length says, of which a bound is known; or None."""
        bound = None if length in self.refused else self._counts.bound(length)
        if bound is None:
            return None

        def make() -> Tensor:
            count, most = self.new(length).astype("int64"), bound
            if or_none:
                count, most = pt.maximum(count, 0), pt.maximum(bound, 0)
            held = Assumption(ValueError, "a length is not in its bounds")
            return self._front(held(count, pt.ge(count, 0), pt.le(count, most)), most)

        how = "length or none" if or_none else "length"
        found = self.derived(how, self._counts.key(length), make)
        self._counts.note_most(found, bound)
        if self.origin[found] is found:
            self.origin[found] = length
        return found

    def is_late_number(self, variable: Tensor) -> bool:
        """Return True for an integer that is no array, and computed late."""
        return is_one_integer(variable) and self._counts.is_late(variable)

    def is_late(self, mask: object) -> bool:
        """Return True for a mask computed late, of which nothing is needed as it is."""
        return mask in self.late_masks and mask not in self.refused
