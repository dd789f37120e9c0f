"""PyTensor graphs from the table of their parts.

Nodes are put together as they were, with the types that were saved.  Each Op is asked by its
``make_node`` whether it takes and gives these types, and constants have to be of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.configdefaults import config
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.graph.utils import MetaObject
from pytensor.link.c.type import generic
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Choose
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.optimize import ScipyWrapperOp
from pytensor.typed_list.basic import MakeList
from pytensor.typed_list.type import TypedListType

from pytensor_jaxlink.artifact.documents import Json, Parsed, entry_at
from pytensor_jaxlink.artifact.graphs.nested import optimiser_parameters
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph, build_part
from pytensor_jaxlink.artifact.graphs.writer import OF_GRAPHS, GraphWriter
from pytensor_jaxlink.artifact.names import EveryName, Names
from pytensor_jaxlink.artifact.values import Checksums, Codec, DataReader, DataWriter
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.trees import a_class

_KINDS: dict[str, tuple[type, ...]] = {"op": (Op,), "type": (Type,), "object": (MetaObject,)}
_CLASSES = (Exception, Op, Type, MetaObject)


class GraphReader:
    """Makes graphs from what a `GraphWriter` of PyTensor ``version`` has written."""

    def __init__(self, data: DataReader, entries: Iterable[object], names: Names, version: str):
        self._data, self.names, self._version = data, names, version
        graphs = {codec.tag: codec for codec in OF_GRAPHS.values()}
        self.codecs: Mapping[str, Codec] = {**data.codecs, **graphs}
        self._parts: list[object] = []
        for entry in entries:
            self._parts.append(self._entry(entry))

    value = DataReader.value  # the same JSON, with more kinds of values

    def data(self, place: object) -> Any:
        """An object of the data."""
        return self._data.data(place)

    def part(self, place: object, kind: type = object) -> Any:
        """A part by its place in the table."""
        found = entry_at(self._parts, place, "part")
        if not isinstance(found, kind):
            raise ValueError(f"part {place} is no {kind.__name__}")
        return found

    def kind(self, name: str, kinds: tuple[type, ...] = _CLASSES) -> type:
        """The class with a name."""
        return self.names.of_class(name, kinds)

    def _entry(self, entry: Parsed) -> object:
        if set(entry) == {"graph"}:
            return self.graph(entry["graph"])
        [kind] = set(entry) & set(_KINDS)
        name = entry[kind]
        found = self.kind(name, _KINDS[kind])
        try:
            properties = {key: self.value(each) for key, each in entry["of"].items()}
            return build_part.dispatch(found)(found, properties)
        except ArtifactError:
            raise
        except Exception as error:
            raise ArtifactError(
                f"the {kind} {name} cannot be made as it was saved, {self._versions()}: {error}",
                code=Code.OTHER_VERSION,
            ) from error

    def _versions(self) -> str:
        if self._version == pytensor.__version__:
            return f"by PyTensor {self._version}, which is also here"
        return f"by PyTensor {self._version}; here is PyTensor {pytensor.__version__}"

    def graph(
        self, described: Parsed, given: Mapping[int, Variable] = MappingProxyType({})
    ) -> InnerGraph:
        """A graph from its description; ``given`` are inputs that are there already."""
        data = {place: self.value(value) for place, value in described["constants"]}
        count = described["inputs"]
        specs: list[Parsed] = described["variables"]
        variables: list[Variable | None] = [given.get(place) for place in range(len(specs))]

        def known(place: int) -> Variable:
            found = entry_at(variables, place, "variable")
            if found is None and (place < count or place in data):
                found = variables[place] = self._root(specs[place], data, place)
            if found is None:
                raise ValueError(f"variable {place} is read before it is computed")
            return found

        inputs = [known(place) for place in range(count)]
        nodes = []
        for op, reads, writes in described["nodes"]:
            node = self._node(
                self.part(op, Op), list(map(known, reads)), [specs[place] for place in writes]
            )
            for place, variable in zip(writes, node.outputs, strict=True):
                if variables[place] is not None:
                    raise ValueError(f"variable {place} is computed twice")
                variables[place] = variable
            nodes.append(node)
        return InnerGraph(inputs, list(map(known, described["outputs"])), nodes)

    def _root(self, spec: Parsed, data: dict[int, object], place: int) -> Variable:
        kind, name, *tags = spec
        if kind is None and data.get(place, self) is None:
            return _tagged(Constant(generic, None, name=name), tags)
        found = self.part(kind, Type)
        variable = (
            found.make_constant(found.filter(data[place], strict=True), name=name)
            if place in data
            else found.make_variable(name=name)
        )
        return _tagged(variable, tags)

    def _node(self, op: Op, inputs: list[Variable], specs: list[Parsed]) -> Apply:
        outputs = [
            _tagged(self.part(kind, Type).make_variable(name=name), tags)
            for kind, name, *tags in specs
        ]
        self._check_node(op, inputs, outputs)
        return Apply(op, inputs, outputs)

    def _check_node(self, op: Op, inputs: list[Variable], outputs: list[Variable]) -> None:
        """Refuse a node that PyTensor would not make: somebody put it together.

        An Op whose `make_node` takes its inputs in another form than they have in the node (the
        indices of a sparse matrix as one tuple) cannot be asked.
        """
        arguments = _arguments(op, inputs)
        make: Callable[..., Apply] = op.make_node
        if not _can_be_asked(op, arguments):
            return
        try:
            made = make(*arguments)
            if _is_as(made, inputs, outputs):
                return
            # Saved under the other `floatX`, which decides what the quotient of integers is.
            with config.change_flags(floatX=_OTHER[config.floatX]):
                if _is_as(make(*arguments), inputs, outputs):
                    return
        except Exception as error:
            text = f"{op} was saved {self._versions()}, refuses: {error}"
            raise ArtifactError(text, code=Code.OTHER_VERSION) from error
        raise ArtifactError(
            f"{op} was saved {self._versions()} and gives {list(made.outputs)} where "
            f"{[variable.type for variable in outputs]} was saved",
            code=Code.OTHER_VERSION,
        )


_OTHER = {"float64": "float32", "float32": "float64", "float16": "float32"}


def _is_as(made: Apply, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> bool:
    return _go_for(made.inputs, inputs) and _go_for(made.outputs, outputs)


def _can_be_asked(op: Op, arguments: Sequence[object]) -> bool:
    try:
        signature(op.make_node).bind(*arguments)
    except TypeError:
        return False
    return True


def _arguments(op: Op, inputs: list[Variable]) -> Sequence[object]:
    """The arguments of an Op's ``make_node`` for inputs that it has made."""
    if isinstance(op, MakeList):
        return [inputs]
    if isinstance(op, Choose) and isinstance(inputs[1].type, TypedListType):
        return [inputs[0], [inputs[1].type.ttype()]]  # it makes the list
    return inputs


