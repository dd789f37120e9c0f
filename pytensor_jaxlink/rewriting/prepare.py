"""The linker's private copy of a graph, in the forms that suit JAX.

These changes are made after PyTensor's rewrites, and no graph of the user ever holds them.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph, FunctionGraph
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.scalar.basic import Mul, ScalarOp
from pytensor.scan.op import Scan
from pytensor.sparse.basic import CSMProperties
from pytensor.tensor.basic import as_tensor_variable, scalar_from_tensor, stack
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor

from pytensor_jaxlink.compat import IfElse, mutable
from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.ops import Contraction
from pytensor_jaxlink.rewriting import traces
from pytensor_jaxlink.rewriting.dynamic_slices import bounded_axes, rewrite_dynamic_slices
from pytensor_jaxlink.rewriting.hoisting import hoist_from_loops
from pytensor_jaxlink.rewriting.loop_forms import (
    Describe,
    inline_broken,
    open_loops,
    separate_branches,
)
from pytensor_jaxlink.rewriting.products import share_products, shares_products


def prepare(
    fgraph: AbstractFunctionGraph,
    origin: object,
    describe: Describe,
    enabled: Collection[str],
    changing: Collection[int] = (),
) -> AbstractFunctionGraph:
    """The graph with the forms that JAX can run; itself where there is nothing to change.

    - Slices of one length at places that are known on the host are compiled once for all places.
    - What a loop computes from its sequences alone is computed before it.
    - A loop over the traces of another one takes what that one has computed.
    - A product takes the value of another one whose factors it holds.
    - A product of matrices takes over that one of them is transposed.
    - Copies of generators and other values that are no arrays go: they would be graph breaks.
    - The shape of a sparse matrix is read from its type, not computed with its arrays.
    - Operations on scalars become those on arrays without axes: there is one rule for both.
    - The work that only one side of an `IfElse` needs moves into a `Branch`.
    - An `OpFromGraph` that cannot be traced as a whole, also under a `Blockwise`, is inlined, so
      that only its breaks break.
    - A `Scan` that decides itself when it ends, or whose number of steps is an input or computed
      from data and of which only the last state is kept, becomes a `WhileLoop`.

    Parameters
    ----------
    origin
        The name of the graph, by which its branches are known when it is prepared again.
    describe
        Gives the facts of each node of a view.
    enabled
        The names of the rewrites that the mode includes.
    changing
        The positions of the inputs that are data whatever their type.
    """
    if not any(_concerns(node, fgraph) for node in fgraph.apply_nodes):
        return fgraph
    graph = mutable(fgraph)
    _drop_copies(graph)
    _read_shapes(graph)
    _widen_scalars(graph)
    hoist_from_loops(graph)
    if traces.NAME in enabled:
        traces.share_traces(graph)
    rewrite_dynamic_slices(graph, changing, exact=True)
    share_products(graph)
    _absorb_transpositions(graph)
    passes = count()
    separate_branches(graph, (origin, next(passes)), describe)
    while inline_broken(graph, describe):
        separate_branches(graph, (origin, next(passes)), describe)
    open_loops(graph, describe, changing)
    return graph


def _concerns(node: Apply, fgraph: AbstractFunctionGraph) -> bool:
    """Return True if `prepare` may have something to change at a node."""
    match node.op:
        case IfElse() | Scan() | CSMProperties() | OpFromGraph() | ScalarOp():
            return True
        case Blockwise():
            return isinstance(node.op.core_op, OpFromGraph)
        case Subtensor() | IncSubtensor():
            return bool(bounded_axes(node))
        case Elemwise(scalar_op=Mul()) if len(node.inputs) > 2:
            return shares_products(fgraph)
        case DeepCopyOp():
            return _copies_no_array(node)
        case Dot():
            return _takes_transposed(node)
        case _:
            return False


def _copies_no_array(node: Apply) -> bool:
    return isinstance(node.op, DeepCopyOp) and not isinstance(node.outputs[0].type, ArrayType)


def _takes_transposed(node: Apply) -> bool:
    return isinstance(node.op, Dot) and any(_is_transposed(variable) for variable in node.inputs)


def _is_transposed(variable: Any) -> bool:
    op = getattr(variable.owner, "op", None)
    return isinstance(op, DimShuffle) and tuple(op.new_order) == (1, 0)


def _absorb_transpositions(graph: FunctionGraph) -> None:
    for node in graph.toposort():
        if _takes_transposed(node) and all(v.type.ndim == 2 for v in node.inputs):
            matrices = [v.owner.inputs[0] if _is_transposed(v) else v for v in node.inputs]
            left, right = (int(_is_transposed(v)) for v in node.inputs)
            product: Any = Contraction(1 - left, right)(*matrices)
            graph.replace_all([(node.outputs[0], product)], import_missing=True)


def _drop_copies(graph: FunctionGraph) -> None:
    """Drop the copies that PyTensor makes of outputs: what is no array is copied by the machine."""
    for node in graph.toposort():
        if _copies_no_array(node):
            graph.replace_all([(node.outputs[0], node.inputs[0])])


def _read_shapes(graph: FunctionGraph) -> None:
    """Let the shape among the parts of a sparse matrix follow from the matrix's own shape."""
    for node in graph.toposort():
        if isinstance(node.op, CSMProperties) and graph.clients.get(node.outputs[3]):
            matrix, shape = node.inputs[0], node.outputs[3]
            lengths = stack([Shape_i(axis)(matrix) for axis in (0, 1)]).astype(shape.type.dtype)
            graph.replace_all([(shape, lengths)], import_missing=True)


def _widen_scalars(graph: FunctionGraph) -> None:
    for node in graph.toposort():
        if isinstance(node.op, ScalarOp):
            arrays = [as_tensor_variable(value) for value in node.inputs]
            values = Elemwise(node.op).make_node(*arrays).outputs
            copy_stack_trace(node.outputs, values)
            scalars = [scalar_from_tensor(value) for value in values]
            graph.replace_all([*zip(node.outputs, scalars, strict=True)], import_missing=True)


def may_be_cut(fgraph: AbstractFunctionGraph) -> bool:
    """Return True if an output is indexed last (`rewriting.cut_results`)."""
    nodes = map(last_indexing, fgraph.outputs)
    return any(node is not None and len(node.inputs) > 1 for node in nodes)


def last_indexing(result: Any) -> Apply | None:
    """The node that indexes a result last, or what is copied to be one."""
    node = result.owner
    if node is not None and isinstance(node.op, DeepCopyOp):
        node = node.inputs[0].owner
    return node if node is not None and isinstance(node.op, AdvancedSubtensor | Subtensor) else None
