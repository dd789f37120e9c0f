"""Where in the user's code a node was written."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytensor
from pytensor.graph.basic import Apply, Variable

from pytensor_jaxlink.graph.view import GraphView

_LIBRARY_FOLDERS = tuple(
    os.path.join(folder, "")
    for folder in (
        os.path.dirname(os.path.abspath(pytensor.__file__)),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    )
)
_INSTALLED = f"{os.sep}site-packages{os.sep}"
# How far from a node the search for a line goes: rewriting leaves new nodes without a trace, but
# their neighbours usually have one.
_SEARCH_LIMIT = 200


def _frames(variable: Variable) -> Iterator[tuple[str, int]]:
    """The (file, line) pairs recorded for a variable, innermost first."""
    for stack in getattr(variable.tag, "trace", None) or ():
        for filename, line, *_ in reversed(stack):
            yield filename, line


def _own_location(node: Apply) -> str | None:
    """The innermost line outside of PyTensor and of us, outside of installed packages if it can be.

    A model written with PyMC was not written in PyMC's files.
    """
    frames = [
        (filename, line)
        for output in node.outputs
        for filename, line in _frames(output)
        if not os.path.abspath(filename).startswith(_LIBRARY_FOLDERS)
    ]
    frames.sort(key=lambda frame: _INSTALLED in frame[0])  # stable: innermost first in each part
    return f"{frames[0][0]}:{frames[0][1]}" if frames else None


def user_location(view: GraphView, node: int) -> str:
    """The ``file:line`` of the user's code that made a node, or of the nearest node with one.

    Returns ``"<unknown>"`` where PyTensor recorded no trace (``config.traceback__limit=0``).
    Neighbours are searched breadth first, what consumes a node before what it consumes: a node
    that a rewrite inserted belongs to the expression it serves.
    """
    seen, queue = {node}, [node]
    for current in queue:
        location = _own_location(view.nodes[current])
        if location is not None:
            return location
        neighbours = [
            consumer for output in view.node_outputs[current] for consumer in view.consumers[output]
        ]
        neighbours += [
            view.producer[variable]
            for variable in view.node_inputs[current]
            if view.producer[variable] >= 0
        ]
        for neighbour in neighbours:
            if neighbour not in seen and len(seen) < _SEARCH_LIMIT:
                seen.add(neighbour)
                queue.append(neighbour)
    return "<unknown>"
