"""Loops, branches and inner graphs in the forms that suit JAX.

These changes are made in the linker's private copy of a graph, after PyTensor's rewrites.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.graph.traversal import apply_ancestors
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.analysis import (
    BindingTime,
    NodeFacts,
    binding_times,
    called,
    input_binding_times,
)
from pytensor_jaxlink.catalogue import ObstacleKind
from pytensor_jaxlink.compat import IfElse, inlined
from pytensor_jaxlink.graph import GraphView, leading_indices
from pytensor_jaxlink.ops import Branch, WhileLoop, measured_outputs
from pytensor_jaxlink.rewriting.bounds import is_one

Describe = Callable[[GraphView], Sequence[NodeFacts]]


def core(node: Apply) -> Any:
    """The Op of a node, or what it applies to each element of a batch."""
    return node.op.core_op if isinstance(node.op, Blockwise) else node.op


def replace(graph: FunctionGraph, node: Apply, replacements: Sequence[Variable]) -> None:
    """Put other variables in the place of the outputs of a node."""
    copy_stack_trace(node.outputs, list(replacements))
    graph.replace_all(list(zip(node.outputs, replacements, strict=True)), import_missing=True)


# -- branches ------------------------------------------------------------------------------------


def separate_branches(graph: FunctionGraph, origin: object, describe: Describe) -> None:
    """Move what only one side of each `IfElse` needs into it, outermost first.

    A `Branch` is known by the name of its graph and its place there: what is learned about it holds
    when the graph is prepared again.
    """
    places = {node: place for place, node in enumerate(graph.toposort())}
    _merge_branches(graph, describe, places)
    for node in reversed(graph.toposort()):
        if isinstance(node.op, IfElse) and node in graph.apply_nodes:
            replace(graph, node, _branch(graph, node, (origin, places[node])))


def _merge_branches(graph: FunctionGraph, describe: Describe, places: dict[Apply, int]) -> None:
    """Make one of the `IfElse` nodes of one condition that share a break nothing else needs.

    A value and its length are often two of them.  Apart, neither could take in what breaks, and it
    would run whatever the condition is.  What they become has the place of the first one.
    """
    needed = _surely_needed(graph.outputs)
    groups: dict[Variable, list[Apply]] = {}
    for node in graph.toposort():
        if isinstance(node.op, IfElse) and node in needed:
            groups.setdefault(node.inputs[0], []).append(node)
    if all(len(group) == 1 for group in groups.values()):
        return
    view = GraphView.of(graph)
    facts = zip(view.nodes, describe(view), strict=True)
    broken = {node for node, fact in facts if fact.obstacle is not None} - needed
    for group in groups.values() if broken else ():  # pairs are compared by all that they read
        while group:
            node = group.pop(0)
            while other := next((one for one in group if _share(node, one, broken)), None):
                group.remove(other)
                place, node = places[node], _merged(graph, node, other)
                places[node] = place


def _share(one: Apply, other: Apply, broken: set[Apply]) -> bool:
    """Return True if two `IfElse` nodes read the same break, and neither reads the other."""
    here, there = (set(apply_ancestors(node.inputs)) for node in (one, other))
    return one not in there and other not in here and not broken.isdisjoint(here & there)


def _merged(graph: FunctionGraph, *nodes: Apply) -> Apply:
    """Put one `IfElse` in the place of some of one condition."""
    outputs = [output for node in nodes for output in node.outputs]
    sides = [value for which in (0, 1) for node in nodes for value in _side(node, which)]
    merged = IfElse(len(outputs)).make_node(nodes[0].inputs[0], *sides)
    copy_stack_trace(outputs, merged.outputs)
    graph.replace_all(list(zip(outputs, merged.outputs, strict=True)), import_missing=True)
    return merged


def _side(node: Apply, which: int) -> list[Variable]:
    """The values that a side of an `IfElse` gives: the first one where the condition holds."""
    count = len(node.outputs)
    return node.inputs[1 + which * count :][:count]


def _branch(graph: FunctionGraph, node: Apply, origin: tuple[object, int]) -> list[Variable]:
    sides = _side(node, 0), _side(node, 1)
    exclusive = _exclusive(graph, node, *sides)  # in one order, and so are the inputs
    boundary = {
        variable: None
        for inner in exclusive
        for variable in inner.inputs
        if variable.owner not in exclusive and not isinstance(variable, Constant)
    }
    boundary |= {
        variable: None
        for variable in (*sides[0], *sides[1])
        if variable.owner not in exclusive and not isinstance(variable, Constant)
    }
    inputs = list(boundary)
    stand_ins = [variable.type(name=variable.name) for variable in inputs]
    mapping = dict(zip(inputs, stand_ins, strict=True))
    # Constant sides, and sides that are an input as it is, are fine as outputs of a graph.
    first, second = (
        FunctionGraph(stand_ins, clone_replace(list(side), mapping, rebuild_strict=False))
        for side in sides
    )
    branch: Any = Branch(str(node.op), origin, (first, second))
    return branch.make_node(node.inputs[0], *inputs).outputs


def _exclusive(
    graph: FunctionGraph, node: Apply, first: Sequence[Variable], second: Sequence[Variable]
) -> dict[Apply, None]:
    """The nodes that nothing but this `IfElse` needs, and not both sides of it for sure."""
    both = _surely_needed(first) & _surely_needed(second)
    candidates = set(apply_ancestors([*first, *second]))
    exclusive: dict[Apply, None] = {}
    for candidate in reversed([other for other in graph.toposort() if other in candidates]):
        clients = [client for output in candidate.outputs for client in graph.clients[output]]
        if candidate not in both and all(
            (client is node and position > 0) or client in exclusive for client, position in clients
        ):
            exclusive[candidate] = None
    return exclusive


def _surely_needed(outputs: Sequence[Variable]) -> set[Apply]:
    """The nodes that run whatever the conditions of further `IfElse` nodes are."""
    needed: set[Apply] = set()
    stack = list(outputs)
    while stack:
        owner = stack.pop().owner
        if owner is not None and owner not in needed:
            needed.add(owner)
            stack += owner.inputs[:1] if isinstance(owner.op, IfElse) else owner.inputs
    return needed


# -- inner graphs --------------------------------------------------------------------------------


def inline_broken(graph: FunctionGraph, describe: Describe) -> bool:
    """Inline the inner graphs that break.  Returns whether there was one."""
    if not any(isinstance(core(node), OpFromGraph) for node in graph.apply_nodes):
        return False
    view = GraphView.of(graph)
    broken = [
        node
        for node, fact in zip(view.nodes, describe(view), strict=True)
        if isinstance(core(node), OpFromGraph) and _breaks_inside(node, fact)
    ]
    for node in broken:
        replace(graph, node, _inlined(node))
    return bool(broken)


def _breaks_inside(node: Apply, fact: NodeFacts) -> bool:
    if fact.obstacle is None:
        return False
    # What a `Blockwise` says of its core Op may be its own doing: one batch element is looked at.
    is_batched = isinstance(node.op, Blockwise)
    if is_batched and any(inner.op.destroy_map for inner in core(node).fgraph.apply_nodes):
        return False  # PyTensor 3.0 has run it elsewhere, and left operations in place there
    return is_batched or fact.obstacle.kind is ObstacleKind.INNER_BREAK


def _inlined(node: Apply) -> list[Variable]:
    if not isinstance(node.op, Blockwise):
        return inlined(node)
    inner = core(node)
    inputs = [variable.type() for variable in inner.fgraph.inputs]
    outputs = inlined(inner.make_node(*inputs))
    return list(vectorize_graph(outputs, dict(zip(inputs, node.inputs, strict=True))))


# -- loops ---------------------------------------------------------------------------------------


def open_loops(graph: FunctionGraph, describe: Describe, changing: Collection[int] = ()) -> None:
    """Give JAX's `while_loop` the scans that it can run and `scan` cannot.

    The inputs at ``changing`` are data whatever their type.
    """
    if not any(isinstance(node.op, Scan) for node in graph.apply_nodes):
        return
    view = GraphView.of(graph)
    facts = describe(view)
    times = binding_times(view, input_binding_times(view, changing), called(facts))
    for node, fact, inputs in zip(view.nodes, facts, view.node_inputs, strict=True):
        if not isinstance(node.op, Scan) or fact.obstacle is not None:
            continue
        measured = measured_outputs(node)
        if node.op.info.as_while:
            _open_loop(graph, node, measured)
        elif times[inputs[0]] >= BindingTime.HOST and not measured:
            _open_loop(graph, node, ())


def _open_loop(graph: FunctionGraph, node: Apply, measured: Sequence[int]) -> None:
    """Put a `WhileLoop` in the place of a scan, its outputs cut to the lengths that it reports.

    The last entry of an output is read where it is: that needs no cut.  What drops the first
    entries (the initial state) makes one slice of two: it may be a result, which is cut when it
    leaves.
    """
    outputs: list[Any] = list(WhileLoop(node.op, measured).make_node(*node.inputs).outputs)
    results, lengths = outputs[: len(node.outputs)], outputs[len(node.outputs) :]
    for position, length in zip(measured, lengths, strict=True):
        padded, last = results[position], length - 1
        for reader, _ in list(graph.clients[node.outputs[position]]):
            [first, *rest] = _literal_first_index(reader)
            if first == -1:
                replace(graph, reader, [padded[(last, *rest)]])
            elif isinstance(first, slice):
                replace(graph, reader, [padded[(slice(first.start, length), *rest)]])
        results[position] = padded[:length]
    replace(graph, node, results)


def _literal_first_index(reader: object) -> list[Any]:
    """The indices of a node that takes the last entry of its input, or all after some; else None.

    The first one is -1, or a slice from a number.
    """
    if not isinstance(reader, Apply) or not isinstance(reader.op, Subtensor):
        return [None]
    first, *rest = leading_indices(reader)
    if isinstance(first, Constant):
        return [int(first.data), *rest] if int(first.data) == -1 else [None]
    start = getattr(getattr(first, "start", None), "data", 0)
    from_start = isinstance(first, slice) and first.stop is None and is_one(first.step)
    known = from_start and (first.start is None or isinstance(first.start, Constant))
    return [slice(int(start), None), *rest] if known and int(start) >= 0 else [None]
