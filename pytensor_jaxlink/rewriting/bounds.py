"""What slices say: their bounds as tensors, and as Python takes them."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import ScalarFromTensor
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.subtensor import indices_from_subtensor


def one_slice(node: Apply, first: int) -> tuple[int, Any, Any] | None:
    """The one dimension that a node slices with a stride of 1, and the bounds, or None.

    The indices of the node begin at its input ``first``.
    """
    found = None
    for axis, index in enumerate(indices_from_subtensor(node.inputs[first:], node.op.idx_list)):
        if not isinstance(index, slice):
            return None
        if index == slice(None):
            continue
        if found is not None or not is_one(index.step):
            return None
        found = axis, index.start, index.stop
    return found


def tensor_behind(bound: Any) -> Any:
    """The tensor that a bound of a slice was made of."""
    owner = getattr(bound, "owner", None)
    if owner is not None and isinstance(owner.op, ScalarFromTensor):
        return owner.inputs[0]
    return bound


def normalised(bound: Any, length: Any) -> Any:
    """A bound as Python's slices take it: from the end where negative, and clipped."""
    value = pt.as_tensor(bound)
    return pt.clip(pt.switch(value < 0, value + length, value), 0, length)


def length_of(fgraph: Any, array: Any, axis: int) -> Any:
    """The length of an array of a graph, traced back to the inputs where PyTensor can."""
    shapes = getattr(fgraph, "shape_feature", None)
    if shapes is not None and array in fgraph.variables:
        return shapes.get_shape(array, axis)
    return Shape_i(axis)(array)


def is_one(step: Any) -> bool:
    """Whether the step of a slice is 1."""
    return step is None or getattr(step, "data", step) == 1
