"""Reshapes to shapes computed from data, lifted toward an end that does not depend on the shape.

Pattern and replacement::

    (reshape(x, (k, -1)) * 2).sum()                      (x * 2).sum(), checked
    reshape(exp(reshape(x, (k, -1))), (2, -1))           reshape(exp(x), (2, -1)), checked
    join(1, reshape(x, (k, -1)), reshape(y, s)).max()    join(0, x, y).max(), checked
    reshape(x, (k, -1))[i, j]                            x[i * (size // k) + j], checked

On the way the array passes through elementwise operations, casts, transpositions, new dimensions,
`SpecifyShape`, `Join`, `Alloc` (repeated as a whole) and the softmax over all entries.  It ends in
a reduction over all entries, in another reshape, in a running sum or the place of the largest over
all entries, or in one entry.

It fires only where it removes the break: where a reader that needs the shape is left, nothing
changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import prod
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type_other import NoneTypeT

from pytensor_jaxlink.analysis import input_binding_times
from pytensor_jaxlink.graph import GraphView, axis_and_parts, indices_of
from pytensor_jaxlink.rewriting.bounds import in_range
from pytensor_jaxlink.rewriting.notes import late_values, note

NAME = "jaxlink_reshapes"

CONCERNED = (Reshape,)
"""The Op that it moves."""


def rewrite_reshapes(fgraph: FunctionGraph, changing: Collection[int] = ()) -> None:
    """Rewrite in place; the inputs at ``changing`` are computed from data whatever their type."""
    view = GraphView.of(fgraph)
    values = late_values(view, input_binding_times(view, changing))
    late = {n for n in view.nodes if isinstance(n.op, Reshape) and n.inputs[1] in values}
    if not late:
        return
    found = _found(view, late)
    gone = {source for end in found.values() for source in end.sources}
    for source in sorted(gone, key=view.nodes.index):
        note(fgraph, view, source, NAME, "a reshape to a computed shape was moved")
    for old, end in found.items():
        copy_stack_trace(old, end.value)
    pairs = [(old, end.value) for old, end in found.items()]
    fgraph.replace_all(pairs, import_missing=True, reason=NAME)


@dataclass(frozen=True)
class _Flat:
    """The entries of an array in one dimension.

    Attributes
    ----------
    entries
        A vector; its order is the array's where ``ordered`` is true.
    layout
        Which entry lies where: arrays of equal layouts can be combined entry by entry.
    lengths
        Of the array's dimensions.
    sources
        The reshapes that are gone.
    """

    entries: Any
    layout: tuple[Any, ...]
    ordered: bool
    lengths: tuple[Any, ...]
    sources: tuple[Apply, ...]


@dataclass(frozen=True)
class _End:
    """The replacement of a variable, and the reshapes whose breaks it removes."""

    value: Any
    sources: tuple[Apply, ...]


def _found(view: GraphView, late: set[Apply]) -> dict[Variable, _End]:
    """The useful replacements: those of variables whose shape no other reader needs."""
    flats: dict[Variable, _Flat] = {}
    ends: dict[Variable, _End] = {}
    for node in view.nodes:
        if len(node.outputs) > 1 and not isinstance(node.op, Argmax):
            continue
        if node in late:
            flats[node.outputs[0]] = _reshaped(node)
        elif flats.keys() & set(node.inputs):
            end = _end(node.op, node, flats)
            flat = None if end is not None else _lifted(node.op, node, flats)
            if end is not None:
                value = end.value.astype(node.outputs[0].type.dtype)
                ends[node.outputs[0]] = replace(
                    end, value=node.outputs[0].type.filter_variable(value)
                )
            elif flat is not None:
                flats[node.outputs[0]] = flat
    while needed := late & _computed(view, ends):
        kept = {old: end for old, end in ends.items() if needed.isdisjoint(end.sources)}
        if len(kept) == len(ends):
            break
        ends = kept
    return ends


def _computed(view: GraphView, ends: dict[Variable, _End]) -> set[Apply]:
    """The nodes that are still computed after the replacements."""
    queue: list[Any] = [view.variables[number] for number in view.outputs]
    met, nodes = set(queue), set()
    for variable in queue:
        current = ends[variable].value if variable in ends else variable
        if current.owner is None:
            continue
        nodes.add(current.owner)
        new = [v for v in current.owner.inputs if v not in met]
        met.update(new)
        queue += new
    return nodes


# -- where it begins -------------------------------------------------------------------------------


def _reshaped(node: Apply) -> _Flat:
    array, shape = node.inputs
    shape = shape.astype("int64")
    product: Any = pt.prod(shape)
    size: Any = array.size
    unknown = pt.lt(shape, 0).sum()
    left = size // pt.maximum(-product, 1)
    divides = pt.and_(pt.neq(product, 0), pt.eq(size % pt.maximum(-product, 1), 0))
    equal = pt.and_(pt.eq(unknown, 0), pt.eq(product, size))
    fits = pt.switch(pt.eq(unknown, 1), divides, equal)
    message = "cannot reshape array: its size does not fit the shape"
    check = CheckAndRaise(ValueError, message)
    lengths = check(pt.switch(shape < 0, left, shape), fits)
    return _Flat(
        check(array.flatten(), fits),
        ("reshape", node.inputs[1]),
        True,
        tuple(pt.as_tensor(lengths)[axis] for axis in range(node.outputs[0].type.ndim)),
        (node,),
    )


# -- what it passes through ------------------------------------------------------------------------


@singledispatch
def _lifted(op: Op, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    """The flat form of a node's output, some of whose inputs have one; None: it needs the shape."""
    return None


