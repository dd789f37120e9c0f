"""The computation of each step of a loop, so that the steps of two loops can be compared."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasInnerGraph
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.analysis.extents import Extents, literal, slice_of
from pytensor_jaxlink.analysis.polynomials import Polynomial, difference
from pytensor_jaxlink.ops.costs import FUNCTION, cost_of
from pytensor_jaxlink.rewriting.loops import states_of

_DEAR = (BatchedDot, Blockwise, CAReduce, Dot, LogSoftmax, Softmax)
_WORTH_IT = FUNCTION
"""In additions for each entry: the least cost of a value that is kept (docs/decisions/loops.md)."""

_SMALL = 4096  # bytes of a constant that is compared by value
_DEPTH = 50  # of an expression outside of loops; deeper ones are not looked into


@dataclass(frozen=True)
class Trace:
    """An array of the values of a variable in all steps, from an index on."""

    array: Variable
    first: int


class Steps:
    """Numbers for values of a step: equal numbers, equal expressions of equal inputs."""

    def __init__(self, graph: FunctionGraph) -> None:
        self._extents = Extents(graph)
        self._numbers: dict[Hashable, int] = {}
        self._costs: list[int] = []
        self._parts: list[tuple[int, ...]] = []
        self._kept: set[int] = set()
        self.step = self._extents.of(pt.lscalar("step"))

    def before_last(self, node: Apply) -> Polynomial:
        """The index that runs from the last step of a loop to its first."""
        last = self._extents.plus(self._extents.of(node.inputs[0]), -1)
        return difference(last, self.step)

    def has_length(self, array: Variable, node: Apply, more: int = 0) -> bool:
        """Return True if an array is as long as a loop has steps, and some more."""
        count = self._extents.of(node.inputs[0])
        return self._extents.length(array) == self._extents.plus(count, more)

    def traces(self, node: Apply, inner: FunctionGraph) -> dict[Variable, Trace]:
        """The variables of a loop's graph of which all values are kept."""
        op = node.op
        found = {
            state.made: Trace(state.trace, state.reach)
            for state in states_of(node, inner)
            if self.has_length(state.trace, node, state.reach)
        }
        made, arrays = op.inner_nitsot_outs(inner.outputs), op.outer_nitsot_outs(node.outputs)
        for variable, array in zip(made, arrays, strict=True):
            if self.has_length(array, node):
                found[variable] = Trace(array, 0)
        return found

    def inside(
        self,
        node: Apply,
        inner: FunctionGraph,
        index: Polynomial,
        traces: Mapping[Variable, Trace] | None = None,
    ) -> dict[Variable, int]:
        """The number of each variable in the graph of a loop, at the step of an index.

        Parameters
        ----------
        traces
            Of which variables entries of arrays get the same number.
        """
        found = self._inputs(node, inner, index)
        traces = traces or {}
        for apply in inner.toposort():
            numbers = [self._known(v, found) for v in apply.inputs]
            for place, output in enumerate(apply.outputs):
                key = (_operation(apply), *numbers, place)
                if isinstance(apply.op, HasInnerGraph):
                    key = ("output", node, output)
                found[output] = number = self._number(key, _cost(apply), numbers)
                if output in traces:
                    self._identify(traces[output], index, number)
        return found

    def _identify(self, trace: Trace, index: Polynomial, number: int) -> None:
        """Let what is kept of a variable have the number of the variable."""
        self._numbers[_entry(trace.array, self._extents.plus(index, trace.first))] = number
        self._kept.add(number)

    def _inputs(self, node: Apply, inner: FunctionGraph, index: Polynomial) -> dict[Variable, int]:
        """The numbers of the inputs of a loop's graph."""
        op = node.op
        inputs: list[Any] = list(inner.inputs)
        # The graphs of two loops may have the same variables as inputs.
        found: dict[Variable, int] = {v: self._number(("input", node, v)) for v in inputs}
        sequences = zip(op.inner_seqs(inputs), op.outer_seqs(node.inputs), strict=True)
        found |= {within: self.entry(outside, index) for within, outside in sequences}
        fixed = zip(op.inner_non_seqs(inputs), op.outer_non_seqs(node.inputs), strict=True)
        found |= {within: self._fixed(outside) for within, outside in fixed}
        for state in states_of(node, inner):
            if self.has_length(state.trace, node, state.reach):
                for tap, variable in zip(state.taps, state.seen, strict=True):
                    place = self._extents.plus(index, state.reach + tap)
                    found[variable] = self.entry(state.trace, place)
        return found

    def entry(self, array: Any, index: Polynomial, depth: int = _DEPTH) -> int:
        """The number of an entry of an array outside of loops, along its first dimension.

        The entry is there: a loop that goes through an array is checked to find its entries.
        """
        place = _entry(array, index)
        if place not in self._numbers:
            self._numbers[place] = self._of_entry(array, index, depth)
        return self._numbers[place]

    def _of_entry(self, array: Any, index: Polynomial, depth: int) -> int:
        if array.type.broadcastable[0]:
            return self._row(array)
        owner = array.owner
        if owner is not None and depth and isinstance(owner.op, Subtensor):
            moved = self._moved(owner, index)
            if moved is not None:
                return self.entry(owner.inputs[0], moved, depth - 1)
        operation = of_entries(array)
        if owner is None or depth == 0 or operation is None:
            return self._number(("there", _entry(array, index)))
        numbers = [self.entry(v, index, depth - 1) for v in owner.inputs]
        return self._number((operation, *numbers, 0), _cost(owner), numbers)

    def is_dear(self, number: int, there: Collection[int]) -> bool:
        """Return True if a value costs more to compute than to keep, where others are there."""
        met, waiting, cost = set(self._kept), [number], 0
        met.discard(number)
        met.update(there)
        while waiting and cost < _WORTH_IT:
            part = waiting.pop()
            cost += self._costs[part]
            more = [v for v in dict.fromkeys(self._parts[part]) if v not in met]
            met.update(more)
            waiting += more
        return cost >= _WORTH_IT

    def _known(self, variable: Any, found: dict[Variable, int]) -> int:
        return self._constant(variable) if isinstance(variable, Constant) else found[variable]

    def _constant(self, variable: object, data: object = None) -> int:
        data = variable.data if data is None else data
        if getattr(data, "nbytes", _SMALL + 1) > _SMALL:
            return self._number(("fixed", variable))
        return self._number(("constant", data.dtype.str, data.shape, data.tobytes()))

    def _fixed(self, variable: object) -> int:
        """The number of what is the same in each step."""
        if isinstance(variable, Constant):
            return self._constant(variable)
        owner = variable.owner
        if owner is not None and isinstance(owner.op, DimShuffle):
            return self._number((_operation(owner), self._fixed(owner.inputs[0]), 0))
        return self._number(("fixed", variable))

    def _row(self, array: object) -> int:
        """The number of the only entry of an array, which goes together with all entries."""
        owner = array.owner
        if isinstance(array, Constant):
            return self._constant(array, array.data[0])
        if owner is not None and isinstance(owner.op, DimShuffle) and owner.op.new_order[0] == "x":
            source, order = owner.inputs[0], tuple(owner.op.new_order[1:])
            if order == tuple(range(source.type.ndim)):
                return self._fixed(source)
            return self._number((("DimShuffle", order), self._fixed(source), 0))
        return self._number(("row", array))

    def _moved(self, node: Apply, index: Polynomial) -> Polynomial | None:
        """Which entry of the sliced array an entry of the slice is, or None: nobody knows.

        A bound that lies outside of the array is moved, and not known here, unless no entry is left
        where that happens.
        """
        taken = slice_of(node)
        if taken is None:
            return None
        known = self._extents.places(taken, node.inputs[0])
        if known is not None and known.step == -1:
            return difference(self._extents.plus(Polynomial(), known.start), index)
        start, step = literal(taken.start, 0), literal(taken.step, 1)
        if start is None or step is None:
            return None
        if step == 1 and start >= 0:
            return self._extents.plus(index, start)
        if step == -1 and (start < 0 or taken.start is None):
            length = self._extents.length(node.inputs[0])
            return difference(self._extents.plus(length, start if start < 0 else -1), index)
        return None

    def _number(self, key: Hashable, cost: int = 0, parts: Sequence[int] = ()) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._costs)
            self._costs.append(cost)
            self._parts.append(tuple(parts))
        return self._numbers[key]


