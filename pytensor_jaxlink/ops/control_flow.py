"""The linker's own forms of `Scan` and `IfElse`.

Rewriting puts them in the linker's private copy of a graph (`rewriting.loop_forms`); no graph of
the user ever holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.op import Op
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.graph import ArrayType


class WhileLoop(Op):
    """A `Scan` whose number of steps JAX need not know.

    Its inputs are those of the scan.  Its outputs are those of the scan, with room for as many
    entries as the buffers have, and for each output in ``measured`` how many entries are real.

    Parameters
    ----------
    scan
        The scan that it stands for.
    measured
        The positions of the outputs whose lengths depend on how many steps are made.
    """

    __props__ = ("scan", "measured")

    def __init__(self, scan: Scan, measured: Sequence[int]) -> None:
        self.scan, self.measured = scan, tuple(measured)

    def make_node(self, *inputs: Variable) -> Apply:
        """The same inputs; the outputs, and the lengths of the measured ones."""
        outputs: list[Any] = [output.type() for output in self.scan.make_node(*inputs).outputs]
        for position in self.measured:
            kind = outputs[position].type
            outputs[position] = TensorType(kind.dtype, shape=(None, *kind.shape[1:]))()
        lengths = [TensorType("int64", shape=())() for _ in self.measured]
        return Apply(self, list(inputs), [*outputs, *lengths])

    def perform(self, node: Apply, inputs: object, output_storage: object) -> None:
        """Not here: `lowering.host_functions` runs the scan that this stands for."""
        raise NotImplementedError(f"{self} runs through the scan that it stands for")

    def __str__(self) -> str:
        return f"While[{self.scan}]"


class Branch(Op):
    """An `IfElse` with the work that only one of its sides needs inside.

    The first input is the condition, the others go to both inner graphs.

    Parameters
    ----------
    name
        What people call it.
    origin
        The name of a graph and a place in it: branches of one origin are the same Op.
    graphs
        What runs when the condition holds, and when it does not.
    """

    __props__ = ("name", "origin")

    def __init__(
        self,
        name: str,
        origin: tuple[object, int],
        graphs: tuple[AbstractFunctionGraph, AbstractFunctionGraph],
    ) -> None:
        self.name, self.origin, self.graphs = name, origin, graphs

    def make_node(self, *inputs: Variable) -> Apply:
        """Outputs of the types that the two sides have in common."""
        sides = zip(*(graph.outputs for graph in self.graphs), strict=True)
        return Apply(self, list(inputs), [_common_type(*pair)() for pair in sides])

    def perform(self, node: Apply, inputs: object, output_storage: object) -> None:
        """Not here: `lowering.host_functions` runs the graphs."""
        raise NotImplementedError(f"{self} runs by its inner graphs")

    def __str__(self) -> str:
        return self.name


def _common_type(left: Variable, right: Variable) -> Any:
    """The type of both, with the lengths in which they differ left open."""
    if left.type == right.type or not isinstance(left.type, ArrayType):
        return left.type
    lengths = [
        one if one == other else None
        for one, other in zip(left.type.shape, right.type.shape, strict=True)
    ]
    return left.type.clone(shape=tuple(lengths))


def measured_outputs(node: Apply) -> tuple[int, ...]:
    """The outputs of a scan that keep more than the state, whose length depends on the steps."""
    op = node.op
    info = op.info
    buffers = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    slices = (*info.mit_sot_in_slices, *info.sit_sot_in_slices)
    found = [
        info.n_mit_mot + position
        for position, (buffer, taps) in enumerate(zip(buffers, slices, strict=True))
        if buffer.type.shape[0] is None or buffer.type.shape[0] > -min(taps)
    ]
    first = info.n_mit_mot + len(buffers)
    found += [
        first + position
        for position, kept in enumerate(op.outer_nitsot(node.inputs))
        if not (isinstance(kept, Constant) and int(kept.data) == 1)
    ]
    return tuple(found)
