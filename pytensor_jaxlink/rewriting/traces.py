"""A loop over the traces of another one takes more of them, and computes less again.

Pattern: a `Scan` that goes through the traces of an earlier one, from the last step to the first or
in the same order, and computes a function, a reduction over it or a product that the earlier one
has computed in that step, in the loop or before it for all steps.  Replacement: the earlier loop
keeps the values of that (one more nit-sot output), and the later one goes through them.

PyTensor's gradient of a loop reads the traces of its outputs and computes all else again, where the
gradient of `jax.lax.scan` keeps it.  In the gradient of a hidden Markov model that is the largest
part of the work.

It must not fire where it is not proved that both make the same steps, of what is cheap to compute,
or where the earlier loop keeps no trace: then nobody asked for memory that grows with its steps.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.analysis.extents import Extents, tensor_behind
from pytensor_jaxlink.graph import leading_indices
from pytensor_jaxlink.rewriting.loops import emitting, going_through, unwrapped
from pytensor_jaxlink.rewriting.steps import Steps, Trace, of_entries

NAME = "jaxlink_traces"


def share_traces(graph: FunctionGraph) -> None:
    """Rewrite the loops of a graph in place."""
    inner, found = _InnerGraphs(), False
    while any(_shared(graph, earlier, later, inner) for earlier, later in _pairs(graph)):
        found = True
    if found:
        _forget(graph)


def _pairs(graph: FunctionGraph) -> list[tuple[Apply, Apply]]:
    """The loops that make the same number of steps, one of which needs the other one."""
    loops = [node for node in graph.toposort() if isinstance(node.op, Scan)]
    if len(loops) < 2:
        return []
    extents = Extents(graph)
    steps = {node: extents.of(node.inputs[0]) for node in loops if not node.op.info.as_while}
    needs = _needs(graph)
    return [
        (earlier, later)
        for later in steps
        for earlier in steps
        if earlier in needs[later] and steps[earlier] == steps[later]
    ]


def _needs(graph: FunctionGraph) -> dict[Apply, frozenset[Apply]]:
    """The loops that each node needs."""
    needs: dict[Apply, frozenset[Apply]] = {}
    for node in graph.toposort():
        owners = [v.owner for v in node.inputs if v.owner is not None]
        loops = [owner for owner in owners if isinstance(owner.op, Scan)]
        needs[node] = frozenset(loops).union(*(needs[owner] for owner in owners))
    return needs


class _InnerGraphs(dict[Apply, FunctionGraph]):
    """The unwrapped graphs of loops, each made once."""

    def __missing__(self, node: Apply) -> FunctionGraph:
        self[node] = unwrapped(node.op.fgraph)
        return self[node]


def _shared(graph: FunctionGraph, earlier: Apply, later: Apply, inner: _InnerGraphs) -> bool:
    """Let one loop take values from another one, and say whether there were any."""
    steps = Steps(graph)
    traces = steps.traces(earlier, inner[earlier])
    if not traces:
        return False
    orders = [
        (steps.inside(earlier, inner[earlier], index, traces), backward)
        for index, backward in ((steps.before_last(earlier), True), (steps.step, False))
    ]
    numbers = steps.inside(later, inner[later], steps.step)
    before = _computed_before(graph, later)
    for made, backward in orders:
        taken = _taken(later, inner[later], before, steps, numbers, made)
        if taken:
            arrays = _kept(graph, earlier, inner[earlier], traces, taken.values())
            if backward:
                arrays = {v: array[::-1] for v, array in arrays.items()}
            views = {v: arrays[value] for v, value in taken.items()}
            _take(graph, later, inner[later], views, steps)
            return True
    return False


def _taken(
    node: Apply,
    inner: FunctionGraph,
    before: list[Variable],
    steps: Steps,
    numbers: dict[Variable, int],
    made: dict[Variable, int],
) -> dict[Variable, Variable]:
    """The values of another loop that one computes, in its steps or before, and needs."""
    op = node.op
    there = {number: variable for variable, number in made.items()}
    computed = {v: steps.entry(v, steps.step) for v in before}
    computed |= {v: numbers[v] for apply in inner.toposort() for v in apply.outputs}
    scalars = {n for v, n in computed.items() if not isinstance(v.type, TensorType)}  # not kept
    dear = {n for n in there.keys() & {*computed.values()} - scalars if steps.is_dear(n, ())}
    while True:
        needed = {*op.outer_seqs(node.inputs), *inner.outputs}
        for variable, number in computed.items():
            if number not in dear:
                needed.update(variable.owner.inputs)
        taken = {v: n for v, n in computed.items() if n in dear and v in needed}
        others = set(taken.values())
        cheap = {n for n in others if not steps.is_dear(n, others - {n})}
        if not cheap:
            return {variable: there[number] for variable, number in taken.items()}
        dear -= cheap


def _computed_before(graph: FunctionGraph, node: Apply) -> list[Variable]:
    """The nodes that compute for all steps of a loop before it; results come last."""
    op = node.op
    waiting = list(op.outer_seqs(node.inputs))
    found: set[Variable] = set()
    while waiting:
        variable = waiting.pop()
        if variable not in found and of_entries(variable) is not None:
            found.add(variable)
            waiting += variable.owner.inputs
    if not found:
        return []
    return [v for apply in graph.toposort() for v in apply.outputs if v in found]


def _kept(
    graph: FunctionGraph,
    node: Apply,
    inner: FunctionGraph,
    traces: dict[Variable, Trace],
    wanted: Collection[Variable],
) -> dict[Variable, Any]:
    """The values of variables of a loop in all steps; it keeps more of them where it has to."""
    op = node.op
    count = node.inputs[0]
    given = zip(op.inner_seqs(inner.inputs), op.outer_seqs(node.inputs), strict=True)
    arrays: dict[Variable, Any] = {v: array[:count] for v, array in given}
    new = [v for v in dict.fromkeys(wanted) if v not in traces and v not in arrays]
    outputs, more = emitting(node, inner, new) if new else (node.outputs, [])
    after: dict[Variable, Any] = dict(zip(node.outputs, outputs, strict=True))
    if new:
        graph.replace_all(list(after.items()), import_missing=True)
    arrays |= {v: after[trace.array][trace.first :] for v, trace in traces.items()}
    return arrays | dict(zip(new, more, strict=True))


def _take(
    graph: FunctionGraph,
    node: Apply,
    inner: FunctionGraph,
    views: dict[Variable, object],
    steps: Steps,
) -> None:
    """Let a loop go through arrays in the place of what it computes, in its steps or before.

    *Checked*: a sequence that it needs no longer has an entry for each step.
    """
    op = node.op
    outside = {v: _like(v, view) for v, view in views.items() if v not in inner.variables}
    for variable in _computed_before(graph, node):
        parts = variable.owner.inputs
        if variable not in outside and any(v in outside for v in parts):
            entries = [_first_of(v, outside, node.inputs[0]) for v in parts]
            outside[variable] = variable.owner.op(*entries)
    given = zip(op.inner_seqs(inner.inputs), op.outer_seqs(node.inputs), strict=True)
    sequences = {v: outside.get(array, array) for v, array in given}
    for variable in views.keys() & inner.variables:
        entry = variable.type()
        inner.replace_all([(variable, entry)], import_missing=True)
        sequences[entry] = views[variable]
    read = {array for v, array in sequences.items() if inner.clients.get(v)}
    lost = [v for v in op.outer_seqs(node.inputs) if v not in read]
    holds = [condition for array in lost for condition in _long_enough(array, node, steps)]
    if holds:
        check = CheckAndRaise(ValueError, "a sequence has fewer entries than there are steps")
        for v, array in list(sequences.items()):
            sequences[v] = check(array, *holds)
    outputs = going_through(node, inner, sequences)
    graph.replace_all(list(zip(node.outputs, outputs, strict=True)), import_missing=True)


def _long_enough(array: Variable, node: Apply, steps: Steps) -> list[object]:
    """Conditions that an array has an entry for each step of a loop; none if that is known."""
    roots = _roots(array)
    if all(steps.has_length(root, node) for root in roots):
        return []
    first, *others = (Shape_i(0)(root) for root in roots)
    return [pt.ge(first, node.inputs[0]), *(pt.eq(other, first) for other in others)]


def _roots(array: Variable) -> list[Variable]:
    """The arrays from which one is computed entry by entry; itself if from none."""
    waiting = [array]
    met, roots = {array}, list[Variable]()
    while waiting:
        part = waiting.pop()
        if of_entries(part) is None:
            roots.append(part)
            continue
        new = {v: None for v in part.owner.inputs if not v.type.broadcastable[0] and v not in met}
        met.update(new)
        waiting += new
    return roots


def _like(array: object, view: object) -> Any:
    """The replacement of an array, with the facts about its shape; it may have fewer entries."""
    return array.type.clone(shape=(None, *array.type.shape[1:])).filter_variable(view)


def _first_of(array: Any, outside: dict[Variable, Any], count: Any) -> Any:
    """The present replacement of an array, with as many entries as there are steps."""
    if array in outside:
        return outside[array]
    return array if array.type.broadcastable[0] else array[:count]


def _forget(graph: FunctionGraph) -> None:
    """Let loops keep nothing but the last value of what is read nowhere else any more."""
    for node in graph.toposort():
        if not isinstance(node.op, Scan) or node.op.info.as_while:
            continue
        info, given = node.op.info, list(node.inputs)
        for place, taps in enumerate((*info.mit_sot_in_slices, *info.sit_sot_in_slices)):
            reach, position = -min(taps), info.n_mit_mot + place
            clients = graph.clients.get(node.outputs[position], ())
            buffer: Any = given[1 + info.n_seqs + position]
            needless = bool(clients) and buffer.type.shape[0] != reach
            if needless and all(_reads_last(client) for client, _ in clients):
                given[1 + info.n_seqs + position] = buffer[:reach]
        if given != node.inputs:
            outputs = node.op.make_node(*given).outputs
            graph.replace_all(list(zip(node.outputs, outputs, strict=True)), import_missing=True)


def _reads_last(node: Apply) -> bool:
    """Return True if a node takes the last entry of an array."""
    if not isinstance(node.op, Subtensor):
        return False
    first, *_ = leading_indices(node)
    return not isinstance(first, slice) and getattr(tensor_behind(first), "data", None) == -1
