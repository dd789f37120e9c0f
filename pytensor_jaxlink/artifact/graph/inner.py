"""A graph without its Op: inputs, nodes in order, outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import io_toposort
from pytensor.link.jax.ops import JAXOp


@dataclass(frozen=True, eq=False)
class InnerGraph:
    """The graph between some inputs and outputs."""

    inputs: list[Variable]
    outputs: list[Variable]
    nodes: list[Apply]

    @classmethod
    def of(cls, op: Any) -> InnerGraph:
        """The graph inside an Op."""
        # Before PyTensor 3.1 there are two: one that is changed when a function is linked, and one
        # that is not, by which Ops are compared.
        fgraph = getattr(op, "_frozen_fgraph", op.fgraph)
        if isinstance(fgraph, FunctionGraph):
            return cls.between(fgraph.inputs, fgraph.outputs)
        nodes = dict.fromkeys(fgraph.toposort())  # equal nodes are one, and may be listed twice
        return cls(list(fgraph.inputs), list(fgraph.outputs), list(nodes))

    @classmethod
    def between(cls, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> InnerGraph:
        """The graph between variables."""
        return cls(list(inputs), list(outputs), list(io_toposort(inputs, outputs)))


def op_of_jax(graph: InnerGraph) -> JAXOp | None:
    """An Op of a graph, or of a graph inside, that wraps a function of JAX; None without one."""
    for node in graph.nodes:
        if isinstance(node.op, JAXOp):
            return node.op
        found = op_of_jax(InnerGraph.of(node.op)) if isinstance(node.op, HasInnerGraph) else None
        if found is not None:
            return found
    return None
