"""How a selection passes through an operation, one rule for each Op that can take one.

A rule says what the outputs of a node become whose inputs are selections: selections again, values
(of a reduction, a length, a scatter), or None where the node needs the selection itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, ARange
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Max, Min
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import IncSubtensor

from pytensor_jaxlink.ops import Fitted, Merged, Stretched


@dataclass(frozen=True, eq=False)
class Selection:
    """The replacement of a selection: the full array, and the mask of the selected entries.

    Attributes
    ----------
    full
        The array before the selection, with ``mask.ndim`` dimensions in the place of one.
    mask
        A boolean array; the selection has the entries where it is true.
    axis
        The dimension of the selection that counts the selected entries.
    """

    full: Any
    mask: Any
    axis: int

    @property
    def width(self) -> int:
        """How many dimensions of the full array one of the selection stands for."""
        return int(self.mask.type.ndim)

    def places(self, axis: int) -> list[int]:
        """The dimensions of the full array that stand for a dimension of the selection."""
        if axis < self.axis:
            return [axis]
        if axis == self.axis:
            return list(range(axis, axis + self.width))
        return [axis + self.width - 1]

    def masked(self, value: Any) -> Any:
        """The full array with another value where nothing is selected."""
        order: list[Any] = ["x"] * self.full.type.ndim
        order[self.axis : self.axis + self.width] = range(self.width)
        filler = pt.constant(np.asarray(value, dtype=self.full.type.dtype))
        return pt.switch(self.mask.dimshuffle(order), self.full, filler)


@dataclass(frozen=True)
class Masked:
    """An index with one mask in it.

    Attributes
    ----------
    axis
        The first dimension that the mask selects from, after ``beside`` has been applied.
    mask
        The mask.
    beside
        The other indices, literals and scalars, with whole slices for the mask; None where there
        are none.
    by_places
        Whether the index are the places that `nonzero` gives.
    """

    axis: int
    mask: Any
    beside: tuple[Any, ...] | None = None
    by_places: bool = False


class Known(Protocol):
    """The facts about a graph so far."""

    selections: dict[Variable, Selection]

    def new(self, variable: Any) -> Any:
        """The present replacement of a variable."""
        ...

    def target(self, node: Apply) -> Masked | None:
        """The entries that a node writes to, or None."""
        ...

    def mask_counted_by(self, length: Any) -> Any:
        """The mask of a selection whose length a variable is, or None."""
        ...

    def derived(self, how: str, of: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """A mask that follows from others: the same object for the same ones."""
        ...

    def complement(self, mask: Any) -> Any:
        """The mask of what follows a prefix, where that has been asked for, or None."""
        ...

    def part(self, chosen: Selection, start: Any, stop: Any) -> Any:
        """The mask of a slice of a selection, or None."""
        ...

    def aligned(
        self, chosen: Selection, like: Selection, *, stretch: bool = False
    ) -> Selection | None:
        """A selection as one by the mask of another, where both take the same; or None.

        One entry may stand for many where it is to be stretched.
        """
        ...

    def fitting(self, array: Any, index: Masked) -> Any:
        """The array that stands for one now, as long as a mask; `IndexError` where it cannot be."""
        ...


Results = Sequence[Any] | None


@singledispatch
def follow(op: Op, node: Apply, known: Known) -> Results:
    """The outputs of a node that reads selections, rewritten; None where they escape."""
    return None


@follow.register(Shape_i)
def _follow_length(op: Shape_i, node: Apply, known: Known) -> Results:
    return [length_of(known.selections[node.inputs[0]], op.i)]


@follow.register(Shape)
def _follow_shape(op: Shape, node: Apply, known: Known) -> Results:
    chosen = known.selections[node.inputs[0]]
    lengths = [length_of(chosen, axis) for axis in range(node.inputs[0].type.ndim)]
    return [pt.stack(lengths).astype("int64")]


def length_of(chosen: Selection, axis: int) -> Any:
    """A length of a selection."""
    if axis == chosen.axis:
        return chosen.mask.sum(dtype="int64")
    return Shape_i(chosen.places(axis)[0])(chosen.full)


def widened(variable: Any, like: Selection) -> Any:
    """An array of length 1 where a selection counts its entries, in the full array's rank."""
    if like.width == 1:
        return variable
    order: list[Any] = list(range(variable.type.ndim))
    order[like.axis : like.axis + 1] = [like.axis] + ["x"] * (like.width - 1)
    return variable.dimshuffle(order)