def _entry(array: Variable, index: Polynomial) -> Hashable:
    return "entry", array, frozenset(index.items())


def _cost(node: Apply) -> int:
    """The cost of a node for each entry that it computes, in additions."""
    if isinstance(node.op, Elemwise):
        return cost_of(node.op.scalar_op)
    return FUNCTION if isinstance(node.op, _DEAR) else 0


def _operation(node: Apply) -> Hashable:
    """The operation of a node; equal for nodes that do the same, in a loop or entry by entry."""
    op = node.op
    if isinstance(op, CAReduce):
        return _reduction(node, 0)
    if isinstance(op, DimShuffle):
        return "DimShuffle", tuple(op.new_order)
    return op.scalar_op if isinstance(op, Elemwise) else op


def of_entries(array: object) -> Hashable | None:
    """The node that gives each entry of an array from the same entry of others, or None."""
    if array.owner is None or array.type.broadcastable[0]:
        return None
    op = array.owner.op
    if isinstance(op, Elemwise) and len(array.owner.outputs) == 1:
        return op.scalar_op
    if isinstance(op, DimShuffle) and op.new_order[0] == 0:
        order = (axis if axis == "x" else axis - 1 for axis in op.new_order[1:])
        return "DimShuffle", tuple(order)
    if isinstance(op, CAReduce) and op.axis is not None and 0 not in op.axis:
        return _reduction(array.owner, 1)
    return None


def _reduction(node: Apply, less: int) -> Hashable:
    """A reduction, with its axes counted from one dimension on."""
    op = node.op
    axes = range(node.inputs[0].type.ndim) if op.axis is None else op.axis
    rest = [getattr(op, name) for name in op.__props__ if name != "axis"]
    return type(op), tuple(axis - less for axis in axes), *rest
