"""The buffers that the Python linker allocates for loops, and that our rewrites save."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, AllocEmpty
from pytensor.tensor.math import add, ge
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from pytensor.tensor.type import TensorType


def check_buffers(graph: FunctionGraph) -> None:
    """Let loops fail as they do where their buffers are allocated.

    For n steps from L initial values a buffer has n + L entries.  Python raises ``ValueError``
    where n + L is negative, and, except for L = 1, where the initial values do not fit.  A loop
    itself raises ``IndexError`` for other negative n.  Where the graph still allocates a buffer, it
    raises for the length that this has.
    """
    for node in graph.toposort():
        if isinstance(node.op, Scan):
            _check(graph, node)


def not_negative(value: object, *sizes: object) -> Any:
    """A value, if some sizes, or the value itself, are not negative."""
    holds = [ge(size, 0) for size in sizes or (value,)]
    return CheckAndRaise(ValueError, "negative dimensions are not allowed")(value, *holds)


def _check(graph: FunctionGraph, node: Apply) -> None:
    op, steps = node.op, node.inputs[0]
    carried = op.outer_untraced_sit_sot_outs(node.outputs)  # or generators, without buffers
    several = _are_saved(op.outer_mitsot(node.inputs))
    one = _are_saved(op.outer_sitsot(node.inputs))
    if not (several or one or any(isinstance(state.type, TensorType) for state in carried)):
        return
    checked = not_negative(steps, steps if several else add(steps, 1))
    checked.tag.trace = getattr(node.outputs[0].tag, "trace", [])
    graph.change_node_input(node, 0, checked, reason="check_buffers")


def _are_saved(buffers: Iterable[Variable]) -> bool:
    """Return True if one of some buffers is not allocated for a number of steps."""
    return not all(map(_is_allocated, buffers))


def _is_allocated(buffer: Variable) -> bool:
    node = buffer.owner
    while node is not None and isinstance(node.op, Subtensor | IncSubtensor):
        node = node.inputs[0].owner
    if node is None or not isinstance(node.op, Alloc | AllocEmpty):
        return False
    length = node.inputs[1 if isinstance(node.op, Alloc) else 0]
    return not isinstance(length, Constant)
