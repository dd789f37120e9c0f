"""PyTensor graphs as a table of parts: types, Ops, inner graphs, each once.

Before a graph is saved, it is read back and compared with itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Node, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.graph.utils import MetaObject
from pytensor.link.c.type import generic
from pytensor.scan.op import ScanInfo
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.optimize import ScipyWrapperOp
from scipy.sparse import issparse

from pytensor_jaxlink.artifact import sparse
from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.graphs import optimisers, properties
from pytensor_jaxlink.artifact.graphs.optimisers import parameters
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph, properties_of
from pytensor_jaxlink.artifact.graphs.reader import GraphReader
from pytensor_jaxlink.artifact.names import EveryName, Override, name_of
from pytensor_jaxlink.artifact.values import (
    DataReader,
    DataWriter,
    Table,
    describe_value,
    rule_for,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy

# Importing these modules registers what they know to describe.
REGISTERED = (properties, optimisers, sparse)


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
        self.entries: list[Json] = []

    @property
    def objects(self) -> Iterator[object]:
        """The properties of the parts: types, Ops, inner graphs and others."""
        return self._table.objects

    def value(self, value: object) -> Json:
        """A value as JSON."""
        return rule_for(describe_value, type(value))(value, self)

    def data(self, value: object, describe: object) -> Json:
        """A reference to an entry of the data."""
        return self._data.value(value)

    def part(self, value: object, describe: Callable[[], Json]) -> dict[str, Json]:
        """A reference to a part; parts with the same description are the same part."""

        def place() -> int:
            entry = describe()
            text = json.dumps(entry)
            if text not in self._by_text:
                self._by_text[text] = len(self.entries)
                self.entries.append(entry)
            return self._by_text[text]

        return {"part": self._table.entries[self._table.place(value, place)]}

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


@describe_value.register(Op)
def _op(value: Op, writer: GraphWriter) -> Json:
    return writer.part(value, lambda: _made_of(value, "op", writer))


@describe_value.register(Type)
def _type(value: Type, writer: GraphWriter) -> Json:
    return writer.part(value, lambda: _made_of(value, "type", writer))


@describe_value.register(MetaObject)
def _object(value: MetaObject, writer: GraphWriter) -> Json:
    return writer.part(value, lambda: _made_of(value, "object", writer))


@describe_value.register(Node)
def _node(value: Node, writer: GraphWriter) -> Json:
    raise ArtifactError("a property is a variable of some graph, which cannot be saved")


@describe_value.register(InnerGraph)
def _graph(value: InnerGraph, writer: GraphWriter) -> Json:
    return writer.part(value, lambda: {"graph": writer.graph(value)})


@describe_value.register(FunctionType)
@describe_value.register(BuiltinFunctionType)
def _function(value: object, writer: GraphWriter) -> Json:
    return {"function": name_of(value, "a property")}


@describe_value.register(Override)
def _override(value: Override, writer: GraphWriter) -> Json:
    return {"override": value.name}


@describe_value.register(type)
def _class(value: type, writer: GraphWriter) -> Json:
    return {"class": name_of(value, "a property")}


@describe_value.register(ScanInfo)
def _scan_info(value: ScanInfo, writer: GraphWriter) -> Json:
    return {"scan_info": {name: writer.value(each) for name, each in vars(value).items()}}


# -- comparing what was read back ------------------------------------------------------------------


def check_same(found: InnerGraph, expected: InnerGraph) -> None:
    """Compare two graphs node by node.

    Raises
    ------
    ArtifactError
        If an Op, a type or a constant is not equal to what it was made from; it is named.
    """
    numbers: dict[Variable, Variable] = dict(zip(found.inputs, expected.inputs, strict=True))
    pairs = list(zip(found.inputs, expected.inputs, strict=True))
    for one, other in zip(found.nodes, expected.nodes, strict=True):
        _check_op(one, other)
        for mine, theirs in zip(one.inputs, other.inputs, strict=True):
            _check_input(mine, theirs, numbers, other)
        pairs += zip(one.outputs, other.outputs, strict=True)
        numbers.update(zip(one.outputs, other.outputs, strict=True))
    for mine, theirs in zip(found.outputs, expected.outputs, strict=True):
        _check_input(mine, theirs, numbers, None)
    for mine, theirs in pairs:
        if mine.type != theirs.type or mine.name != theirs.name:
            raise ArtifactError(f"the variable {theirs} of {theirs.type} came back as {mine.type}")


def _check_op(found: Apply, expected: Apply) -> None:
    other = expected.op
    if _same_op(found.op, other):
        return
    kind = type(other)
    raise ArtifactError(
        f"the Op {other} ({kind.__module__}.{kind.__qualname__}) does not come back equal from "
        f"what its constructor names. {Remedy.PROPERTIES.text()}.",
        code=Code.CONSTRUCTOR,
    )


def _same_op(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(other, Blockwise):
        return one.signature == other.signature and _same_op(one.core_op, other.core_op)
    if isinstance(other, OpFromGraph):
        # Their own comparison calls the functions that override gradients.
        names = ("is_inline", "destroy_map", *getattr(type(other), "__props__", ()))
        check_same(InnerGraph.of(one), InnerGraph.of(other))
        return all(getattr(one, name, None) == getattr(other, name, None) for name in names)
    if isinstance(other, ScipyWrapperOp):
        # Before PyTensor 3.1 they equal only themselves.
        check_same(InnerGraph.of(one), InnerGraph.of(other))
        return all(getattr(one, n) == getattr(other, n) for n in parameters(type(other)))
    return one == other or _same_state(one, other)


def _same_state(one: object, other: object) -> bool:
    """For Ops that equal only themselves: whether they hold the same."""
    if type(one).__eq__ is not object.__eq__:
        return False
    mine, theirs = vars(one), vars(other)
    return mine.keys() == theirs.keys() and all(
        mine[name] is theirs[name] or bool(np.all(mine[name] == theirs[name])) for name in mine
    )


def _check_input(
    found: Variable, expected: Variable, numbers: dict[Variable, Variable], node: Apply | None
) -> None:
    if isinstance(expected, Constant):
        if not isinstance(found, Constant) or not _same_data(found, expected):
            raise ArtifactError(f"the constant {expected} does not come back equal")
    elif numbers.get(found) is not expected:
        raise ArtifactError(f"an input of {node} came back as another variable")


def _same_data(found: Constant, expected: Constant) -> bool:
    one, other = found.data, expected.data
    if found.type != expected.type or type(found) is not type(expected):
        return False
    if isinstance(other, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and _bits(one) == _bits(other)
    if issparse(other):
        return all(
            _bits(getattr(one, part)) == _bits(getattr(other, part))
            for part in ("data", "indices", "indptr")
        )
    if isinstance(other, np.random.Generator):
        return repr(one.bit_generator.state) == repr(other.bit_generator.state)
    return type(one) is type(other) and one == other


def _bits(array: object) -> bytes:
    return np.asarray(array).tobytes()


def check_saved(document: object, graphs: Mapping[str, InnerGraph], data: DataWriter) -> None:
    """Read back what is about to be saved, and compare.

    Raises
    ------
    ArtifactError
        If something would not come back; it is named.
    """
    content = json.loads(json.dumps([document, data.table.entries]))
    reader = GraphReader(
        DataReader(data, content[1]), content[0]["parts"], EveryName(), pytensor.__version__
    )
    for name, graph in graphs.items():
        check_same(reader.graph(content[0]["functions"][name]), graph)
