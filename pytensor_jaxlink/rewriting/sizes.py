"""Sizes computed from data that are not needed as sizes.

Pattern and replacement::

    arange(k).sum()                               k * (k - 1) // 2
    arange(k)[i]                                  i, checked
    alloc(v, k).sum(), eye(k).sum()               switch(k, v * k, 0), k
    eye(k)[i], eye(k)[i, j]                       eq(arange(k), i), eq(i, j), checked
    join(0, alloc(v, k), alloc(w, n - k))         where(arange(n) < k, v, w), checked
    exp(join(0, alloc(v, k), x)).sum()            switch(k, exp(v) * k, 0) + exp(x).sum(), checked

They fire only where the size is known no earlier than data, except for a row of a unit matrix,
which saves the matrix whatever its size.  *Checked* means that what raises in PyTensor raises here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, ARange, Eye, Join
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import Max, Min
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import integer_dtypes

from pytensor_jaxlink.analysis import input_binding_times
from pytensor_jaxlink.analysis.polynomials import Polynomials
from pytensor_jaxlink.graph import GraphView, axis_and_parts, indices_of
from pytensor_jaxlink.rewriting.bounds import in_range, integers_of, is_countable, parts_of_range
from pytensor_jaxlink.rewriting.buffers import not_negative
from pytensor_jaxlink.rewriting.notes import late_values, note

NAME = "jaxlink_sizes"

CONCERNED = (Alloc, ARange, Eye, Join)
"""The Ops whose sizes become arithmetic."""

Late = set[Any]
"""The variables that are known only when a region has run."""


def rewrite_sizes(fgraph: FunctionGraph, changing: Collection[int] = ()) -> None:
    """Rewrite in place; the inputs at ``changing`` are computed from data whatever their type."""
    view = GraphView.of(fgraph)
    late = late_values(view, input_binding_times(view, changing))
    for node in view.nodes:
        if node not in fgraph.apply_nodes:
            continue
        found = _closed_form(node, late)
        if found is None:
            continue
        copy_stack_trace(node.outputs[0], found.value)
        if found.source is not None:
            note(fgraph, view, found.source, NAME, "a computed size became arithmetic on its value")
        fgraph.replace_all([(node.outputs[0], found.value)], import_missing=True, reason=NAME)


@dataclass(frozen=True)
class _Found:
    """The replacement of a node's output, and the node whose break it removes, or None."""

    value: Any
    source: Apply | None


def _closed_form(node: Apply, late: Late) -> _Found | None:
    match node.op:
        case CAReduce():
            return _reduced(node, late)
        case Subtensor() | AdvancedSubtensor():
            return _indexed(node, late)
        case _ if type(node.op).__name__ == "AdvancedSubtensor1":
            return _indexed(node, late)
        case Join():
            return _joined(node, late)
        case _:
            return None


# -- reductions ------------------------------------------------------------------------------------


def _reduced(node: Apply, late: Late) -> _Found | None:
    """A reduction over all dimensions of a range, a unit matrix, or something with equal parts."""
    if node.op.axis is not None and len(node.op.axis) != node.inputs[0].type.ndim:
        return None
    source = node.inputs[0].owner
    if source is None:
        return None
    adds = isinstance(node.op.scalar_op, scalar.Add)
    if isinstance(source.op, ARange) and not late.isdisjoint(source.inputs):
        value = _reduced_range(node, source)
    elif isinstance(source.op, Eye) and not late.isdisjoint(source.inputs):
        value = _trace(source) if adds else None
    elif isinstance(source.op, Alloc) and not late.isdisjoint(source.inputs[1:]):
        value = _sum_of_equal(*source.inputs, dtype=node.op.acc_dtype) if adds else None
    else:
        value, source = _sum_of_parts(node, late)
    if value is None:
        return None
    computed = value.astype(node.op.acc_dtype) if adds else value
    return _Found(computed.astype(node.outputs[0].type.dtype), source)


