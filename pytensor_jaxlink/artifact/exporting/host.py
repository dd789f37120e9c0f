"""Host steps for a file: Ops as graphs of one node."""

from __future__ import annotations

from pytensor.graph.basic import Apply

from pytensor_jaxlink.artifact.graphs.properties import InnerGraph
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter, is_generic_none


def describe_op(node: Apply, writer: GraphWriter) -> int:
    """The place of a graph that holds the node alone, its inputs variables where they can be."""
    inputs = [each if is_generic_none(each) else each.type() for each in node.inputs]
    outputs = [variable.type() for variable in node.outputs]
    free = [each for each in inputs if each not in node.inputs]
    return writer.place(InnerGraph(free, outputs, [Apply(node.op, inputs, outputs)]))
