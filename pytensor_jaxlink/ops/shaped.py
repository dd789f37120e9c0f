"""Ops whose output shapes the graph around them tells."""

from __future__ import annotations

from typing import Any

from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op

from pytensor_jaxlink.ops.input_roles import shape_inputs


class Shaped(Op):
    """An Op with one more input for each of its outputs, of the same shape as the output.

    Parameters
    ----------
    op
        The Op that it stands for.
    count
        The number of its inputs.
    """

    __props__ = ("op", "count")

    def __init__(self, op: Op, count: int) -> None:
        self.op, self.count = op, count

    def make_node(self, *inputs: Variable) -> Apply:
        """The inputs of the Op, and what has the shapes of its outputs; the outputs of the Op."""
        node = self.op.make_node(*inputs[: self.count])
        return Apply(self, list(inputs), [output.type() for output in node.outputs])

    def alone(self, node: Apply) -> Apply:
        """The node of the Op, without the further inputs."""
        return Apply(self.op, node.inputs[: self.count], [o.type() for o in node.outputs])

    def infer_shape(self, *arguments: Any) -> list[object]:
        """The shapes of the further inputs.  PyTensor 3.0 passes the graph as well."""
        return arguments[-1][self.count :]

    def perform(self, node: Apply, inputs: object, output_storage: object) -> None:
        """Not here: `lowering.host_functions` runs the node of the Op alone."""
        raise NotImplementedError(f"{self} runs through the Op that it stands for")

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Nothing depends on the values of the further inputs."""
        outputs = len(node.outputs)
        return [[position < self.count] * outputs for position in range(len(node.inputs))]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        """The gradient of the Op."""
        found = list(self.op.pullback(inputs[: self.count], outputs, cotangents))
        return [*found, *(DisconnectedType()() for _ in inputs[self.count :])]

    def __str__(self) -> str:
        return str(self.op)


@shape_inputs.register(Shaped)
def _shape_inputs_shaped(op: Shaped, node: Apply) -> tuple[int, ...]:
    return tuple(range(op.count, len(node.inputs)))
