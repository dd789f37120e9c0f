"""PyTensor graphs as a table of parts: types, Ops, inner graphs, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any, Never

from pytensor.graph.basic import Constant, Node, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.graph.utils import MetaObject
from pytensor.link.c.type import generic
from pytensor.scan.op import ScanInfo

from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph, properties_of, rule_for
from pytensor_jaxlink.artifact.names import Override, name_of
from pytensor_jaxlink.artifact.values import BY_CLASS, Codec, DataWriter, Table, ValueWriter
from pytensor_jaxlink.errors import ArtifactError


class GraphWriter(ValueWriter):
    """Describes graphs; their data go to another writer, which the compiled layer shares.

    Attributes
    ----------
    entries
        The parts, each after those it refers to.
    modules
        The modules of the functions and classes that the parts name.
    """

    def __init__(self, data: DataWriter) -> None:
        self.codecs, self._data = {**BY_CLASS, **OF_GRAPHS}, data
        self._table = Table[int]()
        self._by_text: dict[str, int] = {}
        self.entries: list[Json] = []
        self.modules: set[str] = set()

    @property
    def objects(self) -> Iterator[object]:
        """The properties of the parts: types, Ops, inner graphs and others."""
        return self._table.objects

    def data(self, value: object, describe: Callable[..., Json]) -> int:
        """The entry of an object of the data."""
        return self._data.data(value, describe)

    def part(self, value: object, describe: Callable[[], Json]) -> Json:
        """The place of a part; parts with the same description are the same part."""

        def place() -> int:
            entry = describe()
            text = json.dumps(entry)
            if text not in self._by_text:
                self._by_text[text] = len(self.entries)
                self.entries.append(entry)
            return self._by_text[text]

        return self._table.entries[self._table.place(value, place)]

    def name(self, kind: Callable[..., object], what: str) -> str:
        """The name of a function or class; see `name_of`."""
        self.modules.add(kind.__module__)
        return name_of(kind, what)

    def place(self, part: object) -> int:
        """The number of a part."""
        reference: Any = self.value(part)
        return reference["part"]

    def graph(self, graph: InnerGraph) -> dict[str, Json]:
        """The description of a graph."""
        numbers: dict[Variable, int] = {}
        variables: list[Json] = []
        constants: list[Json] = []

        def add(variable: Variable) -> int:
            if variable not in numbers:
                if isinstance(variable, Constant):
                    constants.append([len(variables), self.value(variable.data)])
                numbers[variable] = len(variables)
                variables.append(self._variable(variable))
            return numbers[variable]

        def known(variable: Variable) -> int:
            if variable not in numbers and not isinstance(variable, Constant):
                raise ArtifactError(f"the graph reads {variable}, which is none of its inputs")
            return add(variable)

        for variable in graph.inputs:
            add(variable)
        nodes = [
            [
                self.place(node.op),
                [known(variable) for variable in node.inputs],
                [add(variable) for variable in node.outputs],
            ]
            for node in graph.nodes
        ]
        outputs = [known(variable) for variable in graph.outputs]
        return {
            "inputs": len(graph.inputs),
            "variables": variables,
            "constants": constants,
            "nodes": nodes,
            "outputs": outputs,
        }

    def _variable(self, variable: Variable) -> Json:
        described: list[Json] = [None if is_generic_none(variable) else self.place(variable.type)]
        described.append(variable.name)
        tags = {
            name: value
            for name, value in sorted(vars(variable.tag).items())
            if type(value) in (bool, int, str)
        }
        return [*described, tags] if tags else described


def is_generic_none(variable: Variable) -> bool:
    """Return True for the None of PyTensor's `Generic`, an omitted bound of a sparse slice.

    It has a form of its own, because files may not name `Generic`, which takes every object.
    """
    return isinstance(variable, Constant) and variable.type == generic and variable.data is None


def _made_of(part: object, kind: str, writer: GraphWriter) -> Json:
    what = f"the {kind} {part}"
    try:
        properties = rule_for(properties_of, type(part))(part)
        described = {name: writer.value(value) for name, value in properties.items()}
    except ArtifactError as error:
        if error.names_part:  # of the parts of a part the innermost is named
            raise
        raise _of_part(error, f"{what}: {error.text}") from error
    try:
        return {kind: name_of(type(part), what), "of": described}
    except ArtifactError as error:
        raise _of_part(error, error.text) from error


def _of_part(inner: ArtifactError, text: str) -> ArtifactError:
    error = ArtifactError(text, code=inner.reason)
    error.names_part = True
    return error


def _part(kind: str) -> Codec:
    """The codec of the parts of a graph that are made of a class and properties."""
    return Codec(
        "part",
        lambda value, writer: writer.part(value, lambda: _made_of(value, kind, writer)),
        lambda reader, place: reader.part(place),
    )


def _refuse(*_: object) -> Never:
    raise ArtifactError("a property is a variable of some graph, which cannot be saved")


def _write_graph(graph: InnerGraph, writer: GraphWriter) -> Json:
    return writer.part(graph, lambda: {"graph": writer.graph(graph)})


_FUNCTION = Codec(
    "function",
    lambda value, writer: writer.name(value, "a property"),
    lambda reader, name: reader.names.of_function(name),
)
OF_GRAPHS = {
    Op: _part("op"),
    Type: _part("type"),
    MetaObject: _part("object"),
    Node: Codec("node", _refuse, _refuse),
    InnerGraph: Codec("part", _write_graph, lambda reader, place: reader.part(place)),
    FunctionType: _FUNCTION,
    BuiltinFunctionType: _FUNCTION,
    Override: Codec(
        "override",
        lambda value, _: value.name,
        lambda reader, name: reader.names.of_override(name),
    ),
    type: Codec(
        "class",
        lambda value, writer: writer.name(value, "a property"),
        lambda reader, name: reader.kind(name),
    ),
    ScanInfo: Codec(
        "scan_info",
        lambda info, writer: {name: writer.value(each) for name, each in vars(info).items()},
        lambda reader, of: ScanInfo(**{name: reader.value(each) for name, each in of.items()}),
    ),
}
"""How the values that only graphs hold are written and read."""
