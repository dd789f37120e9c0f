"""Names for the open dimensions of a function's inputs, the same name where they must be equal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.rewriting.shape import ShapeFeature
from pytensor.tensor.shape import Shape_i

from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.graph import ArrayType

Place = tuple[int, int]
"""An input and one of its axes."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Dimensions:
    """The lengths of the inputs of a graph, as numbers and names.

    Parameters
    ----------
    graphs
        The graph as the user gave it and as it was rewritten: their elementwise Ops and products
        say which lengths are equal.
    names
        The names of the inputs.
    given
        What the user says of them: for the name of an input a tuple with a name, an expression, a
        number or None for each axis.
    values
        For inputs with a value of their own (shared variables) that value, else None: these keep
        their lengths unless ``given`` says otherwise.
    """

    def __init__(
        self,
        graphs: Sequence[FunctionGraph],
        names: Sequence[str | None],
        given: Mapping[str, Any],
        values: Sequence[Any],
    ) -> None:
        self._parents: dict[Any, Any] = {}
        self._fixed: dict[Any, int | str] = {}
        self._names = names
        self._types = [variable.type for variable in graphs[0].inputs]
        for number, (name, kind, value) in enumerate(zip(names, self._types, values, strict=True)):
            if isinstance(kind, ArrayType):
                said = given.get(name) if name else None
                self._declare(number, kind, said, value)
        for graph in graphs:
            self._relate(graph)

    def _declare(self, number: int, kind: Any, said: Any, value: Any) -> None:
        name = self._names[number]
        if isinstance(said, str | int):
            said = (said,)
        if said is not None and len(said) != kind.ndim:
            raise ArtifactError(f"dims has {len(said)} lengths for {name}, which is {kind}")
        for axis, declared in enumerate(kind.shape):
            asked = said[axis] if said is not None else None
            length = declared
            if declared is None and said is None and value is not None:
                length = np.shape(value)[axis]
            if length is not None:
                self._fix((number, axis), int(length))
            elif isinstance(asked, str) and not _NAME.fullmatch(asked):
                self._fix((number, axis), asked)
            elif isinstance(asked, str):
                self._join((number, axis), asked)
            elif asked is not None:
                self._fix((number, axis), int(asked))

    # -- which lengths are equal ---------------------------------------------------------------

    def _root(self, place: Any) -> Any:
        while place in self._parents:
            place = self._parents[place]
        return place

    def _fix(self, place: Any, length: int | str) -> None:
        self._fixed.setdefault(self._root(place), length)

    def _join(self, one: Any, other: Any) -> None:
        one, other = self._root(one), self._root(other)
        if one == other:
            return
        if isinstance(one, str) or (not isinstance(other, str) and _order(one) < _order(other)):
            one, other = other, one  # a name of the user's stays, then the first input's
        self._parents[one] = other
        if one in self._fixed:
            self._fixed.setdefault(other, self._fixed.pop(one))

    def _relate(self, graph: FunctionGraph) -> None:
        copy = FunctionGraph(graph.inputs, graph.outputs, clone=True)
        feature: Any = ShapeFeature()
        copy.attach_feature(feature)
        numbers = {variable: number for number, variable in enumerate(copy.inputs)}
        for node in copy.toposort():
            for entries in _equal_lengths(node):
                places = [_place(feature, numbers, *entry) for entry in entries]
                found = [place for place in places if place is not None]
                for one, other in pairwise(found):
                    self._equate(one, other)

    def _equate(self, one: Place | int, other: Place | int) -> None:
        if isinstance(one, int) and not isinstance(other, int):
            self._fix(other, one)
        elif isinstance(other, int) and not isinstance(one, int):
            self._fix(one, other)
        elif not isinstance(one, int):
            self._join(one, other)

    # -- the answer ----------------------------------------------------------------------------

    def of(self, number: int) -> tuple[int | str, ...]:
        """The lengths of an input."""
        kind = self._types[number]
        return tuple(self._length((number, axis)) for axis in range(getattr(kind, "ndim", 0)))

    def _length(self, place: Place) -> int | str:
        root = self._root(place)
        if root in self._fixed:
            return self._fixed[root]
        if isinstance(root, str):
            return root
        number, axis = root
        name = re.sub(r"\W", "_", self._names[number] or "") or f"input{number}"
        if not _NAME.fullmatch(name) or name in ("max", "min", "mod", "floordiv"):
            name = f"input{number}"
        return name if self._types[number].ndim == 1 else f"{name}_{axis}"


def _order(place: Any) -> tuple[int, ...]:
    return place


def _equal_lengths(node: Apply) -> list[list[tuple[Variable, int]]]:
    """The axes of a node's inputs that have the same length, in groups."""
    match node.op:
        case Elemwise():
            return [
                [(each, axis) for each in node.inputs if each.type.shape[axis] != 1]
                for axis in range(node.outputs[0].type.ndim)
            ]
        case Dot():
            one, other = node.inputs
            return [[(one, one.type.ndim - 1), (other, max(other.type.ndim - 2, 0))]]
        case Blockwise(inputs_sig=signature):
            groups: dict[Any, list[tuple[Variable, int]]] = {}
            for each, letters in zip(node.inputs, signature, strict=True):
                batch = each.type.ndim - len(letters)
                for axis in range(each.type.ndim):
                    key = axis - batch if axis < batch else letters[axis - batch]
                    if axis >= batch or each.type.shape[axis] != 1:
                        groups.setdefault(key, []).append((each, axis))
            return list(groups.values())
    return []


def _place(
    feature: Any, numbers: Mapping[Variable, int], variable: Variable, axis: int
) -> Place | int | None:
    try:
        lengths = feature.shape_of[variable]
    except KeyError:
        return None
    length = lengths[axis] if lengths else None
    if isinstance(length, Constant):
        return int(np.asarray(length.data))
    if length is not None and length.owner is not None and isinstance(length.owner.op, Shape_i):
        [source] = length.owner.inputs
        if source in numbers:
            return numbers[source], length.owner.op.i
    return None
