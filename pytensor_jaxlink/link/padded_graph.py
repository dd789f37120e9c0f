"""The graph of padded arguments: the same function of longer arrays and their true lengths.

Pattern, where ``x`` and ``y`` are equally long::

    (exp(x) * y).sum(), exp(x)

Replacement, with the length ``n`` as one more input::

    (exp(x[:n]) * y[:n]).sum(), exp(x[:n])

A number ``m`` on which lengths depend that no array bounds is the length of a padded vector, which
is one more input: `ones(m)` becomes ``ones(room[:m].shape[0])``.

Nothing else is said about padding: the slices become masks as those of every dynamic size do,
results are cut as those of every computed length are (`rewriting.cut_results`).  A graph in which
the slices cannot become masks is not padded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.tensor.basic import ScalarFromTensor
from pytensor.tensor.shape import Shape_i, SpecifyShape
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.graph import ArrayType, dtype_of
from pytensor_jaxlink.rewriting import hand_on
from pytensor_jaxlink.runtime import Place

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
    graph: FunctionGraph, groups: Groups, unbounded: Sequence[int] = ()
) -> FunctionGraph:
    """The graph of padded inputs, with the length of each group as a further input at the end.

    Parameters
    ----------
    graph
        The graph.
    groups
        The dimensions that are padded.
    unbounded
        The positions of numbers that are lengths of padded vectors, which follow at the end.
    """
    longer = {position: graph.inputs[position].clone() for group in groups for position, _ in group}
    lengths: list[Any] = [pt.lscalar(_name(graph, group)) for group in groups]
    shapes: dict[int, list[Any]] = {k: [None] * array.type.ndim for k, array in longer.items()}
    parts: dict[int, list[Any]] = {k: [slice(None)] * len(v) for k, v in shapes.items()}
    for group, length in zip(groups, lengths, strict=True):
        first, along = group[0]
        bucket = Shape_i(along)(longer[first])
        for position, axis in group:
            parts[position][axis] = slice(length)
            if (position, axis) != group[0]:
                shapes[position][axis] = bucket
    stands_for = {
        graph.inputs[position]: _specified(array, shapes[position])[tuple(parts[position])]
        for position, array in longer.items()
    }
    rooms: list[Any] = [TensorType("int8", shape=(None,))("room") for _ in unbounded]
    for position, room in zip(unbounded, rooms, strict=True):
        number = graph.inputs[position]
        longer[position] = number.clone()
        length = pt.cast(Shape_i(0)(room[: longer[position]]), dtype_of(number))
        is_array = isinstance(number.type, TensorType)
        stands_for[number] = length if is_array else ScalarFromTensor()(length)
    outputs: list[Any] = list(clone_replace(graph.outputs, stands_for, rebuild_strict=False))
    inputs = [longer.get(position, variable) for position, variable in enumerate(graph.inputs)]
    padded = FunctionGraph([*inputs, *lengths, *rooms], outputs, clone=True)
    MergeOptimizer().rewrite(padded)  # equal bounds are one variable, as the masks expect
    hand_on(graph, padded)
    return padded


def _name(graph: FunctionGraph, group: Sequence[Place]) -> str:
    """The name of a length: that of the arrays which have it."""
    return "length of " + ", ".join(str(graph.inputs[position]) for position, _ in group)


def _specified(array: Any, shape: Sequence[Any]) -> Any:
    """An array of some lengths, which are equal to others."""
    if all(length is None for length in shape):
        return array
    specify: Any = SpecifyShape()
    return specify(array, *shape)
