"""A graph without its Op: inputs, nodes in order, outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import io_toposort


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
