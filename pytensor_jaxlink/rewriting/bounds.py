"""The bounds of slices, ranges and shapes, as tensors and as Python takes them."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import MakeVector
from pytensor.tensor.type import integer_dtypes

_LARGEST = 2**62
"""More than any array has entries; one more can be added to it."""


def normalised(bound: Any, length: object) -> Any:
    """A bound as Python's slices take it: from the end where negative, and clipped."""
    value = as_int64(pt.as_tensor(bound))
    return pt.clip(pt.switch(value < 0, value + length, value), 0, length)


def as_int64(bound: Any) -> Any:
    """A bound or an index as a 64-bit integer; unsigned ones beyond any array stay beyond it."""
    if bound.type.dtype == "uint64":
        bound = pt.minimum(bound, pt.constant(_LARGEST, dtype="uint64"))
    return bound.astype("int64")


def is_one(step: object) -> bool:
    """Return True if the step of a slice is 1."""
    return step is None or getattr(step, "data", step) == 1


def is_countable(node: Apply) -> bool:
    """Return True if an `ARange` is one of integers, with a step that is a literal."""
    step = node.inputs[2]
    return (
        isinstance(step, Constant)
        and int(step.data) != 0
        and all(v.type.dtype in integer_dtypes for v in (*node.inputs, *node.outputs))
    )


def parts_of_range(node: Apply) -> tuple[Any, Any, Any]:
    """Start, step and number of entries of an `ARange` of integers."""
    start, stop, step = integers_of(node)
    count = pt.maximum(-((start - stop) // step), 0)  # rounded up
    return start, step, count


def integers_of(node: Apply) -> list[Any]:
    """The inputs of a node as 64-bit integers."""
    return [pt.as_tensor(v).astype("int64") for v in node.inputs]


def entries_of_shape(shape: object) -> list[Any]:
    """The entries of a vector of integers, where it was put together from them, or none."""
    if isinstance(shape, Constant):
        return [pt.constant(entry, dtype="int64") for entry in shape.data]
    op = getattr(shape.owner, "op", None)
    return list(shape.owner.inputs) if isinstance(op, MakeVector) else []


def in_range(index: Any, count: Any) -> Any:
    """An index counted from the start; `IndexError` where there is no such entry.

    NumPy reads an array of uint64 as int64, so that its large entries count from the end; a number
    stays beyond the array.
    """
    index = index.astype("int64") if index.type.ndim else as_int64(index)
    holds = pt.all((index >= -count) & (index < count))
    index = CheckAndRaise(IndexError, "index out of bounds")(index, holds)
    return pt.switch(index < 0, index + count, index)
