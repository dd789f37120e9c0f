"""The buffers that the Python linker allocates for loops, and that our rewrites save."""

from __future__ import annotations

from typing import Any

from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.math import add, ge
from pytensor.tensor.type import TensorType


def check_buffers(graph: FunctionGraph) -> None:
    """Let loops fail as they do where their buffers are allocated.

    For n steps from L initial values a buffer has n + L entries.  Python raises ``ValueError``
    where n + L is negative, and, except for L = 1, where the initial values do not fit.  A loop
    itself raises ``IndexError`` for other negative n.
    """
    for node in graph.toposort():
        if isinstance(node.op, Scan):
            _check(graph, node)


def not_negative(value: object, *sizes: object) -> Any:
    """A value, if some sizes, or the value itself, are not negative."""
    holds = [ge(size, 0) for size in sizes or (value,)]
    return CheckAndRaise(ValueError, "negative dimensions are not allowed")(value, *holds)


def _check(graph: FunctionGraph, node: Apply) -> None:
    info, steps = node.op.info, node.inputs[0]
    carried = node.op.outer_untraced_sit_sot_outs(node.outputs)  # or generators, without buffers
    saved = any(isinstance(state.type, TensorType) for state in carried)
    if not (info.n_mit_sot or info.n_sit_sot or saved):
        return
    least = 0 if info.n_mit_sot else -1
    checked = not_negative(steps, add(steps, -least) if least else steps)
    checked.tag.trace = getattr(node.outputs[0].tag, "trace", [])
    graph.change_node_input(node, 0, checked, reason="check_buffers")
