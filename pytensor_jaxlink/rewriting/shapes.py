"""Shapes of black boxes, from what stands beside them.

PyTensor broadcasts by type.  So what an elementwise operation takes and gives, of one pattern of
broadcasting, is of one shape; and a gradient has the shape of what it belongs to.  Where people
write the gradient of a black box as another black box, this is what tells its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.elemwise import Elemwise

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
    same = _Classes()
    for output, like in zip(graph.outputs, alike, strict=True):
        same.join(output, like)
    for node in nodes:
        if isinstance(node.op, Elemwise):
            for variable in node.inputs:
                if _pattern(variable) == _pattern(node.outputs[0]):
                    same.join(variable, node.outputs[0])
    known = {same.of(variable): variable for variable in reversed(graph.inputs)}
    for node in unknown:
        classes = [same.of(output) for output in node.outputs]
        if all(each in known for each in classes):
            like = [known[each] for each in classes]
            shaped: Any = Shaped(node.op, len(node.inputs)).make_node(*node.inputs, *like)
            graph.replace_all(zip(node.outputs, shaped.outputs, strict=True))


def _pattern(variable: Any) -> tuple[bool, ...]:
    return variable.type.broadcastable


class _Classes:
    """Which variables are of one shape."""

    def __init__(self) -> None:
        self._parents: dict[Variable, Variable] = {}

    def of(self, variable: Variable) -> Variable:
        """The one that stands for all of its class."""
        while variable in self._parents:
            variable = self._parents[variable]
        return variable

    def join(self, one: Variable, other: Variable) -> None:
        """Make two classes one."""
        one, other = self.of(one), self.of(other)
        if one is not other:
            self._parents[one] = other
