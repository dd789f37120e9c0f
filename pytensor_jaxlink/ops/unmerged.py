"""Operations that pass their input on, none of which PyTensor takes for another one."""

from __future__ import annotations

from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op

from pytensor_jaxlink.ops.inner_graph import changes_gradient


class Unmerged(ViewOp):
    """One operation of a graph that passes its input on.

    PyTensor compares these Ops without their bounds and multipliers, because values do not depend
    on them, and so it would merge two of the same input.  The gradient of each is another one, and
    that of two equal ones is not that of one either: each clips what reaches it.

    Parameters
    ----------
    op
        The Op.
    number
        Its place in the graph.
    """

    __props__ = ("op", "number")

    def __init__(self, op: Op, number: int) -> None:
        self.op, self.number = op, number

    def of(self, node: Apply) -> Apply:
        """The node of the Op that it stands for."""
        return self.op.make_node(*node.inputs)


def keep_apart(graph: FunctionGraph) -> None:
    """Replace the operations that change gradients in a graph, so that none are merged."""
    for number, node in enumerate(graph.toposort()):
        if changes_gradient(node.op):
            [apart] = Unmerged(node.op, number).make_node(*node.inputs).outputs
            graph.replace(node.outputs[0], apart, import_missing=True)
