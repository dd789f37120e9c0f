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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import apply_ancestors
from pytensor.tensor.shape import Shape_i, SpecifyShape
from pytensor.tensor.type import TensorType
from pytensor.xtensor.basic import TensorFromXTensor, XTensorFromTensor

from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.graph import ArrayType, dtype_of
from pytensor_jaxlink.link.dynamic import LITTLE, is_worth
from pytensor_jaxlink.rewriting import hand_on
from pytensor_jaxlink.runtime import Padding, Place, Work, bucket_of, kind_of

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph

Groups = tuple[tuple[Place, ...], ...]
"""The dimensions of inputs, by position and axis, that are padded; equally long within a group."""


def groups_of(
    lengths: Mapping[Place, Sequence[int]],
    graph: FunctionGraph,
    related: Lengths,
    refused: Mapping[Place, str],
) -> Groups:
    """The dimensions that are padded from now on, those together that were always equal.

    Parameters
    ----------
    lengths
        The lengths that dimensions have had, the same calls for all.  Equal lengths of one call
        say nothing.
    graph
        The graph.
    related
        Its lengths.  What has to be as long as one of these dimensions joins its group.
    refused
        The dimensions that cannot be padded.
    """
    together: dict[tuple[int, ...], list[Place]] = {}
    for place, seen in lengths.items():
        if len(seen) > 1:
            together.setdefault(tuple(seen), []).append(place)
    groups = [list(group) for group in together.values()]
    grouped = {place for group in groups for place in group} | refused.keys()
    others = [
        (position, axis)
        for position, variable in enumerate(graph.inputs)
        for axis in range(getattr(variable.type, "ndim", 0))
    ]
    for place in dict.fromkeys((*sorted(lengths), *others)):
        if place in grouped or not may_be_padded(graph, place):
            continue
        position, axis = place
        for group in groups:
            first, along = group[0]
            if related.same(graph.inputs[position], axis, graph.inputs[first], along):
                group.append(place)
                break
        else:
            if place in lengths:
                groups.append([place])
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
    dense = {position: _as_tensor(array) for position, array in longer.items()}
    lengths: list[Any] = [pt.lscalar(_name(graph, group)) for group in groups]
    shapes: dict[int, list[Any]] = {k: [None] * array.type.ndim for k, array in longer.items()}
    parts: dict[int, list[Any]] = {k: [slice(None)] * len(v) for k, v in shapes.items()}
    for group, length in zip(groups, lengths, strict=True):
        first, along = group[0]
        bucket = Shape_i(along)(dense[first])
        for position, axis in group:
            parts[position][axis] = slice(length)
            if (position, axis) != group[0]:
                shapes[position][axis] = bucket
    stands_for = {
        graph.inputs[position]: _as_declared(
            _specified(array, shapes[position])[tuple(parts[position])], graph.inputs[position]
        )
        for position, array in dense.items()
    }
    rooms: list[Any] = [TensorType("int8", shape=(None,))("room") for _ in unbounded]
    for position, room in zip(unbounded, rooms, strict=True):
        number = graph.inputs[position]
        longer[position] = number.clone()
        length = _as_tensor(longer[position])
        is_tensor = isinstance(length.type, TensorType)
        # PyTensor 3.0 compares a uint64 with an int64 as real numbers; a boolean is no bound.
        if dtype_of(number) in ("bool", "uint64"):
            length = pt.cast(length if is_tensor else pt.tensor_from_scalar(length), "int64")
        bounded = pt.cast(Shape_i(0)(room[:length]), dtype_of(number))
        bounded = bounded if is_tensor else pt.scalar_from_tensor(bounded)
        stands_for[number] = _as_declared(bounded, number)
    for node in graph.apply_nodes:  # the parts of arrays with named dimensions as tensors
        if isinstance(node.op, TensorFromXTensor) and node.inputs[0] in stands_for:
            stands_for[node.outputs[0]] = _as_tensor(stands_for[node.inputs[0]])
    _without_lines(stands_for.values())
    # The types are the same, so no node is made anew: an `Alloc` would infer its lengths again.
    outputs: list[Any] = list(clone_replace(graph.outputs, stands_for))
    inputs = [longer.get(position, variable) for position, variable in enumerate(graph.inputs)]
    padded = FunctionGraph([*inputs, *lengths, *rooms], outputs, clone=True)
    MergeOptimizer().rewrite(padded)  # equal bounds are one variable, as the masks expect
    hand_on(graph, padded)
    return padded


def _without_lines(made: Iterable[Variable]) -> None:
    """Forget the lines of what is made here: they are those of the call, and none of the graph."""
    for node in apply_ancestors(made):
        for output in node.outputs:
            output.tag.trace = []


def _name(graph: FunctionGraph, group: Sequence[Place]) -> str:
    """The name of a length: that of the arrays which have it."""
    return "length of " + ", ".join(str(graph.inputs[position]) for position, _ in group)


def _as_tensor(variable: Variable) -> Variable:
    """A variable with named dimensions as a tensor; all else is returned as it is."""
    if not hasattr(variable.type, "dims"):
        return variable
    node = variable.owner
    if node is not None and isinstance(node.op, XTensorFromTensor):
        return node.inputs[0]
    return TensorFromXTensor().make_node(variable).outputs[0]


def _as_declared(part: Variable, variable: Variable) -> Variable:
    """A tensor with the named dimensions of a variable, if that has some."""
    dims = getattr(variable.type, "dims", None)
    return part if dims is None else XTensorFromTensor(dims=dims).make_node(part).outputs[0]


