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

A selection that is returned is taken at the end: ``exp(x[mask])`` becomes ``exp(x)[mask]``, and
``exp(x[:k])`` becomes ``exp(x)[:k]``.  Nothing is compiled for each number of entries, and the
result is cut when it leaves (`rewriting.cut_results`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.graph.traversal import variable_depends_on
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    ARange,
    Eye,
    Nonzero,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import Unique
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.analysis import input_binding_times
from pytensor_jaxlink.analysis.extents import measured_by
from pytensor_jaxlink.compat import inlined
from pytensor_jaxlink.graph import GraphView, indices_of, op_name
from pytensor_jaxlink.ops import declares_gradient, without_its_gradient
from pytensor_jaxlink.rewriting.beginnings import Beginnings
from pytensor_jaxlink.rewriting.graph_masks import is_one_integer
from pytensor_jaxlink.rewriting.mask_indices import mask_of
from pytensor_jaxlink.rewriting.notes import late_values, may_cut_results, note
from pytensor_jaxlink.rewriting.selections import Selection, Tensor, follow
from pytensor_jaxlink.rewriting.splits import Parts, put_back, sliced

NAME = "jaxlink_masks"

_AT_THE_END = "a compilation for each number of entries that are selected"

_MADE = (Alloc, AllocEmpty, ARange, Eye)
"""The Ops that make arrays of a given length."""

CONCERNED = (
    *(AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Nonzero, Split, Subtensor, Unique),
    *(OpFromGraph, *_MADE),
)
"""The Ops that may select entries by data, or make as many as data say."""


def rewrite_masks(fgraph: FunctionGraph, changing: Collection[int] = ()) -> None:
    """Rewrite in place; the inputs at ``changing`` are computed from data whatever their type."""
    parts = _parts(fgraph, changing)
    _rewrite(fgraph, changing)
    put_back(fgraph, parts)


def _parts(fgraph: FunctionGraph, changing: Collection[int]) -> Parts:
    """Slices in the place of what is split by lengths known late, or may be selected from."""
    if not any(isinstance(node.op, Split) for node in fgraph.apply_nodes):
        return []
    if any(_may_select(node) for node in fgraph.apply_nodes):
        return sliced(fgraph)
    view = GraphView.of(fgraph)
    return sliced(fgraph, late_values(view, input_binding_times(view, changing)))


def _rewrite(fgraph: FunctionGraph, changing: Collection[int]) -> None:
    if not any(_may_select(node) for node in fgraph.apply_nodes):
        return
    refused: set[Tensor] = set()
    while True:  # each round refuses a mask, inlines a graph, or is the last
        view = GraphView.of(fgraph)
        attempt = _Attempt(fgraph, view, changing, refused)
        escaped = attempt.run()
        if attempt.inner is not None:
            outputs = list(zip(attempt.inner.outputs, _written_out(attempt.inner), strict=True))
            fgraph.replace_all(outputs, import_missing=True, reason=NAME)
        elif escaped <= refused or len(refused) > len(view.variables):
            break  # a round may make the length that it refuses: the next one makes another
        refused |= escaped
    if escaped or not attempt.values:
        return
    for node in (*attempt.sources, *attempt.made):
        note(fgraph, view, node, NAME, _AT_THE_END if attempt.at_the_end else _words(node))
    for old, new in attempt.values.items():
        copy_stack_trace(attempt.at_the_end.get(old, old), new)
    fgraph.replace_all(list(attempt.values.items()), import_missing=True, reason=NAME)
    for count, size in attempt.sizes_of_slices():
        if not variable_depends_on(size, count):  # a bound may be computed from the count
            fgraph.replace(count, size, import_missing=True, reason=NAME)


def _written_out(node: Apply) -> list[Variable]:
    """The outputs of an inner graph; JAX must not differentiate them if the Op says how to."""
    outputs = inlined(node)
    if not declares_gradient(node.op):
        return outputs
    found = []
    for old, new in zip(node.outputs, outputs, strict=True):
        has_gradient = isinstance(old.type, TensorType) and old.type.dtype.startswith("float")
        found.append(without_its_gradient(new) if has_gradient else new)
        copy_stack_trace(old, found[-1])
    return found


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
        case op if isinstance(op, _MADE):
            return "a computed length with a known bound became a mask"
    return f"{op_name(node.op)} became a mask"


def _may_select(node: Apply) -> bool:
    if isinstance(node.op, AdvancedSubtensor | AdvancedIncSubtensor | Nonzero | Unique):
        return True
    if isinstance(node.op, _MADE):
        return any(map(_is_computed, node.inputs[isinstance(node.op, Alloc) :]))
    if isinstance(node.op, OpFromGraph):
        return any(map(_may_select, node.op.fgraph.apply_nodes))
    if not isinstance(node.op, Subtensor | IncSubtensor):
        return False
    return any(
        isinstance(bound, Variable) and bound.owner is not None
        for index in indices_of(node)
        if isinstance(index, slice)
        for bound in (index.start, index.stop)
    )


def _is_computed(length: Tensor) -> bool:
    """Return True if a length is computed from more than lengths and given numbers."""
    if length.owner is None or measured_by(length) is not None:
        return False
    if isinstance(length.owner.op, (Elemwise, ScalarFromTensor, TensorFromScalar)):
        return any(map(_is_computed, length.owner.inputs))
    return True


class _Attempt(Beginnings):
    """One pass over the graph, with some masks refused."""

    def __init__(
        self,
        fgraph: FunctionGraph,
        view: GraphView,
        changing: Collection[int],
        refused: set[Variable],
    ) -> None:
        super().__init__(fgraph, view, changing, refused)
        self.nodes = view.nodes
        self.sources: list[Apply] = []
        self.made: list[Apply] = []  # arrays of a length of which a bound is known
        self.at_the_end: dict[Variable, Variable] = {}  # what is returned, and where it begins
        self.inner: Apply | None = None  # an inner graph that a selection goes into

    def run(self) -> set[Tensor]:
        """Fill `values`.  Returns what has to be refused: masks that end where we cannot go."""
        for node in _made_last(self.nodes):
            if self._selects_inside(node):
                self.inner = node
                return set()
            escaped = self._visit(node)
            if escaped:
                if isinstance(node.op, OpFromGraph):
                    self.inner = node
                    return set()
                return self._masks_of(escaped)
        returned = [v for v in self.fgraph.outputs if v in self.selections]
        if not returned or not self._may_be_taken_at_the_end(returned):
            return self._masks_of(returned)
        for variable in returned:
            self.values[variable] = self._cut(self.selections[variable])
            [origin, *_] = self._masks_of([variable])
            readers = [node.outputs[0] for node in self.sources if origin in node.inputs]
            self.at_the_end[variable] = readers[0] if readers else variable
        return set()

    def _selects_inside(self, node: Apply) -> bool:
        """Return True for an inner graph that may take parts to bounds known late."""
        return (
            isinstance(node.op, OpFromGraph)
            and any(is_one_integer(v) and v in self.late_bounds for v in node.inputs)
            and _may_select(node)
        )

    def _may_be_taken_at_the_end(self, returned: Sequence[Variable]) -> bool:
        """Return True if selections from results replace those from their arguments.

        Where sizes have become data, the rule of cost asks later (`link.changing_sizes`).  Else a
        result may have no more dimensions than what is selected from: those of an outer product
        may be too large.  The host sorts faster than a region, and so finds distinct values.
        """
        if self._changing or not may_cut_results(self.fgraph):
            return may_cut_results(self.fgraph)
        before = max((node.inputs[0].type.ndim for node in self.sources), default=1)
        moves = any(v.owner not in self.sources or self._is_by_places(v.owner) for v in returned)
        return (
            (moves or bool(self.values))
            and all(
                is_one_integer(mask) or mask.type.dtype == "bool"
                for mask in self._masks_of(returned)
            )
            and all(self.selections[v].full.type.ndim <= before for v in returned)
        )

    def _is_by_places(self, node: Apply) -> bool:
        """Return True if a node indexes by the places that `nonzero` gives."""
        found = mask_of(node, self.new) if isinstance(node.op, AdvancedSubtensor) else None
        return found is not None and found.by_places

    def _cut(self, chosen: Selection) -> Tensor:
        """The entries that are selected: an array of a length that is not known before."""
        full = chosen.full
        for axis in reversed(chosen.axes):
            mask = chosen.masks[axis]
            index = self._spans.index(mask)
            before = [slice(None)] * chosen.places(axis)[0]
            full = full[(*before, mask if index is None else index)]
        return full

    def _masks_of(self, variables: Sequence[Variable]) -> set[Tensor]:
        masks = [mask for v in variables for mask in self.selections[v].masks if mask is not None]
        return {self.origin.get(mask, mask) for mask in masks}

    def _visit(self, node: Apply) -> list[Variable]:
        """Decide on one node.  Returns the selections that it needs as they are."""
        found = self.source(node)
        if found:
            for output, selection in zip(node.outputs, found, strict=True):
                self._select(output, selection)
            self.sources.append(node)
            return []
        touched = [v for v in node.inputs if v in self.selections]
        renewed = any(v in self.values for v in node.inputs)
        makes = isinstance(node.op, _MADE)
        follows = touched or makes or self._fills(node)
        results = follow(node.op, node, self) if follows else None
        if results is None:
            if renewed and not touched:
                self._renew(node)
            return touched
        if not touched and not makes:
            self.sources.append(node)
        for output, result in zip(node.outputs, results, strict=True):
            if isinstance(result, Selection) and result.axes:
                self._select(output, result)
            else:
                self.values[output] = result.full if isinstance(result, Selection) else result
        selected = [v for v in node.outputs if v in self.selections]
        if self._masks_of(selected) & {*node.inputs}:
            self.made.append(node)
        return [v for v in selected if self._counts.are_too_many(self.selections[v].masks)]

    def _select(self, variable: Variable, selection: Selection) -> None:
        self.selections[variable] = selection
        for axis in selection.axes:
            self._counts.note(selection.masks[axis], variable, axis)

    def _fills(self, node: Apply) -> bool:
        """Return True if a node writes to the places of a mask, or of a slice, computed late."""
        if isinstance(node.op, IncSubtensor):
            return self.sliced(node) is not None
        if not isinstance(node.op, AdvancedIncSubtensor):
            return False
        found = mask_of(node, self.new)
        return found is not None and found.mask in self.late_masks

    def _renew(self, node: Apply) -> None:
        """The same operation on new values: what comes later must not hold on to the old ones."""
        if isinstance(node.op, CheckAndRaise) and all(map(self._counts.holds, node.inputs[1:])):
            self.values[node.outputs[0]] = self.new(node.inputs[0])
            return
        outputs = node.clone_with_new_inputs([self.values.get(v, v) for v in node.inputs]).outputs
        self.values.update(zip(node.outputs, outputs, strict=True))


def _made_last(nodes: Sequence[Apply]) -> Iterator[Apply]:
    """Nodes in an order of their data, in which lengths come before what is made of that length."""
    places = {node: (isinstance(node.op, _MADE), place) for place, node in enumerate(nodes)}
    waiting = {node: {v.owner for v in node.inputs if v.owner in places} for node in nodes}
    readers: dict[Apply, list[Apply]] = {}
    for node, needed in waiting.items():
        for other in needed:
            readers.setdefault(other, []).append(node)
    ready = [(places[node], node) for node in nodes if not waiting[node]]
    heapify(ready)
    while ready:
        _, node = heappop(ready)
        yield node
        for reader in readers.get(node, ()):
            waiting[reader].discard(node)
            if not waiting[reader]:
                heappush(ready, (places[reader], reader))
