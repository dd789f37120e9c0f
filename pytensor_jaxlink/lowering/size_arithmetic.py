"""Which nodes are size arithmetic, and which Ops take open sizes?"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import ScalarType, convert_to_int8
from pytensor.scan.op import Scan
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    ARange,
    Eye,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from pytensor.tensor.type import lscalar

from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.ops import Branch, WhileLoop
from pytensor_jaxlink.size_functions import UFUNCS

TAKES_OPEN_SIZES = (
    Alloc,
    AllocEmpty,
    ARange,
    Branch,
    Eye,
    IncSubtensor,
    Reshape,
    Scan,
    Split,
    Subtensor,
    WhileLoop,
)
"""The Ops that may be given sizes that are open; other rules may compare them."""


def describe_size(node: Apply) -> list[Any] | None:  # noqa: C901, PLR0911 -- one case for each Op
    """The description of a node for `pytensor_jaxlink.size_functions.size_function`, or None."""
    op = node.op
    match op:
        case Shape():
            return ["shape", None]
        case Shape_i():
            return ["shape", int(op.i)]
        case _ if not all(_is_number(variable.type) for variable in node.inputs):
            return None
        case _ if any(_is_complex(variable.type) for variable in node.outputs):
            return None
        case Elemwise() if type(op.scalar_op).__name__ in UFUNCS:
            return _elementwise(node)
        case MakeVector():
            return ["vector", _dtype(node)]
        case ScalarFromTensor() | TensorFromScalar():
            return ["same", _dtype(node)]
        case Join():
            return ["join"] if hasattr(op, "axis") else ["join", 1]  # an input before PyTensor 3.1
        case CAReduce() if type(op.scalar_op).__name__ in ("Add", "Mul") and op.axis is None:
            return ["reduce", type(op.scalar_op).__name__, _dtype(node)]
        case DimShuffle():
            return ["dim_shuffle", list(op.new_order)]
        case Subtensor() if all(isinstance(each, slice | int) for each in op.idx_list):
            return ["take", list(map(_entry, op.idx_list))]
    return None


def passes_open_sizes(node: Apply) -> bool:
    """Return True if the function of a folded node may be given open sizes; it may refuse them."""
    return isinstance(node.op, CheckAndRaise) or describe_size(node) is not None


def _is_number(kind: Any) -> bool:
    """Return True if values of a type are sizes: integers, or real numbers that give one."""
    if getattr(kind, "ndim", 2) > 1:
        return False
    dtype = np.dtype(kind.dtype)
    return dtype.kind in "biu" or (dtype.kind == "f" and kind.ndim == 0)


def _is_complex(kind: Any) -> bool:
    # The "dtype" of a list is the type of its entries.
    return isinstance(kind, ArrayType | ScalarType) and kind.dtype.startswith("complex")


def _elementwise(node: Apply) -> list[Any]:
    same = [
        position
        for position, variable in enumerate(node.inputs)
        if getattr(variable.type, "broadcastable", ()) == (False,)
    ]
    name = type(node.op.scalar_op).__name__
    described = ["elementwise", name, _dtype(node), same if len(same) > 1 else []]
    return [
        *described,
        (name == "Cast" or (name == "Add" and len(node.inputs) > 2)) and _in_python(),
    ]


@cache
def _in_python() -> bool:
    """Return True if PyTensor adds Python's numbers; later versions leave it to NumPy."""
    node = Elemwise(convert_to_int8).make_node(lscalar())
    node.op.prepare_node(node, None, None, "py")
    try:
        node.op.perform(node, [np.asarray(300)], [[None]])
    except OverflowError:
        return True
    return False


def _dtype(node: Apply) -> str:
    return np.dtype(node.outputs[0].type.dtype).str


def _entry(part: object) -> object:
    if isinstance(part, slice):
        return {"slice": [_entry(each) for each in (part.start, part.stop, part.step)]}
    return None if part is None else {"input": part}