@follow.register(Elemwise)
def _follow_elementwise(op: Elemwise, node: Apply, known: Known) -> Results:
    first = next(known.selections[v] for v in node.inputs if v in known.selections)
    inputs = []
    for variable in node.inputs:
        if variable in known.selections:
            chosen = known.aligned(known.selections[variable], first)
            if chosen is None or chosen.axis != first.axis:
                return None
            inputs.append(chosen.full)
        elif variable.type.broadcastable[first.axis]:
            inputs.append(widened(known.new(variable), first))
        else:
            return None
    if node.op.inplace_pattern:
        return None
    outputs = node.op.make_node(*inputs).outputs
    return [Selection(output, first.mask, first.axis) for output in outputs]


@follow.register(CheckAndRaise)
def _follow_check(op: CheckAndRaise, node: Apply, known: Known) -> Results:
    """Conditions that depend on no selection: of one, `all` gives a value."""
    value, *conditions = node.inputs
    if any(condition in known.selections for condition in conditions):
        return None
    chosen = known.selections[value]
    return [replace(chosen, full=op(chosen.full, *map(known.new, conditions)))]


@follow.register(DeepCopyOp)
def _follow_copy(op: DeepCopyOp, node: Apply, known: Known) -> Results:
    return [known.selections[node.inputs[0]]]


@follow.register(Fitted)
def _follow_fitted(op: Fitted, node: Apply, known: Known) -> Results:
    """An array and a mask of it, both as long as a selection."""
    array, mask = (known.selections.get(v) for v in node.inputs)
    if array is None or mask is None or array.axis != op.axis + mask.axis:
        return None
    mask = known.aligned(mask, array)
    if mask is None or array.width != 1:
        return None
    return [Selection(op(array.full, mask.full), array.mask, array.axis)]


@follow.register(Merged)
@follow.register(Stretched)
def _follow_written(op: Merged | Stretched, node: Apply, known: Known) -> Results:
    """A value written into an array that is a selection."""
    [value, target] = node.inputs
    there = known.selections.get(target)
    if there is None or there.width != 1:
        return None
    if value not in known.selections:
        if isinstance(op, Merged) or not value.type.broadcastable[there.axis]:
            return None
        return [Selection(op(known.new(value), there.full), there.mask, there.axis)]
    here = known.aligned(known.selections[value], there)
    if here is None or here.axis != there.axis:
        return None
    return [Selection(op(here.full, there.full), there.mask, there.axis)]


@follow.register(DimShuffle)
def _follow_order(op: DimShuffle, node: Apply, known: Known) -> Results:
    chosen = known.selections[node.inputs[0]]
    order = list(node.op.new_order)
    if chosen.axis not in order:
        return None
    places: list[Any] = []
    for axis in order:
        places += ["x"] if axis == "x" else chosen.places(axis)
    return [Selection(chosen.full.dimshuffle(places), chosen.mask, order.index(chosen.axis))]


@follow.register(CAReduce)
def _follow_reduction(op: CAReduce, node: Apply, known: Known) -> Results:
    chosen = known.selections[node.inputs[0]]
    ndim = node.inputs[0].type.ndim
    axes = range(ndim) if op.axis is None else op.axis
    places = tuple(place for axis in axes for place in chosen.places(axis))
    if chosen.axis not in axes:
        reduced = op.clone(axis=places)(chosen.full)
        before = sum(axis < chosen.axis for axis in axes)
        return [Selection(reduced, chosen.mask, chosen.axis - before)]
    neutral = _neutral(op.scalar_op, chosen.full.type.dtype)
    if neutral is None:
        return None
    result = op.clone(axis=places)(chosen.masked(neutral))
    if isinstance(op, Max | Min) and not getattr(op, "initial", None):
        name = "maximum" if isinstance(op, Max) else "minimum"
        empty = CheckAndRaise(
            ValueError, f"zero-size array to reduction operation {name} which has no identity"
        )
        result = empty(result, chosen.mask.any())
    return [result]


@follow.register(Alloc)
def _follow_alloc(op: Alloc, node: Apply, known: Known) -> Results:
    """An array as long as a selection, filled with one value."""
    value, *lengths = node.inputs
    if value in known.selections:
        return None
    found = [(axis, known.mask_counted_by(length)) for axis, length in enumerate(lengths)]
    masks = [(axis, mask) for axis, mask in found if mask is not None]
    if len(masks) != 1:
        return None
    axis, mask = masks[0]
    lead = len(lengths) - value.type.ndim
    if axis >= lead and not value.type.broadcastable[axis - lead]:
        return None
    sizes = [known.new(length) for length in lengths]
    sizes[axis : axis + 1] = [mask.shape[d] for d in range(mask.type.ndim)]
    like = Selection(value, mask, axis - lead)
    filler = known.new(value)
    if axis >= lead:
        filler = widened(filler, like)
    return [Selection(pt.alloc(filler, *sizes), mask, axis)]