def _specified(array: Any, shape: Sequence[Any]) -> Any:
    """An array of some lengths, which are equal to others."""
    if all(length is None for length in shape):
        return array
    specify: Any = SpecifyShape()
    return specify(array, *shape)


class SuitedBuckets:
    """A padding, with the buckets that suit what the graph computes for the arguments of a call.

    Parameters
    ----------
    padded
        The graph of padded arguments.
    padding
        Which these are.

    Attributes
    ----------
    others
        The dimensions that are not padded, and whose lengths are open.
    """

    def __init__(self, padded: CompiledGraph, padding: Padding) -> None:
        self._padded, self._padding = padded, padding
        self._known: dict[tuple[int, ...], Padding] = {}
        graph, taken = padded.source, {place for group in padding.groups for place in group}
        self.others: tuple[Place, ...] = tuple(
            (position, axis)
            for position, variable in enumerate(graph.inputs[: -padding.count or None])
            for axis in range(getattr(variable.type, "ndim", 0))
            if (position, axis) not in taken and may_be_padded(graph, (position, axis))
        )

    def __call__(self, inputs: Sequence[object]) -> Padding:
        """The padding with the buckets of the options, or those that suit such arguments."""
        padded, padding = self._padded, self._padding
        if padded.options.buckets is not None:
            return replace(padding, bucket=bucket_of(padded.options.buckets))
        if not padding.count:
            return padding
        others = tuple(getattr(inputs[k], "shape", ())[axis] for k, axis in self.others)
        if others not in self._known:
            work = Work(
                _entries(padded, padding, inputs), lambda: padded.installed.executor.entries
            )
            smallest = cache(partial(work.smallest_bucket, padding.count, LITTLE))
            found = replace(padding, bucket=bucket_of(None, smallest), work=work)
            self._known = {others: found}  # the last one: `Dispatch` remembers more of them
        return self._known[others]


def _entries(
    padded: CompiledGraph, padding: Padding, inputs: Sequence[object]
) -> Callable[[Sequence[int]], int | None]:
    """For buckets the entries that a graph of padded arguments computes, where they are known.

    At least as many as the arguments have, which are like those of a call.
    """
    kinds = [kind_of(value) for value in inputs]
    lengths = padding.lengths(inputs) or [0] * len(padding.groups)

    def entries(buckets: Sequence[int]) -> int | None:
        values = padding.pad(kinds, lengths, buckets, padded.stats)
        computed = padded.installed.executor.measure(values)
        return None if computed is None else max(computed, padding.entries(kinds, buckets))

    return entries


def is_worth_cutting(
    compiled: CompiledGraph, padded: CompiledGraph, padding: Padding, inputs: Sequence[Any]
) -> bool:
    """The rule of cost for results that are cut (`dynamic.is_worth`)."""
    lengths = padding.lengths(inputs)
    if lengths is None or not padding.can_pad(inputs, lengths):
        return True
    entries = _entries(padded, padding, inputs)(padding.buckets(lengths))
    return entries is None or is_worth(entries, compiled.installed.executor.entries)


def with_programs(
    lengths: Mapping[Place, Sequence[int]], kept: Collection[tuple[int, ...]], groups: Groups
) -> list[dict[Place, int]]:
    """For each combination of lengths that has a program of its own, the lengths.

    Parameters
    ----------
    lengths
        For the dimensions that were not padded before, the lengths that they had.
    kept
        The combinations of lengths of the groups that were padded before.
    groups
        These groups.  They may have no program of their own.
    """
    if not groups:
        count = min(map(len, lengths.values()), default=1) - 1
        return [{place: seen[k] for place, seen in lengths.items()} for k in range(count)]
    added = {place: seen[0] for place, seen in lengths.items()}
    return [
        added | {place: n for group, n in zip(groups, known, strict=True) for place in group}
        for known in kept
    ]


def divided(groups: Groups, inputs: Sequence[Any]) -> Groups:
    """The groups, each divided where its dimensions have different lengths in a call."""
    parted: list[tuple[Place, ...]] = []
    for group in groups:
        by_length: dict[int, list[Place]] = {}
        for position, axis in group:
            length = inputs[position].shape[axis]
            by_length.setdefault(length, []).append((position, axis))
        parted += map(tuple, by_length.values())
    return tuple(parted)


def length_of_group(group: Sequence[Place], lengths: Mapping[Place, int]) -> int:
    """The length of a group, of which some dimensions are known."""
    return next(lengths[place] for place in group if place in lengths)


def described_lengths(
    names: Sequence[str], padding: Padding, unpadded: Mapping[Place, str]
) -> list[str]:
    """The lengths that are padded, and those that are static with the reason, in words."""
    padded = [
        f"the length of {_named(names, group)} is padded, to {_first_buckets(padding)}: "
        "one program serves all lengths up to there"
        for group in padding.groups
    ]
    return padded + [
        f"the length of {_named(names, [place])} is static: {reason}"
        for place, reason in unpadded.items()
    ]


def described_bounds(padding: Padding) -> dict[int, str]:
    """For each size of cut results its bounds in words, where no array bounds it."""
    up_to = f" up to {_first_buckets(padding)}"
    return {k: up_to if k in padding.unbounded else "" for k in padding.sizes}


def _first_buckets(padding: Padding) -> str:
    first = padding.bucket(1)
    with suppress(Exception):  # the user's function may have an end
        return f"{first}, {padding.bucket(first + 1)}, ..."
    return f"{first}, ..."


def _named(names: Sequence[str], group: Sequence[Place]) -> str:
    """The dimensions of a group, in words."""
    return ", ".join(
        names[position] if axis == 0 else f"{names[position]} along axis {axis}"
        for position, axis in group
    )
