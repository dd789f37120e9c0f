"""An upper bound of the entries that a node computes, known before a region has run.

The length of ``bincount(labels)`` is the largest label and one more.  Labels are the places of the
least distances, remainders, or clipped numbers, so the length of what they are places in is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, singledispatch
from typing import Any, Protocol

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import SearchsortedOp, Unique
from pytensor.tensor.math import Argmax
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.shape import Reshape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pytensor_jaxlink.analysis import is_a_count
from pytensor_jaxlink.rewriting.selections import Tensor


class Early(Protocol):
    """The bounds of what a node reads."""

    def bound(self, entries: Tensor) -> Tensor:
        """An upper bound of integers, for each or for all, or None."""
        ...

    def length(self, array: Tensor, axis: int) -> Tensor:
        """An upper bound of the length of an array, or None."""
        ...


@singledispatch
def bound_from(op: object, node: Apply, output: Tensor, early: Early) -> Tensor:
    """An upper bound of the entries of an output of a node, for each or for all, or None."""
    return None


@bound_from.register(DimShuffle)
@bound_from.register(Reshape)
@bound_from.register(Subtensor)
@bound_from.register(AdvancedSubtensor)
@bound_from.register(SortOp)
def _of_moved(op: object, node: Apply, output: Tensor, early: Early) -> Tensor:
    return _greatest([early.bound(node.inputs[0])])


@bound_from.register(Join)
@bound_from.register(MakeVector)
def _of_joined(op: object, node: Apply, output: Tensor, early: Early) -> Tensor:
    joined = node.inputs if isinstance(op, MakeVector) else [v for v in node.inputs if v.type.ndim]
    return _greatest([early.bound(each) for each in joined])


@bound_from.register
def _of_greatest(op: CAReduce, node: Apply, output: Tensor, early: Early) -> Tensor:
    largest = isinstance(op.scalar_op, scalar.Maximum)
    return _greatest([early.bound(node.inputs[0])]) if largest else None


# -- places ----------------------------------------------------------------------------------------


@bound_from.register
def _of_place(op: Argmax, node: Apply, output: Tensor, early: Early) -> Tensor:
    array = node.inputs[0]
    axes: Sequence[int] = range(array.type.ndim) if op.axis is None else op.axis
    return _below(_product([early.length(array, axis) for axis in axes]))


@bound_from.register(ArgSortOp)
@bound_from.register(SearchsortedOp)
def _of_order(op: object, node: Apply, output: Tensor, early: Early) -> Tensor:
    array = node.inputs[0]
    length = _product([early.length(array, axis) for axis in range(array.type.ndim)])
    return length if isinstance(op, SearchsortedOp) else _below(length)


@bound_from.register
def _of_distinct(op: Unique, node: Apply, output: Tensor, early: Early) -> Tensor:
    """Entries, and places or counts of them."""
    [array] = node.inputs
    if output is node.outputs[0]:
        return _greatest([early.bound(array)])
    return _product([early.length(array, axis) for axis in range(array.type.ndim)])


@bound_from.register
def _of_category(op: CategoricalRV, node: Apply, output: Tensor, early: Early) -> Tensor:
    chances = node.inputs[2]
    return _below(early.length(chances, chances.type.ndim - 1))


# -- arithmetic ------------------------------------------------------------------------------------


@bound_from.register
def _of_each(op: Elemwise, node: Apply, output: Tensor, early: Early) -> Tensor:
    rule = _RULES.get(type(op.scalar_op))
    return rule(node.inputs, [early.bound(each) for each in node.inputs]) if rule else None


def _of_least(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
    known = [bound for bound in bounds if bound is not None]
    return reduce(pt.minimum, known) if known else None


def _of_quotient(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
    divisor = getattr(inputs[1], "data", 0)
    return bounds[0] if divisor >= 1 else None


def _of_remainder(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
    return None if bounds[1] is None else pt.maximum(bounds[1] - 1, 0)


def _of_difference(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
    """A count that is taken away from a number leaves at most that."""
    return bounds[0] if is_a_count(inputs[1]) else None


def _of_product(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
    return _product(bounds) if all(map(is_a_count, inputs)) else None


def _all_of(combine: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def rule(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
        return None if any(bound is None for bound in bounds) else reduce(combine, bounds)

    return rule


_larger = _all_of(pt.maximum)


def _of_clipped(inputs: Sequence[Tensor], bounds: Sequence[Tensor]) -> Tensor:
    value, low, high = bounds
    return _larger(inputs, [low, _of_least(inputs, [value, high])])


_RULES: dict[type, Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]] = {
    scalar.Add: _all_of(pt.add),
    scalar.Cast: _larger,
    scalar.Clip: _of_clipped,
    scalar.IntDiv: _of_quotient,
    scalar.Maximum: _larger,
    scalar.Minimum: _of_least,
    scalar.Mod: _of_remainder,
    scalar.Mul: _of_product,
    scalar.Sub: _of_difference,
}


def _greatest(bounds: Sequence[Tensor]) -> Tensor:
    """One bound for all entries."""
    if any(bound is None for bound in bounds):
        return None
    return reduce(pt.maximum, [pt.max(bound) for bound in bounds])


def _product(lengths: Sequence[Tensor]) -> Tensor:
    if any(length is None for length in lengths):
        return None
    return reduce(pt.mul, lengths, pt.constant(1, dtype="int64"))


def _below(count: Tensor) -> Tensor:
    return None if count is None else count - 1
