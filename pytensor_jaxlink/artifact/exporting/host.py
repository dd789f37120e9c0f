"""Host steps for a file: Ops as graphs of one node."""

from __future__ import annotations

from pytensor.graph.basic import Apply

from pytensor_jaxlink.artifact.graph.inner import InnerGraph
from pytensor_jaxlink.artifact.graph.writer import GraphWriter


def describe_op(node: Apply, writer: GraphWriter) -> int:
    """The place of a graph that holds the node alone, its inputs all variables."""
    inputs = [variable.type() for variable in node.inputs]
    outputs = [variable.type() for variable in node.outputs]
    alone = Apply(node.op, inputs, outputs)
    return writer.value(InnerGraph(inputs, outputs, [alone]))["part"]
