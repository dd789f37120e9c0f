"""Where NumPy gives another type than an Op declares, and others compute with that.

A running sum declares the type of its array.  `numpy.cumsum` adds booleans and integers of less
than 64 bits in 64, and gives these: ``cumsum(x > 0)`` counts.  So do SciPy's sums.  Parts of the
result have its type too; an elementwise operation converts to the type that it declares.
"""

from __future__ import annotations

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.sparse.math import SpSum
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape

from pytensor_jaxlink.graph import GraphType
from pytensor_jaxlink.ops.contraction import Contraction
from pytensor_jaxlink.ops.dynamic_slice_ops import DynamicSlice

# PyTensor before 3.1 has separate Ops for one vector of integers on the first axis.
_BY_PLACES = ("AdvancedSubtensor1", "AdvancedIncSubtensor1")
_PASSING: tuple[type[Op], ...] = (
    Alloc,
    DimShuffle,
    DynamicSlice,
    Repeat,
    Reshape,
    SpecifyShape,
    ViewOp,
    subtensor.AdvancedIncSubtensor,
    subtensor.AdvancedSubtensor,
    subtensor.IncSubtensor,
    subtensor.Subtensor,
    *(getattr(subtensor, name) for name in _BY_PLACES if hasattr(subtensor, name)),
)
"""Ops whose results have the type of their first input."""


def running_dtype(dtype: str) -> str:
    """The type of a running sum or product of entries of a type."""
    return str(np.cumsum(np.empty(0, dtype)).dtype)


def held_type(variable: Variable) -> GraphType:
    """The type of the value of a variable."""
    dtype = held_dtype(variable)
    return variable.type if dtype is None else variable.type.clone(dtype=dtype)


def held_dtype(variable: Variable) -> str | None:
    """The dtype of a value where it is not the declared one, or None."""
    while (node := variable.owner) is not None:
        if isinstance(node.op, CumOp | SpSum):
            declared = variable.type.dtype
            dtype = running_dtype(declared)
            return dtype if dtype != declared else None
        if isinstance(node.op, Contraction | Dot):
            kinds = [held_dtype(operand) or operand.type.dtype for operand in node.inputs]
            dtype = str(np.result_type(*kinds))
            return dtype if dtype != variable.type.dtype else None
        if not isinstance(node.op, _PASSING):
            return None
        variable = node.inputs[0]
    return None
