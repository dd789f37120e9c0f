"""Lengths computed from data that must be equal to lengths that are known.

Pattern and replacement::

    x.reshape((k, 3))              x.reshape((x.size // 3, 3)), checked
    arange(k) * x                  arange(x.shape[0]) * x, checked
    A + eye(k) * s                 A + eye(A.shape[0]) * s, checked
    dot(x.reshape((k, j)), B)      the same, if every length can be found so

What an array is added to, multiplied with or joined to tells its length (`analysis.lengths`).
*Checked* means that another length raises, as it does in PyTensor.

It must not fire where a length that an array is compared with is itself computed from data, and
where branches are taken lazily, because an operation in a branch that is not taken demands nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from math import prod
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, ARange, Eye
from pytensor.tensor.shape import Reshape, Shape, Shape_i

from pytensor_jaxlink.analysis import input_binding_times, is_a_count
from pytensor_jaxlink.analysis.extents import length_of
from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.compat import IfElse
from pytensor_jaxlink.graph import GraphView, op_name
from pytensor_jaxlink.ops import StaticAssumption
from pytensor_jaxlink.rewriting.bounds import entries_of_shape, is_countable, parts_of_range
from pytensor_jaxlink.rewriting.notes import late_values, note

NAME = "jaxlink_lengths"

CONCERNED = (Alloc, ARange, Eye, Reshape)
"""The Ops whose sizes it replaces."""


def rewrite_lengths(fgraph: FunctionGraph, changing: Collection[int] = ()) -> None:
    """Rewrite in place; the inputs at ``changing`` are computed from data whatever their type."""
    if any(isinstance(node.op, IfElse) for node in fgraph.apply_nodes):
        return
    view = GraphView.of(fgraph)
    late = late_values(view, input_binding_times(view, changing))
    known = _Known(fgraph, Lengths(fgraph), late)
    for node in view.nodes:
        if not isinstance(node.op, CONCERNED):
            continue
        lengths, assumed = _known_lengths(node, known)
        if not lengths:
            continue
        value = _checked(node, lengths, assumed)
        copy_stack_trace(node.outputs[0], value)
        note(fgraph, view, node, NAME, f"the computed size of {op_name(node.op)} is a known length")
        fgraph.replace_all([(node.outputs[0], value)], import_missing=True, reason=NAME)


@dataclass(frozen=True)
class _Known:
    fgraph: FunctionGraph
    lengths: Lengths
    late: set[Variable]
    _early: dict[Variable, bool] = field(default_factory=dict)

    def early(self, length: Any) -> bool:
        """Return True if a length follows from the shapes of inputs and from values on the host."""
        if isinstance(length, Constant):
            return True
        if length not in self._early:
            owner = length.owner
            if owner is None:
                found = length in self.fgraph.variables and length not in self.late
            elif isinstance(owner.op, Shape | Shape_i):
                found = owner.inputs[0].owner is None
            else:
                found = all(map(self.early, owner.inputs))
            self._early[length] = found
        return self._early[length]


def _known_lengths(node: Apply, known: _Known) -> tuple[dict[int, object], list[object]]:
    """For each late size of a node the known length it must be equal to; none if one has none.

    Beside them the conditions under which they are known.
    """
    late = [axis for axis, size in _sizes(node.op, node).items() if not known.late.isdisjoint(size)]
    found: dict[int, Any] = {}
    for axis in late:
        length = _equal_length(node, axis, known)
        if length is not None:
            found[axis] = length
    missing = [axis for axis in late if axis not in found]
    if not missing:
        return found, []
    if len(missing) == 1 and isinstance(node.op, Reshape):
        return _with_what_is_left(node, missing[0], found)
    return {}, []


def _with_what_is_left(
    node: Apply, axis: int, found: dict[int, Any]
) -> tuple[dict[int, object], list[object]]:
    """The lengths, with the one of a reshaped array that follows from its size and the others.

    It does under the conditions beside them: where the others are of nothing any length will do,
    and a negative one is open.
    """
    sizes = {place: size for place, (size,) in _sizes(node.op, node).items()}
    others = {place: size for place, size in {**sizes, **found}.items() if place != axis}
    if any(isinstance(size, Constant) and int(size.data) < 0 for size in others.values()):
        return {}, []
    open_ones = {place: size for place, size in others.items() if not is_a_count(size)}
    # Where one is, the array is reshaped to some lengths, so that the assumption is looked at.
    others |= {place: pt.switch(pt.lt(size, 0), 1, size) for place, size in open_ones.items()}
    assumed: list[object] = [pt.ge(size, 0) for size in open_ones.values()]
    rest = prod(int(size.data) for size in others.values() if isinstance(size, Constant))
    for size in others.values():
        rest = rest if isinstance(size, Constant) else rest * size.astype("int64")
    size = node.inputs[0].size
    length = size // pt.maximum(rest, 1) if others else size
    if not (isinstance(rest, int) and rest):
        assumed.append(pt.neq(rest, 0))
    return {**found, **{place: others[place] for place in open_ones}, axis: length}, assumed


def _equal_length(node: Apply, axis: int, known: _Known) -> Any:
    """A known length that a dimension of a node's output must have, or None."""
    made = node.outputs[0]
    for array, place in known.lengths.equal(made, axis):
        if array not in known.fgraph.variables:
            continue  # it has been replaced
        length = length_of(known.fgraph, array, place)
        if known.early(length) and made not in set(ancestors([length])):
            return length
    return None