def _reduced_range(node: Apply, source: Apply) -> Any:
    if not is_countable(source) or not _holds_its_entries(source):
        return None
    start, step, count = parts_of_range(source)
    last = start + (count - 1) * step
    if isinstance(node.op.scalar_op, scalar.Add):
        return count * start + step * (count * (count - 1) // 2)
    name = {Max: "maximum", Min: "minimum"}.get(type(node.op))
    if name is None:
        return None
    value = pt.maximum(start, last) if name == "maximum" else pt.minimum(start, last)
    message = f"zero-size array to reduction operation {name} which has no identity"
    return CheckAndRaise(ValueError, message)(value, pt.gt(count, 0))


def _holds_its_entries(source: Apply) -> bool:
    """Return True if no entry of a range wraps around: each lies between the bounds."""
    kind = source.outputs[0].type.dtype
    return all(
        _holds(kind, int(bound.data))
        if isinstance(bound, Constant)
        else np.can_cast(bound.type.dtype, kind)
        for bound in source.inputs[:2]
    )


def _begins(source: Apply) -> bool:
    """Return True if the first two entries of a range fit its dtype; NumPy wraps the others."""
    kind, (start, _, step) = source.outputs[0].type.dtype, source.inputs
    if not isinstance(start, Constant):
        return False
    return _holds(kind, int(start.data)) and _holds(kind, int(start.data) + int(step.data))


def _holds(dtype: str, number: int) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= number <= int(limits.max)


def _trace(source: Apply) -> Any:
    rows, columns, diagonal = integers_of(source)
    first: Any = pt.maximum(-diagonal, 0)
    ones: Any = pt.maximum(pt.minimum(rows, columns - diagonal) - first, 0)
    return not_negative(ones, rows, columns)


def _sum_of_equal(value: object, *sizes: object, dtype: str) -> Any:
    """The sum of equal entries, computed in a dtype; of none it is 0, also if they were NaN."""
    if not all(value.type.broadcastable):
        return None
    count = pt.prod(pt.stack([size.astype("int64") for size in sizes]))
    total = _scalar(value).astype(dtype) * count.astype(dtype)
    if np.dtype(dtype).kind == "c":  # of a complex number and a real one: infinity times 0 is NaN
        one, times = _scalar(value).astype(dtype), count.astype("float64")
        total = pt.complex(pt.real(one) * times, pt.imag(one) * times).astype(dtype)
    return not_negative(pt.switch(pt.eq(count, 0), np.zeros((), dtype), total), *sizes)


def _sum_of_parts(node: Apply, late: Late) -> tuple[Any, Any]:
    """The sum of vectors joined, of which some are late and have equal entries; and one of them."""
    parts = _parts(node.inputs[0]) if isinstance(node.op.scalar_op, scalar.Add) else []
    sizes = [size for _, size in parts if size is not None and size in late]
    if not sizes:
        return None, None
    kind = node.op.acc_dtype
    sums: list[Any] = [
        pt.sum(value, dtype=kind, acc_dtype=kind)
        if size is None
        else _sum_of_equal(value, size, dtype=kind)
        for value, size in parts
    ]
    return sum(sums[1:], start=sums[0]), sizes[0].owner


def _parts(variable: object) -> list[tuple[Any, Any]]:
    """The parts that a vector was joined from, after elementwise operations; equal entries counted.

    Empty for other arrays.
    """
    owner = variable.owner
    if owner is None:
        return []
    if isinstance(owner.op, Join) and variable.type.ndim == 1:
        return [_part(array, variable.type.dtype) for array in axis_and_parts(owner)[1]]
    if not isinstance(owner.op, Elemwise) or len(owner.outputs) > 1:
        return []
    long = [place for place, v in enumerate(owner.inputs) if not all(v.type.broadcastable)]
    if len(long) != 1:
        return []

    def applied(array: object) -> Any:
        return owner.op(*(array if i == long[0] else v for i, v in enumerate(owner.inputs)))

    return [(applied(array), size) for array, size in _parts(owner.inputs[long[0]])]


def _part(array: object, dtype: str) -> tuple[Any, Any]:
    """An array that is joined with others, in the dtype of them all."""
    owner = array.owner
    if owner is None or not isinstance(owner.op, Alloc) or not all(owner.inputs[0].broadcastable):
        return array.astype(dtype), None
    return _scalar(owner.inputs[0]).dimshuffle("x").astype(dtype), owner.inputs[1]


# -- indexing --------------------------------------------------------------------------------------


def _indexed(node: Apply, late: Late) -> _Found | None:
    """Entries of a range, rows or entries of a unit matrix."""
    source = node.inputs[0].owner
    indices = indices_of(node)
    if source is None or not indices or any(isinstance(index, slice) for index in indices):
        return None
    indices = [pt.as_tensor(index) for index in indices]
    if any(index.type.dtype not in integer_dtypes for index in indices):
        return None
    kind = node.outputs[0].type.dtype
    is_late = not late.isdisjoint(source.inputs)
    if isinstance(source.op, ARange) and is_late and is_countable(source):
        if not (_holds_its_entries(source) or _begins(source)):
            return None
        start, step, count = parts_of_range(source)
        place = in_range(indices[0], count)
        return _Found((start + place * step).astype(kind), source)
    if isinstance(source.op, Eye) and sum(index.type.ndim > 0 for index in indices) < 2:
        # Two arrays of indices are stretched to one another, by NumPy's rules and not PyTensor's.
        rows, columns, diagonal = integers_of(source)
        rows, columns = not_negative(rows), not_negative(columns)
        place = in_range(indices[0], rows) + diagonal
        other = pt.arange(columns) if len(indices) == 1 else in_range(indices[1], columns)
        if len(indices) == 1:
            place = place.dimshuffle([*range(place.type.ndim), "x"])
        return _Found(
            pt.eq(place, other).astype(kind), source if len(indices) > 1 and is_late else None
        )
    return None


# -- joining ---------------------------------------------------------------------------------------


def _joined(node: Apply, late: Late) -> _Found | None:
    """Constant stretches laid end to end, of lengths whose sum is known earlier."""
    axis, parts = axis_and_parts(node)
    owners = [part.owner for part in parts]
    if axis is None or node.outputs[0].type.ndim != 1:
        return None
    if not all(owner is not None and isinstance(owner.op, Alloc) for owner in owners):
        return None
    lengths = [owner.inputs[1] for owner in owners]
    values = [owner.inputs[0].astype(node.outputs[0].type.dtype) for owner in owners]
    if not all(all(value.type.broadcastable) for value in values):
        return None
    terms = Polynomials()
    total = terms.sum([terms.of(length) for length in lengths])
    if late & terms.atoms_of(total) or late.isdisjoint(lengths):
        return None
    place = pt.arange(terms.expression(total))
    end = pt.constant(0, dtype="int64")
    result = _scalar(values[-1])
    ends = []
    for length in lengths[:-1]:
        end = end + length.astype("int64")
        ends.append(end)
    for value, stop in reversed(list(zip(values[:-1], ends, strict=True))):
        result = pt.switch(place < stop, _scalar(value), result)
    result = not_negative(result, *lengths)
    source = next(o for o, length in zip(owners, lengths, strict=True) if length in late)
    return _Found(result, source)


def _scalar(value: object) -> Any:
    return value.dimshuffle([])