@follow.register(ARange)
def _follow_numbers(op: ARange, node: Apply, known: Known) -> Results:
    """The numbers of the entries of a selection."""
    start, stop, step = node.inputs
    mask = known.mask_counted_by(stop)
    if mask is None or not (_is_number(start, 0) and _is_number(step, 1)):
        return None
    counted: Any = pt.cumsum(mask.flatten().astype("int64"))
    numbers = counted - 1
    if mask.type.ndim > 1:
        numbers = numbers.reshape(mask.shape, ndim=mask.type.ndim)
    return [Selection(numbers.astype(node.outputs[0].type.dtype), mask, 0)]


def _is_number(variable: Any, number: int) -> bool:
    return isinstance(variable, Constant) and variable.data == number


@follow.register(Dot)
def _follow_product(op: Dot, node: Apply, known: Known) -> Results:
    """A matrix product: along the selection it is kept, across it is contracted."""
    left, right = (known.selections.get(v) for v in node.inputs)
    if any(s is not None and (s.width != 1 or s.full.type.ndim != 2) for s in (left, right)):
        return None
    x, y = (known.new(v) for v in node.inputs)
    if left is not None and right is not None:
        right = known.aligned(right, left)
        if right is None or (left.axis, right.axis) != (1, 0):
            return None
        return [pt.dot(left.masked(0), right.masked(0))]
    if left is not None and left.axis == 0:
        return [Selection(pt.dot(left.full, y), left.mask, 0)]
    if right is not None and right.axis == 1:
        return [Selection(pt.dot(x, right.full), right.mask, 1)]
    return None


@follow.register(IncSubtensor)
def _follow_update(op: Any, node: Apply, known: Known) -> Results:
    return follow_scatter(node, known)


def follow_scatter(node: Apply, known: Known) -> Results:
    """Back into an array of full size: a selection by the same mask, or one value for all."""
    op: Any = node.op
    found = known.target(node)
    base, value = node.inputs[:2]
    if found is None or base in known.selections:
        return None
    axis, mask, beside = found.axis, known.new(found.mask), found.beside
    whole = known.new(base)
    there = whole if beside is None else whole[beside]
    old = known.fitting(there, found)
    chosen = known.selections.get(value)
    if chosen is None:
        chosen = filler(Selection(old, mask, axis), known.new(value))
    else:
        chosen = known.aligned(chosen, Selection(old, mask, axis), stretch=True)
    if chosen is None or chosen.axis != axis or chosen.full.type.ndim != old.type.ndim:
        return None
    new = chosen.full if found.by_places else _stretched(chosen.full, old)
    new = new if op.set_instead_of_inc else old + new
    order: list[Any] = ["x"] * old.type.ndim
    order[axis : axis + chosen.width] = range(chosen.width)
    written = pt.switch(chosen.mask.dimshuffle(order), new.astype(base.type.dtype), old)
    if old is not there:
        written = Merged()(written, there)
    return [written if beside is None else pt.set_subtensor(there, written)]


def _stretched(value: Any, array: Any) -> Any:
    """A value that goes together with an array, where no type promises that it does."""
    lengths = zip(value.type.shape, array.type.shape, strict=True)
    open_ = any(length != 1 and (length is None or length != whole) for length, whole in lengths)
    return Stretched()(value, array) if open_ else value


def filler(like: Selection, value: Any) -> Selection | None:
    """A value that is written to all selected places, as what stands for a selection."""
    mask, axis, ndim = like.mask, like.axis, like.full.type.ndim
    if value.type.ndim == 0:
        return Selection(value.dimshuffle(["x"] * ndim), mask, axis)
    same_rank = value.type.ndim == ndim - like.width + 1
    if not same_rank or not value.type.broadcastable[axis]:
        return None
    return Selection(widened(value, like), mask, axis)


def is_literal(index: Any) -> bool:
    """Return True if an index is literal: its result has the same length whatever the data."""
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return all(part is None or isinstance(part, Constant) for part in parts)


def _neutral(op: Any, dtype: str) -> Any:
    """The value that changes no reduction by ``op``, or None where there is none."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return {scalar.AND: True, scalar.OR: False}.get(type(op))
    lowest, highest = (-np.inf, np.inf) if kind.kind == "f" else (None, None)
    if kind.kind in "iu":
        lowest, highest = np.iinfo(kind).min, np.iinfo(kind).max
    return {scalar.Add: 0, scalar.Mul: 1, scalar.Maximum: lowest, scalar.Minimum: highest}.get(
        type(op)
    )
