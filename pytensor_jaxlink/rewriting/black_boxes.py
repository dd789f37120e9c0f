"""Shapes of black boxes, from what stands beside them.

A gradient has the shape of what it belongs to, and elementwise operations pass that on
(`analysis.lengths`).  Where people write the gradient of a black box as another black box, this is
what tells its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.ops import Shaped


def with_shapes(
    graph: FunctionGraph, alike: Sequence[Variable], is_unknown: Callable[[Apply], bool]
) -> None:
    """Make those nodes `Shaped` of whose outputs the shapes are unknown otherwise.

    Parameters
    ----------
    graph
        It is changed.
    alike
        For each output of the graph an input that has its shape.
    is_unknown
        Whether nobody knows the shapes of the outputs of a node before it runs.
    """
    nodes = graph.toposort()
    unknown = list(filter(is_unknown, nodes))
    if not unknown:
        return
    lengths = Lengths(graph)
    for output, like in zip(graph.outputs, alike, strict=True):
        for axis in range(min(output.type.ndim, like.type.ndim)):
            lengths.join((output, axis), (like, axis))
    for node in unknown:
        like = [_input_like(graph, lengths, output) for output in node.outputs]
        if None not in like:
            shaped = Shaped(node.op, len(node.inputs)).make_node(*node.inputs, *like)
            graph.replace_all(zip(node.outputs, shaped.outputs, strict=True))


def _input_like(graph: FunctionGraph, lengths: Lengths, output: Variable) -> Any:
    """The first input that has the shape of an array, or None."""
    axes = range(output.type.ndim)
    for variable in graph.inputs:
        if getattr(variable.type, "ndim", None) == output.type.ndim and all(
            lengths.same(variable, axis, output, axis) for axis in axes
        ):
            return variable
    return None
