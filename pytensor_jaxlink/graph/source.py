"""The user's line, and the user's variable, of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from pytensor.graph.basic import Apply, Variable

from pytensor_jaxlink.frames import distance
from pytensor_jaxlink.graph.expressions import given_name
from pytensor_jaxlink.graph.view import GraphView

Found = TypeVar("Found")

UNKNOWN = "<unknown>"
"""The line of a node of which PyTensor kept no trace (``config.traceback__limit=0``)."""

# How far from a node the search for a line goes: rewriting leaves new nodes without a trace, but
# their neighbours usually have one.
_SEARCH_LIMIT = 200


def _frames(node: Apply) -> Iterator[tuple[str, int]]:
    """The (file, line) pairs that PyTensor recorded for a node, innermost first."""
    for output in node.outputs:
        for stack in getattr(output.tag, "trace", None) or ():
            for filename, line, *_ in reversed(stack):
                yield filename, line


def _line(node: Apply, rank: int) -> str | None:
    for filename, line in _frames(node):
        if distance(filename) == rank:
            return f"{filename}:{line}"
    return None


def has_user_line(variable: Variable) -> bool:
    """Return True if PyTensor recorded a line of the user's for a variable."""
    return any(
        distance(filename) == 0
        for stack in getattr(variable.tag, "trace", None) or ()
        for filename, *_ in stack
    )


def user_location(view: GraphView, node: int) -> str:
    """The ``file:line`` of the user's code that made a node, or of the nearest node with one.

    Returns `UNKNOWN` where PyTensor recorded no trace.  Neighbours are searched breadth first, the
    readers of a node before what it reads: a node that a rewrite inserted belongs to the
    expression it serves.  Then come the line of an installed package, and that of the node that
    has this graph inside it.
    """
    own = _line(view.nodes[node], 0)
    if own is not None:
        return own
    for rank in (0, 1):
        found = _nearest(view, node, lambda near, rank=rank: _line(view.nodes[near], rank))
        if found is not None:
            return found
    return view.within or UNKNOWN


def serves(view: GraphView, node: int) -> str | None:
    """The name of the nearest variable that a node is computed for, or None.

    In a model of PyMC this is a random variable, a deterministic one, or the density of one.
    """

    def name(near: int) -> str | None:
        return next(filter(None, map(given_name, view.nodes[near].outputs)), None)

    return _nearest(view, node, name, backward=False)


def operation_with_place(view: GraphView, node: int) -> str:
    """An operation, its place in the user's code, and the variable that it is computed for."""
    name = serves(view, node)
    part_of = "" if name is None else f", part of {name}"
    return f"{view.operation_of(node)}, written at {user_location(view, node)}{part_of}"


def _nearest(
    view: GraphView, node: int, find: Callable[[int], Found | None], *, backward: bool = True
) -> Found | None:
    """The first answer at a node or at the nearest one: its readers, then the nodes it reads."""
    seen, queue = {node}, [node]
    for current in queue:
        found = find(current)
        if found is not None:
            return found
        neighbours = [
            consumer for output in view.node_outputs[current] for consumer in view.consumers[output]
        ]
        if backward:
            read = (view.producer[variable] for variable in view.node_inputs[current])
            neighbours += [producer for producer in read if producer >= 0]
        for neighbour in neighbours:
            if neighbour not in seen and len(seen) < _SEARCH_LIMIT:
                seen.add(neighbour)
                queue.append(neighbour)
    return None