# -- what a node makes ---------------------------------------------------------------------------


@singledispatch
def _sizes(op: Op, node: Apply) -> dict[int, tuple[Any, ...]]:
    """For each dimension of what a node makes, what its length is computed from."""
    return {}


@_sizes.register(Alloc)
def _sizes_alloc(op: Alloc, node: Apply) -> dict[int, tuple[Any, ...]]:
    return {axis: (size,) for axis, size in enumerate(node.inputs[1:])}


@_sizes.register(ARange)
def _sizes_arange(op: ARange, node: Apply) -> dict[int, tuple[Any, ...]]:
    return {0: tuple(node.inputs)} if is_countable(node) else {}


@_sizes.register(Eye)
def _sizes_eye(op: Eye, node: Apply) -> dict[int, tuple[Any, ...]]:
    return {axis: (size,) for axis, size in enumerate(node.inputs[:2])}


@_sizes.register(Reshape)
def _sizes_reshape(op: Reshape, node: Apply) -> dict[int, tuple[Any, ...]]:
    return {axis: (size,) for axis, size in enumerate(entries_of_shape(node.inputs[1]))}


def _checked(node: Apply, lengths: dict[int, object], assumed: Sequence[object]) -> Any:
    """The output of a node, of the given lengths, if its sizes agree."""
    if isinstance(node.op, ARange):
        start, step, count = parts_of_range(node)
        made = start + step * pt.arange(lengths[0])
        holds = [pt.eq(count, lengths[0])]
    else:
        sizes = {axis: size for axis, (size,) in _sizes(node.op, node).items()}
        made = _made(node, [lengths.get(axis, size) for axis, size in sizes.items()])
        holds = [pt.eq(sizes[axis], length) for axis, length in lengths.items()]
        if isinstance(node.op, Reshape):  # which computes a length that is negative
            free = [pt.lt(sizes[axis], 0) for axis in lengths]
            holds = [pt.or_(*pair) for pair in zip(holds, free, strict=True)]
            if len(sizes) > 1:  # one of them, and not where the others are of nothing
                shape = pt.stack(list(sizes.values()))
                holds.append(pt.le(pt.lt(shape, 0).sum(), 1))
                holds.append(pt.ge(shape, 0).all() | pt.neq(shape, 0).all())
    made = node.outputs[0].type.filter_variable(made.astype(node.outputs[0].type.dtype))
    message = "a length that was computed is not the one that the other arrays or the size demand"
    made = CheckAndRaise(ValueError, message)(made, *holds)
    unknown = "a computed length does not follow from the others: one is open, or 0"
    return StaticAssumption(ValueError, unknown)(made, *assumed) if assumed else made


def _made(node: Apply, sizes: list[Any]) -> Any:
    match node.op:
        case Reshape():
            return node.op(
                node.inputs[0], pt.stack([pt.as_tensor(s, dtype="int64") for s in sizes])
            )
        case Eye():
            return node.op(*sizes, node.inputs[2])
        case _:
            return node.op(node.inputs[0], *sizes)
