"""Where NumPy gives another type than an Op declares, and others compute with that.

A running sum declares the type of its array.  `numpy.cumsum` adds booleans and integers of less
than 64 bits in 64, and gives these: ``cumsum(x > 0)`` counts.  So do SciPy's sums.  Parts of the
result have its type too, and calls return them; an elementwise operation converts to the type that
it declares, and so does a shared variable.
"""

from __future__ import annotations

import numpy as np
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.sparse.math import SpSum
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Alloc, ExtractDiag, Split
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.extra_ops import CumOp, FillDiagonal, FillDiagonalOffset, Repeat
from pytensor.tensor.linalg.decomposition.lu import LUFactor
from pytensor.tensor.linalg.inverse import TensorInv
from pytensor.tensor.linalg.solvers.linear_control import TRSYL
from pytensor.tensor.linalg.solvers.lstsq import TensorSolve
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.sort import SortOp
from pytensor.tensor.type import discrete_dtypes

from pytensor_jaxlink.graph import GraphType
from pytensor_jaxlink.ops.contraction import Contraction
from pytensor_jaxlink.ops.dynamic_slice_ops import DynamicSlice

# PyTensor before 3.1 has separate Ops for one vector of integers on the first axis.
_BY_PLACES = ("AdvancedSubtensor1", "AdvancedIncSubtensor1")
_PASSING: tuple[type[Op], ...] = (
    Alloc,
    DeepCopyOp,
    DimShuffle,
    DynamicSlice,
    ExtractDiag,
    FillDiagonal,
    FillDiagonalOffset,
    Repeat,
    Reshape,
    SortOp,
    SpecifyShape,
    Split,
    ViewOp,
    subtensor.AdvancedIncSubtensor,
    subtensor.AdvancedSubtensor,
    subtensor.IncSubtensor,
    subtensor.Subtensor,
    *(getattr(subtensor, name) for name in _BY_PLACES if hasattr(subtensor, name)),
)
"""Ops whose results have the type of their first input."""
_RUNNING = (CumOp, SpSum)
_PRODUCTS: tuple[type[Op], ...] = (Contraction, Dot)
"""Ops whose results have the common type of their inputs."""
_REAL: dict[type[Op], str] = {
    LUFactor: "float32",
    TRSYL: "float32",
    TensorInv: "float64",
    TensorSolve: "float64",
}
"""Ops whose first result is real though declared an integer, and its narrowest type."""
_WIDEST = ("float64", "complex128")


def running_dtype(dtype: str) -> str:
    """The type of a running sum or product of entries of a type."""
    return str(np.cumsum(np.empty(0, dtype)).dtype)


def held_type(variable: Variable) -> GraphType:
    """The type of the value of a variable."""
    dtype = held_dtype(variable)
    return variable.type if dtype is None else variable.type.clone(dtype=dtype)


def result_type(variable: Variable, *, stored: bool) -> GraphType:
    """The type of a result of a call.

    That of a shared variable is the declared one, but real for what is real.
    """
    held, declared = held_type(variable), variable.type
    of_integers = [getattr(kind, "dtype", "") in discrete_dtypes for kind in (held, declared)]
    return held if not stored or of_integers == [False, True] else declared


def held_dtype(variable: Variable) -> str | None:
    """The dtype of a value where it is not the declared one, or None.

    Cost: a walk over products and parts; none where the declared type is the widest.
    """
    if getattr(variable.type, "dtype", None) in _WIDEST:
        return None
    found: dict[Variable, str] = {}
    stack = [variable]
    while stack:
        missing = [each for each in _sources(stack[-1]) if each not in found]
        if missing:
            stack += missing
        else:
            each = stack.pop()
            found[each] = _dtype_from([found[source] for source in _sources(each)], each)
    dtype = found[variable]
    return dtype if dtype != getattr(variable.type, "dtype", dtype) else None


def _sources(variable: Variable) -> list[Variable]:
    """The inputs that give a value its type."""
    node = variable.owner
    if node is None or not isinstance(node.op, (*_PASSING, *_RUNNING, *_PRODUCTS)):
        return []
    return node.inputs if isinstance(node.op, _PRODUCTS) else node.inputs[:1]


def _dtype_from(sources: list[str], variable: Variable) -> str:
    node = variable.owner
    if sources:
        dtype = str(np.result_type(*sources)) if len(sources) > 1 else sources[0]
        return running_dtype(dtype) if isinstance(node.op, _RUNNING) else dtype
    declared = getattr(variable.type, "dtype", "")
    if node is None or variable is not node.outputs[0] or declared not in discrete_dtypes:
        return declared
    least = _REAL.get(type(getattr(node.op, "core_op", node.op)))
    return declared if least is None else str(np.result_type(declared, least))
