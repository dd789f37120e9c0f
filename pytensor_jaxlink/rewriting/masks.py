"""Selections by a mask, and slices to a bound computed from data, that flow into reductions.

Pattern::

    log(x[mask]).sum()        x[:k].sum()        zeros[mask] += g[mask]

Replacement::

    where(mask, log(x), 0).sum()        where(arange(n) < k, x, 0).sum()        where(mask, g, 0)

A selection has as many entries as the mask is true, which JAX cannot compile; the full array has a
fixed shape.  The rewrite follows each selection through elementwise operations, transpositions and
products to where it ends: a reduction over it, its length, a product that contracts it, or a
scatter back with the same mask.  It fires for a mask only if every path ends so, that is, only if
it removes the break, and only for masks that are computed while the function runs: one that follows
from shapes and constants breaks nothing, and selecting is then the cheaper.

What is not selected is computed and thrown away.  It never reaches a result: it goes through
``where``, in which NaN and infinity on the side that is not taken have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, ARange, Nonzero
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import Unique
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.sort import sort
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)
from pytensor.tensor.type import discrete_dtypes, float_dtypes

from pytensor_jaxlink.analysis import BindingTime, input_binding_times
from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.compat import inlined
from pytensor_jaxlink.graph import GraphView, op_name
from pytensor_jaxlink.rewriting.bounds import one_slice
from pytensor_jaxlink.rewriting.notes import late_values, note
from pytensor_jaxlink.rewriting.selections import Masked, Selection, follow, is_literal
from pytensor_jaxlink.rewriting.slices import Spans

NAME = "jaxlink_masks"


def rewrite_masks(fgraph: FunctionGraph, changing: Collection[int] = ()) -> None:
    """Rewrite in place; the inputs at ``changing`` are computed from data whatever their type."""
    if not any(_may_select(node) for node in fgraph.apply_nodes):
        return
    refused: set[Any] = set()
    while True:  # each round refuses a mask, inlines a graph, or is the last
        view = GraphView.of(fgraph)
        attempt = _Attempt(fgraph, view, changing, refused)
        escaped = attempt.run()
        if attempt.inner is not None:
            outputs = list(zip(attempt.inner.outputs, inlined(attempt.inner), strict=True))
            fgraph.replace_all(outputs, import_missing=True, reason=NAME)
        elif escaped <= refused:
            break
        refused |= escaped
    if escaped or not attempt.values:
        return
    for node in attempt.sources:
        note(fgraph, view, node, NAME, _words(node))
    for old, new in attempt.values.items():
        copy_stack_trace(old, new)
    fgraph.replace_all(list(attempt.values.items()), import_missing=True, reason=NAME)


def _words(node: Apply) -> str:
    match node.op:
        case AdvancedSubtensor():
            return "boolean indexing became a mask"
        case AdvancedIncSubtensor():
            return "an update by a mask became pt.where"
        case IncSubtensor():
            return "an update of a slice to a computed bound became pt.where"
        case Subtensor():
            return "a slice to a computed bound became a mask"
    return f"{op_name(node.op)} became a mask"


def _is_size(variable: Any) -> bool:
    kind = variable.type
    return getattr(kind, "ndim", 1) == 0 and kind.dtype in discrete_dtypes


def _may_select(node: Apply) -> bool:
    if isinstance(node.op, AdvancedSubtensor | AdvancedIncSubtensor | Nonzero | Unique):
        return True
    if not isinstance(node.op, Subtensor | IncSubtensor):
        return False
    first = 1 if isinstance(node.op, Subtensor) else 2
    if (found := one_slice(node, first)) is None:
        return False
    return any(isinstance(bound, Variable) and bound.owner is not None for bound in found[1:])


class _Attempt:
    """One pass over the graph, with some masks refused."""

    def __init__(
        self,
        fgraph: FunctionGraph,
        view: GraphView,
        changing: Collection[int],
        refused: set[Variable],
    ) -> None:
        self.fgraph, self.nodes, self.refused = fgraph, view.nodes, refused
        times = input_binding_times(view, changing)
        self.late_bounds = late_values(view, times)
        # A mask may be made of sizes, but vectors of integers and real numbers are data to it.
        self.late_masks = late_values(
            view,
            [
                time if _is_size(view.variables[number]) else BindingTime.DEVICE
                for time, number in zip(times, view.inputs, strict=True)
            ],
        )
        self.selections: dict[Variable, Selection] = {}
        self.values: dict[Variable, Any] = {}
        self.sources: list[Apply] = []
        self.inner: Apply | None = None  # an inner graph that a selection goes into
        self._origin: dict[Any, Any] = {}  # of a mask that we made: what refuses it
        self._derived: dict[Any, Any] = {}
        self._spans = Spans(fgraph, self.new)

    def run(self) -> set[Any]:
        """Fill `values`.  Returns what has to be refused: masks that end where we cannot go."""
        for node in self.nodes:
            escaped = self._visit(node)
            if escaped:
                if isinstance(node.op, OpFromGraph):
                    self.inner = node
                    return set()
                return self._masks_of(escaped)
        return self._masks_of([v for v in self.fgraph.outputs if v in self.selections])

    def _masks_of(self, variables: Sequence[Variable]) -> set[Any]:
        masks = [self.selections[variable].mask for variable in variables]
        return {self._origin.get(mask, mask) for mask in masks}

    def _visit(self, node: Apply) -> list[Variable]:
        """Decide on one node.  Returns the selections that it needs as they are."""
        found = self._source(node)
        if found:
            self.selections.update(zip(node.outputs, found, strict=True))
            self.sources.append(node)
            return []
        touched = [v for v in node.inputs if v in self.selections]
        renewed = any(v in self.values for v in node.inputs)
        follows = touched or isinstance(node.op, Alloc | ARange) or self._fills(node)
        results = follow(node.op, node, self) if follows else None
        if results is None:
            if renewed and not touched:
                self._renew(node)
            return touched
        if not touched and not isinstance(node.op, Alloc | ARange):
            self.sources.append(node)
        for output, result in zip(node.outputs, results, strict=True):
            if isinstance(result, Selection):
                self.selections[output] = result
            else:
                self.values[output] = result
        return []

    def _fills(self, node: Apply) -> bool:
        """Return True if a node writes to the places of a mask, or of a slice, computed late."""
        if isinstance(node.op, IncSubtensor):
            return self._mask_of_slice(node, 2, node.inputs[0]) is not None
        if not isinstance(node.op, AdvancedIncSubtensor):
            return False
        found = self._mask_of(node, 2)
        return found is not None and found.mask in self.late_masks

    def _renew(self, node: Apply) -> None:
        """The same operation on new values: what comes later must not hold on to the old ones."""
        outputs = node.clone_with_new_inputs([self.values.get(v, v) for v in node.inputs]).outputs
        self.values.update(zip(node.outputs, outputs, strict=True))

    def new(self, variable: Any) -> Any:
        """The present replacement of a variable."""
        return self.values.get(variable, variable)

    # -- where selections begin ------------------------------------------------------------------

    def _source(self, node: Apply) -> list[Selection]:
        """The selections that the outputs of a node are, where they begin here."""
        match node.op:
            case AdvancedSubtensor():
                found = self._selected(node)
            case Subtensor() if node.inputs[0] not in self.selections:
                found = self._sliced(node)
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
        self._origin[mask] = given
        numbers = []
        for axis in range(mask.type.ndim):
            order: list[Any] = ["x"] * mask.type.ndim
            order[axis] = 0
            counter = pt.arange(mask.shape[axis]).dimshuffle(order)
            numbers.append(Selection(pt.switch(mask, counter, 0), mask, 0))
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
        self._origin[mask] = array
        return Selection(ordered, mask, 0)

    def _selected(self, node: Apply) -> Selection | None:
        found = self._mask_of(node, 1)
        if found is None:
            return None
        axis, mask = found.axis, found.mask
        array = node.inputs[0]
        if found.beside is not None:
            if array in self.selections or mask in self.selections or not self._is_late(mask):
                return None
            self._origin[self.new(mask)] = mask
            full = self.fitting(self.new(array)[found.beside], found)
            return Selection(full, self.new(mask), axis)
        outer, inner = self.selections.get(array), self.selections.get(mask)
        if outer is None and inner is None and self._is_late(mask):
            self._origin[self.new(mask)] = mask
            full = self.fitting(array, found)
            return Selection(full, self.new(mask), axis)
        if outer is None or inner is None or outer.mask is not inner.mask:
            return None
        if not axis == outer.axis == inner.axis == 0 or inner.full.type.ndim != outer.width:
            return None
        both = outer.mask & inner.full
        self._origin[both] = self._origin.get(outer.mask, outer.mask)
        return Selection(outer.full, both, 0)

    def _is_late(self, mask: Any) -> bool:
        return mask in self.late_masks and mask not in self.refused

    def _mask_of(self, node: Apply, first: int) -> Masked | None:
        """The index of a node with one boolean array, beside literals and scalars next to it."""
        indices: Any = indices_from_subtensor(node.inputs[first:], node.op.idx_list)
        if (mask := _all_of_nonzero(indices)) is not None:
            return Masked(0, mask, by_places=True)
        masks = [k for k, i in enumerate(indices) if _dtype_of(i) == "bool"]
        if len(masks) != 1:
            return None
        [place] = masks
        mask, beside = indices[place], [*indices]
        beside[place : place + 1] = [slice(None)] * mask.type.ndim
        scalars = [k for k, i in enumerate(indices) if not isinstance(i, slice) and k != place]
        if any(indices[k].type.ndim for k in scalars):
            return None
        together = sorted([*scalars, place])
        if together != list(range(together[0], together[-1] + 1)):
            return None  # NumPy puts the selection first then
        if not all(is_literal(i) for i in indices if isinstance(i, slice)):
            return None
        axis = place - sum(k < place for k in scalars)
        if all(index == slice(None) for index in beside):
            return Masked(axis, mask)
        others = tuple(i if isinstance(i, slice) else self.new(i) for i in beside)
        return Masked(axis, mask, others)

    def _sliced(self, node: Apply) -> Selection | None:
        mask = self._mask_of_slice(node, 1, node.inputs[0])
        found = one_slice(node, 1)
        if mask is None or found is None:
            return None
        return Selection(self.new(node.inputs[0]), mask, found[0])

    def _mask_of_slice(self, node: Apply, first: int, array: Any) -> Any:
        """The mask of what a slice takes, the same for the same bounds on the same length."""
        found = one_slice(node, first)
        if found is None:
            return None
        axis, start, stop = found
        computed = [
            b for b in (start, stop) if b is not None and tensor_behind(b) in self.late_bounds
        ]
        if not computed or computed[0] in self.refused:
            return None
        mask = self._spans.mask(start, stop, array, axis)
        self._origin.setdefault(mask, computed[0])
        return mask

    def derived(self, how: str, of: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """A mask that follows from others: the same object for the same ones."""
        key = how, *of
        if key not in self._derived:
            self._derived[key] = mask = make()
            self._origin[mask] = next((self._origin[m] for m in of if m in self._origin), mask)
            if how == "backward":
                self._derived[how, mask] = of[0]
        return self._derived[key]

    def complement(self, mask: Any) -> Any:
        """The mask of what follows a prefix, where that has been asked for, or None."""
        return self._spans.complement(mask)

    def part(self, chosen: Selection, start: Any, stop: Any) -> Any:
        """The mask of a slice of a selection, or None."""
        of = chosen.mask, start, stop
        found = self._derived.get(("part", *of))
        if found is None:
            found = self._spans.part(*of)
        return None if found is None else self.derived("part", of, lambda: found)

    def aligned(
        self, chosen: Selection, like: Selection, *, stretch: bool = False
    ) -> Selection | None:
        """A selection as one by the mask of another, where both take the same; or None.

        One entry may stand for many where it is to be stretched.
        """
        return chosen if chosen.mask is like.mask else self._spans.aligned(chosen, like, stretch)

    # -- what the rules ask ------------------------------------------------------------------------

    def fitting(self, array: Any, index: Masked) -> Any:
        """The array that stands for one now, as long as a mask; `IndexError` where it cannot be."""
        return self._spans.fitting(array, index)

    def target(self, node: Apply) -> Masked | None:
        """The entries that a node writes to, or None."""
        if isinstance(node.op, AdvancedIncSubtensor):
            return self._mask_of(node, 2)
        found = one_slice(node, 2)
        mask = self._mask_of_slice(node, 2, node.inputs[0])
        return None if found is None or mask is None else Masked(found[0], mask)

    def mask_counted_by(self, length: Any) -> Any:
        """The mask whose true entries a variable counts, if it is the mask of a selection."""
        owner = length.owner
        if owner is None:
            return None
        if isinstance(owner.op, CAReduce) and isinstance(owner.op.scalar_op, scalar.Add):
            counted = owner.inputs[0]
            if length.type.ndim or counted.type.dtype != "bool" or not self._is_late(counted):
                return None
            self._origin[self.new(counted)] = counted
            return self.new(counted)
        chosen = self.selections.get(owner.inputs[0]) if isinstance(owner.op, Shape_i) else None
        return chosen.mask if chosen is not None and owner.op.i == chosen.axis else None


def _all_of_nonzero(indices: Sequence[Any]) -> Any:
    """The boolean array whose true places the indices are, or None."""
    owner = getattr(indices[0], "owner", None)
    if owner is None or not isinstance(owner.op, Nonzero):
        return None
    count = len(owner.outputs)
    if list(indices[:count]) != owner.outputs or any(i != slice(None) for i in indices[count:]):
        return None
    mask = owner.inputs[0]
    return mask if mask.type.dtype == "bool" else None


def _dtype_of(index: Any) -> str | None:
    return getattr(getattr(index, "type", None), "dtype", None)
