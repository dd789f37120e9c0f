"""Host steps for a file: size arithmetic without PyTensor, other Ops as graphs of one node."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.artifact.compiled.sizes import UFUNCS
from pytensor_jaxlink.artifact.graph.inner import InnerGraph
from pytensor_jaxlink.artifact.graph.writer import GraphWriter

_INTEGERS = "biu"


def describe_size(node: Apply) -> Any:  # noqa: C901, PLR0911 -- one case for each Op
    """What `pytensor_jaxlink.artifact.compiled.sizes` makes the node's function of, or None."""
    op: Any = node.op
    match op:
        case Shape():
            return ["shape", None]
        case Shape_i():
            return ["shape", int(op.i)]
        case _ if not all(_is_number(variable.type) for variable in node.inputs):
            return None
        case Elemwise() if type(op.scalar_op).__name__ in UFUNCS:
            return ["elementwise", type(op.scalar_op).__name__, _dtype(node)]
        case MakeVector():
            return ["vector", _dtype(node)]
        case ScalarFromTensor() | TensorFromScalar():
            return ["same", _dtype(node)]
        case Join() if hasattr(op, "axis"):
            return ["join"]
        case CAReduce() if type(op.scalar_op).__name__ in ("Add", "Mul") and op.axis is None:
            return ["reduce", type(op.scalar_op).__name__, _dtype(node)]
        case DimShuffle():
            return ["dim_shuffle", list(op.new_order)]
        case Subtensor():
            return ["take", _entries(op)]
    return None


def _is_number(kind: Any) -> bool:
    """Whether values of a type are sizes: integers, or floats that a size is computed from."""
    return getattr(kind, "ndim", 2) <= 1 and np.dtype(kind.dtype).kind in f"{_INTEGERS}f"


def _dtype(node: Apply) -> str:
    return np.dtype(node.outputs[0].type.dtype).str


def _entries(op: Any) -> Any:
    def entry(part: Any) -> Any:
        if isinstance(part, slice):
            return {"slice": [entry(each) for each in (part.start, part.stop, part.step)]}
        return None if part is None else {"input": part}

    if all(isinstance(each, slice) or type(each) is int for each in op.idx_list):
        return [entry(each) for each in op.idx_list]
    return None


def describe_op(node: Apply, writer: GraphWriter) -> int:
    """The place of a graph that holds the node alone, its inputs all variables."""
    inputs = [variable.type() for variable in node.inputs]
    outputs = [variable.type() for variable in node.outputs]
    alone = Apply(node.op, inputs, outputs)
    return writer.value(InnerGraph(inputs, outputs, [alone]))["part"]
