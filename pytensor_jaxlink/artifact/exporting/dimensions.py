"""Names for the open dimensions of a function's inputs, the same name where they must be equal."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.analysis.extents import measured
from pytensor_jaxlink.analysis.lengths import Dimension, Lengths
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.graph import ArrayType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = ("max", "min", "mod", "floordiv")


class Dimensions:
    """The lengths of the inputs of a graph, as numbers and names.

    Parameters
    ----------
    graphs
        The graph as the user gave it and as it is run: both say which lengths are equal.
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
        given: Mapping[str, object],
        values: Sequence[object],
    ) -> None:
        self._inputs = graphs[0].inputs
        self._lengths = Lengths(*map(measured, graphs), thorough=True)
        said: list[tuple[Dimension, int | str]] = []
        for variable, name, value in zip(self._inputs, names, values, strict=True):
            if isinstance(variable.type, ArrayType):
                asked = given.get(name) if name else None
                said += _declared(variable, name, asked, value)
        first: dict[str, Dimension] = {}
        for dimension, length in said:
            if _is_name(length):
                self._lengths.join(dimension, first.setdefault(str(length), dimension))
        self._said: dict[object, int | str] = {}
        for dimension, length in sorted(said, key=lambda each: _is_name(each[1])):
            self._said.setdefault(self._lengths.root(*dimension), length)
        # A name in an expression of the user's may be the own name of another length.
        taken = {length for length in self._said.values() if _is_name(length)}
        for variable, name in zip(self._inputs, names, strict=True):
            for axis in range(getattr(variable.type, "ndim", 0)):
                root = self._lengths.root(variable, axis)
                if root not in self._said:
                    self._said[root] = own = distinct(self._own_name(variable, name, axis), taken)
                    taken.add(own)

    def of(self, number: int) -> tuple[int | str, ...]:
        """The lengths of an input."""
        variable = self._inputs[number]
        axes = range(getattr(variable.type, "ndim", 0))
        return tuple(self._length(variable, axis) for axis in axes)

    def implied(self, values: Mapping[Variable, int]) -> dict[int | str, int]:
        """The numbers that open dimensions have for values of integers of the last graph."""
        found = self._lengths.implied(values)
        names = {root: self._said.get(root) for root in found}
        return {name: found[root] for root, name in names.items() if name is not None}

    def _length(self, variable: Variable, axis: int) -> int | str:
        said = self._said[self._lengths.root(variable, axis)]
        known = self._lengths.known(variable, axis)
        return said if known is None or not _is_name(said) else known

    def _own_name(self, variable: Variable, given: str | None, axis: int) -> str:
        number = f"input{self._inputs.index(variable)}"
        name = re.sub(r"\W", "_", given or "") or number
        if not _NAME.fullmatch(name) or name in _TAKEN:
            name = number
        return name if variable.type.ndim == 1 else f"{name}_{axis}"


def distinct(name: str, taken: Container[int | str]) -> str:
    """The name, with a number where it is taken: lengths of one name would have to be equal."""
    numbered = (f"{name}_{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def names_in(shapes: Iterable[Sequence[int | str]]) -> set[str]:
    """The names in lengths, also those in expressions."""
    return {name for shape in shapes for length in shape for name in _NAME.findall(str(length))}


def _is_name(length: int | str) -> bool:
    """Return True if a length is open, and neither a number nor an expression."""
    return isinstance(length, str) and _NAME.fullmatch(length) is not None


def lengths_said(said: Any, count: int, name: str) -> tuple[int | str | None, ...]:
    """The entries of ``dims`` for the dimensions of an input.

    Raises
    ------
    ArtifactError
        If it has another number of dimensions.
    """
    if said is None:
        return (None,) * count
    lengths = (said,) if isinstance(said, str | int) else tuple(said)
    if len(lengths) != count:
        text = f"dims has {len(lengths)} lengths for {name}, which has {count}"
        raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
    return lengths


def _declared(
    variable: Variable, name: str | None, said: Any, value: Any
) -> Iterator[tuple[Dimension, int | str]]:
    """The lengths of an input, from its type, the user or its value."""
    kind = variable.type
    if said is None and value is not None:
        said = np.shape(value)
    said = lengths_said(said, kind.ndim, str(name))
    for axis, (declared, asked) in enumerate(zip(kind.shape, said, strict=True)):
        length = asked if declared is None else declared
        if length is not None:
            yield (variable, axis), length if isinstance(length, str) else int(length)
