"""Between which numbers the entries of an array of integers lie, whatever the inputs are.

``x[clip(k, 0, 2)]`` needs no look at the index where ``x`` has three entries.  PyMC writes the log
density of a categorical variable like that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, singledispatch
from itertools import product
from math import inf, prod
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import (
    Alloc,
    ARange,
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Argmax
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pytensor_jaxlink.graph import (
    GraphNode,
    GraphVariable,
    entries_of,
    inputs_of,
    lengths_of,
    ndim_of,
)

DEPTH = 6
"""Nodes between an array and what it is computed from, beyond which nobody looks."""


_LONGEST = 2**63 - 1
"""Of an array; types of fewer bits hold less, which `range_of` looks at."""


class Range(NamedTuple):
    """The numbers from ``least`` to ``most``."""

    least: int
    most: int


def range_of(array: GraphVariable, depth: int = DEPTH) -> Range | None:
    """The range of the entries of an array of integers; None for other types.

    It costs a walk over the nodes that compute the array.
    """
    dtype = np.dtype(getattr(array.type, "dtype", None) or "float64")
    if dtype.kind not in "iub":
        return None
    full = Range(0, 1) if dtype.kind == "b" else Range(*_limits(dtype))
    if isinstance(array, Constant):
        entries = entries_of(array)
        return Range(int(entries.min()), int(entries.max())) if entries.size else full
    node: GraphNode | None = array.owner
    found = None if node is None or depth == 0 else range_from(node.op, node, depth - 1)
    # An integer that its type does not hold is wrapped.
    return found if found and found.least >= full.least and found.most <= full.most else full


def is_a_count(integers: GraphVariable) -> bool:
    """Return True if no entry can be negative, as far as the graph says."""
    between = range_of(integers)
    return between is not None and between.least >= 0


def _limits(dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


@singledispatch
def range_from(op: Op, node: GraphNode, depth: int) -> Range | None:
    """The range of the entries that a node computes, of any size; None where nothing is known."""
    return None


# -- Ops that move entries -------------------------------------------------------------------------


MOVING: tuple[type[Op], ...] = (
    AdvancedSubtensor,
    Alloc,
    DimShuffle,
    Reshape,
    ScalarFromTensor,
    SortOp,
    SpecifyShape,
    Subtensor,
    TensorFromScalar,
)
"""Ops whose results have no other entries than their first input."""


def _moved(op: Op, node: GraphNode, depth: int) -> Range | None:
    return range_of(inputs_of(node)[0], depth)


for _kind in MOVING:
    range_from.register(_kind, _moved)


@range_from.register(Shape)
@range_from.register(Shape_i)
def _length(op: Op, node: GraphNode, depth: int) -> Range | None:
    return Range(0, _LONGEST)


@range_from.register
def _joined(op: Join, node: GraphNode, depth: int) -> Range | None:
    # Before PyTensor 3.1 the axis is an input too.
    return _hull([range_of(array, depth) for array in inputs_of(node) if ndim_of(array)])


@range_from.register
def _made(op: MakeVector, node: GraphNode, depth: int) -> Range | None:
    return _hull([range_of(entry, depth) for entry in inputs_of(node)])


def _hull(ranges: Sequence[Range | None]) -> Range | None:
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges):
        return None
    return Range(min(each.least for each in known), max(each.most for each in known))


# -- places ----------------------------------------------------------------------------------------


@range_from.register
def _counted(op: ARange, node: GraphNode, depth: int) -> Range | None:
    ranges = [range_of(bound, depth) for bound in inputs_of(node)]
    if None in ranges:
        return None
    start, stop, step = (each for each in ranges if each is not None)
    if step.least > 0:
        return Range(start.least, max(start.most, stop.most - 1))
    return Range(min(start.least, stop.least + 1), start.most) if step.most < 0 else None


@range_from.register
def _place_of_largest(op: Argmax, node: GraphNode, depth: int) -> Range | None:
    lengths = _lengths(inputs_of(node)[0])
    axes: Sequence[int] | None = getattr(op, "axis", None)
    return _below(prod(lengths if axes is None else [lengths[axis] for axis in axes]))


@range_from.register
def _order(op: ArgSortOp, node: GraphNode, depth: int) -> Range | None:
    return _below(max(_lengths(inputs_of(node)[0]), default=1))  # whichever axis it is


@range_from.register
def _category(op: CategoricalRV, node: GraphNode, depth: int) -> Range | None:
    return _below(_lengths(inputs_of(node)[2])[-1])  # after the generator and the size


def _below(count: float) -> Range:
    return Range(0, _LONGEST if count == inf else max(int(count) - 1, 0))


def _lengths(array: GraphVariable) -> list[float]:
    """The lengths of an array; those that its type does not say are infinite."""
    return [inf if length is None else length for length in lengths_of(array)]


# -- arithmetic ------------------------------------------------------------------------------------


@range_from.register
def _each(op: Elemwise, node: GraphNode, depth: int) -> Range | None:
    compute = next((f for kind, f in _ARITHMETIC.items() if isinstance(op.scalar_op, kind)), None)
    if compute is None:
        return None
    ranges = [range_of(array, depth) for array in inputs_of(node)]
    known = [each for each in ranges if each is not None]
    return compute(*known) if len(known) == len(ranges) else None


def _least(*values: Range) -> Range:
    return Range(min(each.least for each in values), min(each.most for each in values))


def _greatest(*values: Range) -> Range:
    return Range(max(each.least for each in values), max(each.most for each in values))


def _clipped(value: Range, low: Range, high: Range) -> Range | None:
    """Bounds in the wrong order are what `clip` gives."""
    return _hull([low, high]) if low.most > high.least else _least(_greatest(value, low), high)


def _chosen(condition: Range, one: Range, other: Range) -> Range | None:
    return _hull([one, other])


def _remainder(value: Range, divisor: Range) -> Range | None:
    return Range(0, divisor.most - 1) if divisor.least > 0 else None


def _sum(*terms: Range) -> Range:
    return Range(sum(each.least for each in terms), sum(each.most for each in terms))


def _negative(value: Range) -> Range:
    return Range(-value.most, -value.least)


def _difference(one: Range, other: Range) -> Range:
    return _sum(one, _negative(other))


def _product(*factors: Range) -> Range:
    return reduce(_product_of_two, factors)


def _product_of_two(one: Range, other: Range) -> Range:
    ends = [left * right for left, right in product(one, other)]
    return Range(min(ends), max(ends))


def _same(value: Range) -> Range:
    return value


_ARITHMETIC: dict[type, Callable[..., Range | None]] = {
    scalar.Clip: _clipped,
    scalar.Switch: _chosen,
    scalar.Mod: _remainder,
    scalar.Minimum: _least,
    scalar.Maximum: _greatest,
    scalar.Add: _sum,
    scalar.Sub: _difference,
    scalar.Mul: _product,
    scalar.Neg: _negative,
    scalar.Cast: _same,
    scalar.Identity: _same,
}
"""By scalar Op, in the integers; `range_of` looks at what their types cannot hold."""
