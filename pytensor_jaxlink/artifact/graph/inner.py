"""A graph without its Op: inputs, nodes in order, outputs."""

from __future__ import annotations

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
    def of(cls, fgraph: Any) -> InnerGraph:
        """The graph inside an Op."""
        # A mutable graph orders its nodes anew each time it is changed; a frozen one keeps them.
        nodes = (
            io_toposort(fgraph.inputs, fgraph.outputs)
            if isinstance(fgraph, FunctionGraph)
            else fgraph.toposort()
        )
        return cls(list(fgraph.inputs), list(fgraph.outputs), list(nodes))

    @classmethod
    def between(cls, inputs: list[Variable], outputs: list[Variable]) -> InnerGraph:
        """The graph between variables."""
        return cls(list(inputs), list(outputs), list(io_toposort(inputs, outputs)))
