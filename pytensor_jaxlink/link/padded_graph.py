"""The graph of padded arguments: the same function of longer arrays and their true lengths.

Results of a length that is data leave it uncut.

Pattern, where ``x`` and ``y`` are equally long::

    (exp(x) * y).sum(), exp(x)

Replacement, with the length ``n`` as one more input::

    (exp(x[:n]) * y[:n]).sum(), zeros(length of x)[:n] = exp(x[:n])

Nothing else is said about padding: the slices become masks as those of every dynamic size do, and a
graph in which they cannot is not padded.

A result of another length that is data (``x[:k]`` for an input ``k``) goes through `ops.Uncut`: it
leaves at the length of what it was cut from, and its true length is one more output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.tensor.shape import Shape_i, SpecifyShape

from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.ops import Uncut
from pytensor_jaxlink.rewriting import hand_on
from pytensor_jaxlink.runtime import Cuts, Place

Groups = tuple[tuple[Place, ...], ...]
"""The dimensions of inputs, by position and axis, that are padded; equally long within a group."""


def groups_of(
    lengths: Mapping[Place, Sequence[int]],
    graph: FunctionGraph,
    related: Lengths,
    refused: Mapping[Place, str],
) -> Groups:
    """The dimensions whose lengths have changed, those together that were always equal.

    Parameters
    ----------
    lengths
        The lengths that dimensions have had, the same calls for all.
    graph
        The graph.
    related
        Its lengths.  What has to be as long as one of them joins its group.
    refused
        The dimensions that cannot be padded.
    """
    together: dict[tuple[int, ...], list[Place]] = {}
    for place, seen in lengths.items():
        if len({*seen}) > 1 and place not in refused and may_be_padded(graph, place):
            together.setdefault(tuple(seen), []).append(place)
    groups = [list(group) for group in together.values()]
    for position, variable in enumerate(graph.inputs):
        for axis in range(getattr(variable.type, "ndim", 0)):
            place = position, axis
            if place in lengths or place in refused or not may_be_padded(graph, place):
                continue
            for group in groups:
                first, along = group[0]
                if related.same(variable, axis, graph.inputs[first], along):
                    group.append(place)
                    break
    return tuple(map(tuple, groups))


def may_be_padded(graph: FunctionGraph, place: Place) -> bool:
    """Return True for a dimension of a dense array whose type leaves the length open."""
    kind = graph.inputs[place[0]].type
    return isinstance(kind, ArrayType) and kind.shape[place[1]] is None


def padded_graph(
    graph: FunctionGraph, groups: Groups, related: Lengths
) -> tuple[FunctionGraph, Cuts]:
    """The graph of padded inputs, with the length of each group as a further input at the end.

    The lengths of uncut results are further outputs at the end.

    Parameters
    ----------
    graph, groups
        The graph, and the dimensions of its inputs that are padded.
    related
        Its lengths: what is as long as a group is cut.
    """
    longer = {position: graph.inputs[position].clone() for group in groups for position, _ in group}
    lengths: list[Any] = [pt.lscalar(_name(graph, group)) for group in groups]
    buckets: list[Any] = []
    shapes: dict[int, list[Any]] = {k: [None] * array.type.ndim for k, array in longer.items()}
    parts: dict[int, list[Any]] = {k: [slice(None)] * len(v) for k, v in shapes.items()}
    for group, length in zip(groups, lengths, strict=True):
        first, along = group[0]
        bucket = Shape_i(along)(longer[first])
        buckets.append(bucket)
        for position, axis in group:
            parts[position][axis] = slice(length)
            if (position, axis) != group[0]:
                shapes[position][axis] = bucket
    stands_for = {
        graph.inputs[position]: _specified(array, shapes[position])[tuple(parts[position])]
        for position, array in longer.items()
    }
    outputs: list[Any] = list(clone_replace(graph.outputs, stands_for, rebuild_strict=False))
    cuts = _cuts(graph, groups, related)
    for position in dict.fromkeys(position for position, _, _ in cuts):
        numbers = {axis: number for k, axis, number in cuts if k == position}
        outputs[position] = _whole(
            outputs[position], {axis: (buckets[k], lengths[k]) for axis, k in numbers.items()}
        )
    measured: list[Any] = []
    for position, axes in _open_axes(graph, cuts, related).items():
        first = len(groups) + len(measured)
        cuts += tuple((position, axis, first + k) for k, axis in enumerate(axes))
        outputs[position], *found = Uncut(axes).make_node(outputs[position]).outputs
        measured += found
    inputs = [longer.get(position, variable) for position, variable in enumerate(graph.inputs)]
    padded = FunctionGraph([*inputs, *lengths], [*outputs, *measured], clone=True)
    MergeOptimizer().rewrite(padded)  # equal bounds are one variable, as the masks expect
    hand_on(graph, padded)
    return padded, cuts


def _name(graph: FunctionGraph, group: Sequence[Place]) -> str:
    """The name of a length: that of the arrays which have it."""
    return "length of " + ", ".join(str(graph.inputs[position]) for position, _ in group)


def _cuts(graph: FunctionGraph, groups: Groups, related: Lengths) -> Cuts:
    return tuple(
        (position, axis, number)
        for position, output in enumerate(graph.outputs)
        if isinstance(output.type, ArrayType)
        for axis, length in enumerate(output.type.shape)
        if length is None
        for number, group in enumerate(groups)
        if any(related.same(output, axis, graph.inputs[k], along) for k, along in group)
    )


def _open_axes(graph: FunctionGraph, cuts: Cuts, related: Lengths) -> Mapping[int, tuple[int, ...]]:
    """For each output, the dimensions that are as long as none of an input."""
    cut = {(position, axis) for position, axis, _ in cuts}
    arrays = [v for v in graph.inputs if isinstance(v.type, ArrayType)]
    places = [(array, axis) for array in arrays for axis in range(array.type.ndim)]
    found = {
        position: tuple(
            axis
            for axis, length in enumerate(output.type.shape)
            if length is None
            and (position, axis) not in cut
            and not any(related.same(output, axis, *place) for place in places)
        )
        for position, output in enumerate(graph.outputs)
        if isinstance(output.type, ArrayType)
    }
    return {position: axes for position, axes in found.items() if axes}


def _specified(array: Any, shape: Sequence[Any]) -> Any:
    """An array of some lengths, which are equal to others."""
    if all(length is None for length in shape):
        return array
    specify: Any = SpecifyShape()
    return specify(array, *shape)


def _whole(value: Any, lengths: Mapping[int, tuple[Any, Any]]) -> Any:
    """An output at the lengths of its buckets; given are these and the true ones, by axis."""
    axes = range(value.type.ndim)
    shape = [lengths[k][0] if k in lengths else Shape_i(k)(value) for k in axes]
    part = tuple(slice(lengths[k][1]) if k in lengths else slice(None) for k in axes)
    whole: Any = pt.zeros(shape, dtype=value.type.dtype)
    return pt.set_subtensor(whole[part], value)
