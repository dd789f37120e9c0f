"""PyTensor graphs from the table of their parts.

Nodes are put together as they were, with the types that were saved.  Each Op is asked by its
``make_node`` whether it takes and gives these types, and constants have to be of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from types import MappingProxyType
from typing import Any

import pytensor
from pytensor.configdefaults import config
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.graph.utils import MetaObject
from pytensor.link.c.type import generic
from pytensor.tensor.basic import Choose
from pytensor.typed_list.basic import MakeList

from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph, build_part
from pytensor_jaxlink.artifact.graphs.writer import OF_GRAPHS
from pytensor_jaxlink.artifact.names import Names
from pytensor_jaxlink.artifact.values import Codec, DataReader
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError

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
        if type(place) is not int or not 0 <= place < len(self._parts):
            raise ValueError(f"a reference to {place!r}, which is no part")
        found = self._parts[place]
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

        def known(place: object) -> Variable:
            if type(place) is not int or not 0 <= place < len(specs):
                raise ValueError(f"a reference to {place!r}, which is no variable")
            if variables[place] is None and (place < count or place in data):
                variables[place] = self._root(specs[place], data, place)
            found = variables[place]
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
    if isinstance(op, Choose) and (owner := inputs[1].owner) is not None:
        return [inputs[0], owner.inputs]  # of which it makes a list
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
