"""Types of PyTensor: of nodes and variables, as annotations, and of arrays.

PyTensor's classes are generic, and its own annotations leave the parameters out.  Here they have
some, so that a type checker knows the attributes of what is read from a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.tensor.subtensor import indices_from_subtensor
from pytensor.tensor.type import DenseTensorType
from pytensor.xtensor.type import XTensorType

GraphType: TypeAlias = Type[Any]
"""The type of a variable."""

GraphVariable: TypeAlias = Variable[GraphType, Any]
"""A variable, computed or not."""

GraphNode: TypeAlias = Apply[Op]
"""An Op applied to variables."""

ArrayType: TypeAlias = DenseTensorType | XTensorType
"""The types of dense arrays: tensors, and those with names of dimensions.

Both have ``dtype``, ``shape`` and ``ndim``, and the values of both are NumPy arrays.
"""

_take_indices: Callable[..., Iterable[Any]] = indices_from_subtensor
"""Its annotation has variables alone; it takes the values of some too."""


def inputs_of(node: GraphNode | FunctionGraph) -> list[GraphVariable]:
    """The inputs of a node, or of a graph."""
    return node.inputs


def outputs_of(node: GraphNode | FunctionGraph) -> list[GraphVariable]:
    """The outputs of a node, or of a graph."""
    return node.outputs


def nodes_of(fgraph: FunctionGraph) -> list[GraphNode]:
    """The nodes of a graph in topological order."""
    return fgraph.toposort()


def variables_of(fgraph: FunctionGraph) -> set[GraphVariable]:
    """The variables of a graph."""
    return fgraph.variables


def data_of(constant: GraphVariable) -> Any:
    """The value of a constant."""
    value: Any = constant
    return value.data


def readers_of(fgraph: FunctionGraph, variable: GraphVariable) -> list[GraphNode]:
    """The nodes that read a variable of a graph."""
    return [node for node, _ in fgraph.clients.get(variable, ())]


def indices_of(node: GraphNode) -> list[Any]:
    """The indices of a node that indexes, as Python writes them: variables, and slices of these."""
    op: Any = node.op
    indices = node.inputs[first_index(op) :]
    # Until PyTensor 3.1 there are Ops of their own for one vector of integers.
    return indices_from(indices, op.idx_list) if hasattr(op, "idx_list") else indices


def leading_indices(node: GraphNode) -> list[Any]:
    """The same with one at least: ``x[()]`` takes all along the first dimension."""
    return indices_of(node) or [slice(None)]


def indices_from(values: Sequence[object], entries: Sequence[object]) -> list[Any]:
    """The same from values of the inputs.

    Parameters
    ----------
    values
        The inputs after the array, or values of these.
    entries
        The Op's ``idx_list``.
    """
    return list(_take_indices(values, entries))


def is_vector_of_places(indices: Sequence[GraphVariable | slice]) -> bool:
    """Return True for the index of ``x[places]``: there alone PyTensor stretches no values."""
    [first, *others] = indices
    if others or isinstance(first, slice):
        return False
    return ndim_of(first) == 1 and dtype_of(first) != "bool"


def first_index(op: Op) -> int:
    """The position of the first index among the inputs of an Op that indexes."""
    return 2 if hasattr(op, "set_instead_of_inc") else 1  # an update reads values, too


def dtype_of(variable: GraphVariable) -> str:
    """The dtype of a variable whose type has one (an array, or a scalar outside tensors)."""
    kind: Any = variable.type
    return kind.dtype


def ndim_of(variable: GraphVariable) -> int:
    """The number of dimensions of a variable whose type has them."""
    kind: Any = variable.type
    return kind.ndim


def lengths_of(variable: GraphVariable) -> tuple[int | None, ...]:
    """The lengths that the type of a variable promises; none where the type has no shape."""
    return getattr(variable.type, "shape", ())


def axis_and_parts(node: GraphNode) -> tuple[int | None, Sequence[GraphVariable]]:
    """The dimension along which a `Join` lays its arrays, None where it is computed; and these."""
    axis = getattr(node.op, "axis", None)
    if axis is not None:
        return axis % ndim_of(outputs_of(node)[0]), inputs_of(node)
    axis, *parts = inputs_of(node)  # until PyTensor 3.1 the axis was an input
    if not isinstance(axis, Constant):
        return None, parts
    return int(data_of(axis)) % ndim_of(outputs_of(node)[0]), parts
