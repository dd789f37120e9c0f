"""Does an Op run a graph of its own, and which outer values reach it unchanged?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.op import Op
from pytensor.scan.op import Scan
from pytensor.tensor.pad import Pad


@dataclass(frozen=True)
class InnerGraph:
    """The graph inside an Op.

    Attributes
    ----------
    fgraph
        The graph that runs, once or many times.
    outer_position
        For each inner input, the position of the outer input that it is at every run, or None
        where it changes from run to run (a state, an element of a sequence).
    """

    fgraph: AbstractFunctionGraph
    outer_position: tuple[int | None, ...]


@singledispatch
def inner_graph(op: Op, node: Apply) -> InnerGraph | None:
    """The graph that ``op`` runs, or None (the default) where it is opaque."""
    return None


@inner_graph.register(OpFromGraph)
def _inner_graph_op_from_graph(op: OpFromGraph, node: Apply) -> InnerGraph:
    return InnerGraph(op.fgraph, tuple(range(len(node.inputs))))


@inner_graph.register(Pad)
def _inner_graph_pad(op: Pad, node: Apply) -> None:
    return None  # it is a graph for other backends; JAX pads by itself


@inner_graph.register(Scan)
def _inner_graph_scan(op: Scan, node: Apply) -> InnerGraph:
    inner_inputs = op.fgraph.inputs
    first_outer = len(node.inputs) - len(op.outer_non_seqs(node.inputs))
    first_inner = len(inner_inputs) - len(op.inner_non_seqs(inner_inputs))
    positions = [
        None if number < first_inner else first_outer + number - first_inner
        for number in range(len(inner_inputs))
    ]
    return InnerGraph(op.fgraph, tuple(positions))