def _go_for(made: Sequence[Variable], saved: Sequence[Variable]) -> bool:
    """Return True if variables have the types of those that an Op has made, or narrower ones."""
    return len(made) == len(saved) and all(
        new.type.in_same_class(old.type) or new.type.is_super(old.type)
        for new, old in zip(made, saved, strict=True)
    )


def _tagged(variable: Variable, tags: Sequence[Mapping[str, object]]) -> Variable:
    for name, value in tags[0].items() if tags else ():
        if not name.isidentifier() or type(value) not in (bool, int, str):
            raise ValueError(f"a tag {name!r} of a variable")
        setattr(variable.tag, name, value)
    return variable


# -- before a graph is saved it is read back, and compared -----------------------------------------


def check_same(found: InnerGraph, expected: InnerGraph) -> None:
    """Compare two graphs node by node.

    Raises
    ------
    ArtifactError
        If an Op, a type or a constant is not equal to what it was made from; it is named.
    """
    for one, other in zip(found.nodes, expected.nodes, strict=True):
        _check_op(one, other)
    for one, other in zip(_variables(found), _variables(expected), strict=True):
        if one.type != other.type or one.name != other.name:
            raise ArtifactError(f"the variable {other} of {other.type} came back as {one.type}")
        if isinstance(other, Constant) and _content(one) != _content(other):
            raise ArtifactError(f"the constant {other} does not come back equal")


def _variables(graph: InnerGraph) -> list[Variable]:
    nodes = [variable for node in graph.nodes for variable in (*node.inputs, *node.outputs)]
    return [*graph.inputs, *nodes, *graph.outputs]


def _content(variable: Any) -> tuple[type, Json, list[Json]]:
    data = Checksums()
    described = GraphWriter(data).value(getattr(variable, "data", None))
    return type(variable), described, data.table.entries


def _check_op(found: Apply, expected: Apply) -> None:
    other = expected.op
    if _same_op(found.op, other):
        return
    raise ArtifactError(
        f"the Op {other}, {a_class(other)}, does not come back equal from "
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
    if isinstance(other, Scan) and one != other:  # in its step may be such an `OpFromGraph`
        check_same(InnerGraph.of(one), InnerGraph.of(other))
        names = ("info", "profile", "truncate_gradient", "name", "allow_gc")
        return all(getattr(one, name) == getattr(other, name) for name in names)
    if isinstance(other, ScipyWrapperOp):
        # Before PyTensor 3.1 they equal only themselves.
        check_same(InnerGraph.of(one), InnerGraph.of(other))
        return all(getattr(one, n) == getattr(other, n) for n in optimiser_parameters(type(other)))
    return one == other or _same_state(one, other)


def _same_state(one: object, other: object) -> bool:
    """For Ops that equal only themselves: whether they hold the same."""
    if type(one).__eq__ is not object.__eq__:
        return False
    mine, theirs = vars(one), vars(other)
    return mine.keys() == theirs.keys() and all(
        mine[name] is theirs[name] or bool(np.all(mine[name] == theirs[name])) for name in mine
    )


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