@_lifted.register(Elemwise)
def _lifted_elementwise(op: Elemwise, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    arrays = [v for v in node.inputs if not all(v.type.broadcastable)]
    found = [flats[v] for v in arrays if v in flats]
    if len(found) < len(arrays) or any(flat.layout != found[0].layout for flat in found):
        return None
    inputs = [flats[v].entries if v in flats else v.flatten() for v in node.inputs]
    return replace(found[0], entries=op(*inputs), sources=_sources(found))


@_lifted.register(DimShuffle)
def _lifted_dimshuffle(op: DimShuffle, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    flat = flats[node.inputs[0]]
    order = list(op.new_order)
    kept = [axis for axis in order if axis != "x"]
    return replace(
        flat,
        layout=("order", *order, *flat.layout),
        ordered=flat.ordered and kept == sorted(kept),
        lengths=tuple(pt.constant(1) if axis == "x" else flat.lengths[axis] for axis in order),
    )


@_lifted.register(SpecifyShape)
def _lifted_specified(op: SpecifyShape, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    flat = flats[node.inputs[0]]
    holds = [
        pt.eq(length, size)
        for length, size in zip(flat.lengths, node.inputs[1:], strict=True)
        if not isinstance(size.type, NoneTypeT)
    ]
    message = "SpecifyShape: an array has not the shape that was specified"
    return replace(flat, entries=CheckAndRaise(AssertionError, message)(flat.entries, *holds))


@_lifted.register(Join)
def _lifted_joined(op: Join, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    axis, arrays = axis_and_parts(node)
    if axis is None:
        return None
    found = [flats[v] for v in arrays if v in flats]
    first, sources = found[0], _sources(found)
    parts = [flats.get(v) or _as_it_is(v, sources) for v in arrays]
    holds = [
        pt.eq(part.lengths[place], first.lengths[place])
        for part in parts
        if part is not first
        for place in range(len(first.lengths))
        if place != axis
    ]
    message = "all the input array dimensions except for the concatenation axis must match exactly"
    entries = pt.concatenate([part.entries for part in parts])
    lengths = list(first.lengths)
    lengths[axis] = sum([part.lengths[axis] for part in parts[1:]], start=parts[0].lengths[axis])
    ordered = axis == 0 and all(part.ordered for part in parts)
    return _Flat(
        CheckAndRaise(ValueError, message)(entries, *holds) if holds else entries,
        # Parts of other lengths may be as long together, and then their entries lie elsewhere.
        ("join", axis, *(part.layout for part in parts), *(() if ordered else arrays)),
        ordered,
        tuple(lengths),
        sources,
    )


@_lifted.register(Alloc)
def _lifted_repeated(op: Alloc, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    """Repeated as a whole, a known number of times; nothing in it is stretched."""
    value, *sizes = node.inputs
    flat, single = flats.get(value), list(value.type.broadcastable)
    first = single.index(False) if False in single else len(single)  # what is before has length 1
    count = len(sizes) - len(single) + first
    lead, own = sizes[:count], sizes[count:]
    if flat is None or any(single[first:]):  # it may be stretched
        return None
    if not all(isinstance(size, Constant) for size in lead):
        return None
    lengths = flat.lengths[first:]
    holds = [pt.eq(length, size) for length, size in zip(lengths, own, strict=True)]
    message = "an array has not the shape to which it is to be repeated"
    entries = CheckAndRaise(ValueError, message)(flat.entries, *holds)
    times = prod(int(size.data) for size in lead)
    return replace(
        flat,
        entries=pt.alloc(entries, times, entries.shape[0]).flatten(),
        layout=("repeated", *(int(size.data) for size in lead), *flat.layout),
        lengths=(*lead, *lengths),
    )


@_lifted.register(Softmax)
@_lifted.register(LogSoftmax)
def _lifted_softmax(op: Any, node: Apply, flats: dict[Variable, _Flat]) -> _Flat | None:
    flat = flats[node.inputs[0]]
    if not _is_over_all(op.axis, node.inputs[0]):
        return None
    return replace(flat, entries=type(op)(axis=None)(flat.entries))


def _sources(flats: Sequence[_Flat]) -> tuple[Apply, ...]:
    return tuple(dict.fromkeys(source for flat in flats for source in flat.sources))


def _as_it_is(array: object, sources: tuple[Apply, ...]) -> _Flat:
    lengths = tuple(array.shape[axis] for axis in range(array.type.ndim))
    return _Flat(array.flatten(), ("array", array), True, lengths, sources)


def _is_over_all(axes: int | Sequence[int] | None, array: object) -> bool:
    return axes is None or np.size(axes) == array.type.ndim


# -- where it ends ---------------------------------------------------------------------------------


@singledispatch
def _end(op: Op, node: Apply, flats: dict[Variable, _Flat]) -> _End | None:
    """A node's first output computed from the entries in one dimension; None if it cannot be."""
    return None


@_end.register(CAReduce)
def _end_reduced(op: CAReduce, node: Apply, flats: dict[Variable, _Flat]) -> _End | None:
    flat = flats[node.inputs[0]]
    if not _is_over_all(op.axis, node.inputs[0]):
        return None
    return _End(op.clone(axis=None)(flat.entries), flat.sources)


@_end.register(Argmax)
def _end_largest(op: Argmax, node: Apply, flats: dict[Variable, _Flat]) -> _End | None:
    flat = flats[node.inputs[0]]
    if not flat.ordered or not _is_over_all(op.axis, node.inputs[0]):
        return None
    return _End(pt.argmax(flat.entries), flat.sources)


@_end.register(CumOp)
def _end_running(op: CumOp, node: Apply, flats: dict[Variable, _Flat]) -> _End | None:
    flat = flats[node.inputs[0]]
    return _End(op(flat.entries), flat.sources) if flat.ordered and op.axis is None else None


@_end.register(Reshape)
def _end_reshaped(op: Reshape, node: Apply, flats: dict[Variable, _Flat]) -> _End | None:
    flat = flats.get(node.inputs[0])
    if flat is None or not flat.ordered:
        return None
    return _End(op(flat.entries, node.inputs[1]), flat.sources)


@_end.register(Subtensor)
def _end_entry(op: Subtensor, node: Apply, flats: dict[Variable, _Flat]) -> _End | None:
    flat = flats.get(node.inputs[0])
    indices = indices_of(node)
    if flat is None or not flat.ordered or node.outputs[0].type.ndim:
        return None
    place = pt.constant(0, dtype="int64")
    for index, length in zip(indices, flat.lengths, strict=True):
        place = place * length + in_range(pt.as_tensor(index), length)
    return _End(flat.entries[place], flat.sources)
