"""Does an Op run graphs of its own, and which outer values reach them unchanged?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.op import Op
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.solvers.linear_control import SolveSylvester
from pytensor.tensor.optimize import ScipyWrapperOp
from pytensor.tensor.special import LogSoftmax, Softmax

from pytensor_jaxlink.compat import core_node
from pytensor_jaxlink.ops.control_flow import Branch, WhileLoop


@dataclass(frozen=True)
class NestedGraph:
    """A graph inside an Op.

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
def inner_graphs(op: Op, node: Apply) -> tuple[NestedGraph, ...]:
    """The graphs that ``op`` runs; none (the default) where it is opaque."""
    return ()


@inner_graphs.register(OpFromGraph)
def _inner_graphs_op_from_graph(op: OpFromGraph, node: Apply) -> tuple[NestedGraph, ...]:
    return (NestedGraph(op.fgraph, tuple(range(len(node.inputs)))),)


def declares_gradient(op: OpFromGraph) -> bool:
    """Return True if an Op declares its gradient, instead of leaving it to its graph."""
    return op.pullback_overrides is not None or type(op).pullback is not OpFromGraph.pullback


def changes_gradient(op: Op) -> bool:
    """Return True for an Op that passes its input on, and whose gradient is another one.

    `zero_grad`, `grad_clip` and others of `pytensor.gradient`, and Ops of users like these.
    """
    return isinstance(op, ViewOp) and type(op) is not ViewOp


@inner_graphs.register(LogSoftmax)
@inner_graphs.register(Softmax)
@inner_graphs.register(SolveSylvester)
def _inner_graphs_none(op: Op, node: Apply) -> tuple[NestedGraph, ...]:
    return ()  # graphs for other backends (in PyTensor 3.0 a softmax is one); JAX has functions


@inner_graphs.register(Branch)
def _inner_graphs_branch(op: Branch, node: Apply) -> tuple[NestedGraph, ...]:
    positions = tuple(range(1, len(node.inputs)))  # the first is the condition
    return tuple(NestedGraph(fgraph, positions) for fgraph in op.graphs)


@inner_graphs.register(Blockwise)
def _inner_graphs_blockwise(op: Blockwise, node: Apply) -> tuple[NestedGraph, ...]:
    core = core_node(node)

    def unbatched(position: int | None) -> int | None:
        if position is None or node.inputs[position].type.ndim != core.inputs[position].type.ndim:
            return None  # another value for each element of the batch
        return position

    return tuple(
        NestedGraph(inner.fgraph, tuple(map(unbatched, inner.outer_position)))
        for inner in inner_graphs(core.op, core)
    )


@inner_graphs.register(ScipyWrapperOp)
def _inner_graphs_optimiser(op: ScipyWrapperOp, node: Apply) -> tuple[NestedGraph, ...]:
    """The equation, which moves from the start (the first input) and reads the others."""
    return (NestedGraph(op.fgraph, (None, *range(1, len(op.inner_inputs)))),)


@inner_graphs.register(WhileLoop)
def _inner_graphs_while_loop(op: WhileLoop, node: Apply) -> tuple[NestedGraph, ...]:
    return _inner_graphs_scan(op.scan, node)


@inner_graphs.register(Scan)
def _inner_graphs_scan(op: Scan, node: Apply) -> tuple[NestedGraph, ...]:
    inner_inputs = op.fgraph.inputs
    first_outer = len(node.inputs) - len(op.outer_non_seqs(node.inputs))
    first_inner = len(inner_inputs) - len(op.inner_non_seqs(inner_inputs))
    positions = [
        None if number < first_inner else first_outer + number - first_inner
        for number in range(len(inner_inputs))
    ]
    return (NestedGraph(op.fgraph, tuple(positions)),)
