"""PyTensor graphs as a table of parts: types, Ops, inner graphs, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

from pytensor.graph.basic import Constant, Node, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.graph.utils import MetaObject
from pytensor.link.c.type import generic
from pytensor.scan.op import ScanInfo

from pytensor_jaxlink.artifact import sparse
from pytensor_jaxlink.artifact.describing import DataWriter, Table, describe_value, rule_for
from pytensor_jaxlink.artifact.graph import ops, optimisers
from pytensor_jaxlink.artifact.graph.inner import InnerGraph
from pytensor_jaxlink.artifact.graph.properties import properties_of
from pytensor_jaxlink.artifact.names import Override, name_of
from pytensor_jaxlink.errors import ArtifactError

# Importing these modules registers what they know to describe.
REGISTERED = (ops, optimisers, sparse)


class GraphWriter:
    """Describes graphs; their data go to another writer, which the compiled layer shares.

    Attributes
    ----------
    entries
        The parts, each after those it refers to.
    """

    def __init__(self, data: DataWriter) -> None:
        self._data = data
        self._table = Table()
        self._by_text: dict[str, int] = {}
        self.entries: list[Any] = []

    @property
    def objects(self) -> Iterator[Any]:
        """The properties of the parts: types, Ops, inner graphs and others."""
        return self._table.objects

    def value(self, value: Any) -> Any:
        """A value as JSON."""
        return rule_for(describe_value, type(value))(value, self)

    def data(self, value: Any, describe: Any) -> Any:
        """A reference to an entry of the data."""
        return self._data.value(value)

    def part(self, value: Any, describe: Any) -> dict[str, int]:
        """A reference to a part; parts with the same description are the same part."""

        def place() -> int:
            entry = describe()
            text = json.dumps(entry)
            if text not in self._by_text:
                self._by_text[text] = len(self.entries)
                self.entries.append(entry)
            return self._by_text[text]

        return {"part": self._table.entries[self._table.place(value, place)]}

    def graph(self, graph: InnerGraph) -> Any:
        """The description of a graph."""
        numbers: dict[Variable, int] = {}
        variables: list[Any] = []
        constants: list[Any] = []

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
                self.value(node.op)["part"],
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

    def _variable(self, variable: Variable) -> Any:
        described = [None if is_generic_none(variable) else self.value(variable.type)["part"]]
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


def _made_of(part: Any, kind: str, writer: GraphWriter) -> Any:
    what = f"the {kind} {part}"
    try:
        properties = rule_for(properties_of, type(part))(part)
        described = {name: writer.value(value) for name, value in properties.items()}
    except ArtifactError as error:
        if str(error).startswith("the "):
            raise  # from a part of this part, which it names
        raise ArtifactError(f"{what}: {error}") from error
    return {kind: name_of(type(part), what), "of": described}


@describe_value.register(Op)
def _op(value: Op, writer: GraphWriter) -> Any:
    return writer.part(value, lambda: _made_of(value, "op", writer))


@describe_value.register(Type)
def _type(value: Type, writer: GraphWriter) -> Any:
    return writer.part(value, lambda: _made_of(value, "type", writer))


@describe_value.register(MetaObject)
def _object(value: MetaObject, writer: GraphWriter) -> Any:
    return writer.part(value, lambda: _made_of(value, "object", writer))


@describe_value.register(Node)
def _node(value: Node, writer: GraphWriter) -> Any:
    raise ArtifactError("a property is a variable of some graph, which cannot be saved")


@describe_value.register(InnerGraph)
def _graph(value: InnerGraph, writer: GraphWriter) -> Any:
    return writer.part(value, lambda: {"graph": writer.graph(value)})


@describe_value.register(FunctionType)
@describe_value.register(BuiltinFunctionType)
def _function(value: Any, writer: GraphWriter) -> Any:
    return {"function": name_of(value, "a property")}


@describe_value.register
def _override(value: Override, writer: GraphWriter) -> Any:
    return {"override": value.name}


@describe_value.register(type)
def _class(value: type, writer: GraphWriter) -> Any:
    return {"class": name_of(value, "a property")}


@describe_value.register(ScanInfo)
def _scan_info(value: ScanInfo, writer: GraphWriter) -> Any:
    return {"scan_info": {name: writer.value(each) for name, each in vars(value).items()}}
