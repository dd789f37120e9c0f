"""Whole functions: their graphs as the user gave them, and their shared variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, cast

from pytensor.compile.executor import Function
from pytensor.compile.io import In, Out
from pytensor.compile.maker import FunctionMaker
from pytensor.compile.mode import Mode, get_mode
from pytensor.compile.sharedvalue import SharedVariable, shared
from pytensor.configdefaults import config
from pytensor.graph.basic import Variable, clone
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.type import Type
from pytensor.link.basic import Container
from pytensor.link.c.basic import CLinker, DualLinker, OpWiseCLinker

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph
from pytensor_jaxlink.artifact.graphs.reader import GraphReader
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter
from pytensor_jaxlink.artifact.names import name_of
from pytensor_jaxlink.artifact.signature import Cell, Input, Output, Signature
from pytensor_jaxlink.artifact.values import Table
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.graph import as_kind
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.link.options import KEPT_IN_FILES
from pytensor_jaxlink.lowering.host_functions import HostFunction, host_function
from pytensor_jaxlink.plan import HostStep, Kind
from pytensor_jaxlink.remedies import Remedy


@dataclass(frozen=True)
class SavedGraph:
    """The graph of a loaded function, as PyTensor variables, for use in any mode.

    Attributes
    ----------
    inputs, outputs
        What the function takes and returns.
    updates
        The new value of each shared variable (or other input) that a call changes.
    state
        The shared variables, also those that no update changes, in order.
    """

    inputs: list[Variable]
    outputs: list[Variable]
    updates: dict[Variable, Variable]
    state: list[SharedVariable]


class _StateValue(NamedTuple):
    """A value that a function keeps between calls."""

    name: str | None
    type: Kind
    storage: list[object]
    variable: Variable | None  # None for an array of a function of JAX


class Cells:
    """The values that several functions keep, each once: shared variables, arrays."""

    def __init__(self) -> None:
        self._table = Table[_StateValue]()

    @property
    def variables(self) -> list[Variable | None]:
        """The shared variables; None for an array of a function of JAX."""
        return [kept.variable for kept in self._table.entries]

    @property
    def values(self) -> list[object]:
        """Their values."""
        return [kept.storage[0] for kept in self._table.entries]

    def place(self, variable: Variable, storage: list[object]) -> int:
        """The number of the cell that a variable and others share."""
        kept = _StateValue(variable.name, as_kind(variable.type), storage, variable)
        return self._table.place(storage, lambda: kept)

    def hold(self, name: str, kind: Kind, array: object) -> int:
        """The number of the cell of an array that is no shared variable, each object once."""
        return self._table.place(array, lambda: _StateValue(name, kind, [array], None))

    def described(self, value: Callable[[object], Json]) -> list[Cell]:
        """The cells for the manifest; ``value`` describes their values."""
        return [
            Cell(each.name, each.type, value(each.storage[0]), *_conversion(each.variable))
            for each in self._table.entries
        ]


def _conversion(variable: Variable | None) -> tuple[bool, bool | None]:
    """How strictly a shared variable converts what is put into it."""
    container = getattr(variable, "container", None)  # what `Function.copy` puts there has none
    return (False, None) if container is None else (container.strict, container.allow_downcast)


def describe_signature(
    function: JAXFunction, cells: Cells, value: Callable[[object], Json]
) -> Signature:
    """How a function is called; ``value`` describes defaults."""
    maker: Any = function.maker
    inputs: list[Input] = []
    for spec, container in zip(maker.inputs, function.input_storage, strict=True):
        cell = cells.place(spec.variable, container.storage) if spec.implicit else None
        given = cell is None and spec.value is not None
        inputs.append(
            Input(
                name=spec.name,
                type=as_kind(spec.variable.type),
                cell=cell,
                default=(value(container.storage[0]),) if given else None,
                updated=spec.update is not None,
                strict=bool(spec.strict),
                allow_downcast=spec.allow_downcast,
                borrow=bool(spec.borrow),
                mutable=bool(spec.mutable),
            )
        )
    outputs = [
        Output(spec.variable.name, as_kind(spec.variable.type), bool(spec.borrow))
        for spec in maker.outputs[: len(function.interface.outputs)]
    ]
    mode = get_mode(maker.mode)
    options = asdict(mode.linker.options)
    return Signature(
        tuple(inputs),
        tuple(outputs),
        function.interface.form,
        function.name,
        bool(function.trust_input),
        {name: options[name] for name in (*KEPT_IN_FILES, "compiler_options")},
        tags_of(mode.provided_optimizer),
    )


def tags_of(query: object) -> tuple[tuple[str, ...], ...]:
    """The tags of the rewrites: those included, excluded and required."""
    tags = [getattr(query, name, ()) or () for name in ("include", "exclude", "require")]
    return tuple(tuple(sorted(map(str, each))) for each in tags)


def describe_cell(variable: Variable | None, writer: GraphWriter) -> Json:
    """A shared variable, without its value; None for an array that is none."""
    if variable is None:
        return None
    if not isinstance(variable, SharedVariable):  # what `Function.copy` puts in the place of one
        return {"part": writer.place(variable.type), "class": None}
    return {"part": writer.place(variable.type), "class": name_of(type(variable), f"{variable}")}


def make_cell(
    described: Parsed, cell: Cell, storage: list[object], reader: GraphReader
) -> SharedVariable:
    """A shared variable whose value is in ``storage``."""
    kind: Any = reader.part(described["part"], Type)
    name = described["class"]
    found = reader.kind(name, (SharedVariable,)) if name else type(shared(storage[0]))
    container = Container(
        kind, storage, strict=cell.strict, allow_downcast=cell.allow_downcast, name=cell.name
    )
    strict = cast("bool", None)  # what PyTensor wants to see beside a container
    return found(type=kind, value=None, strict=strict, container=container, name=cell.name)


class GraphFunction(Function):
    """A function of another mode than ours, loaded from a file: it has a ``graph``."""

    graph: SavedGraph


def make_function(
    graph: InnerGraph,
    signature: Signature,
    storages: Sequence[list[object] | None],
    mode: Any,
) -> Any:
    """A function from its graph, whose shared variables hold their values.

    ``storages`` has for each input with a default the list that holds it, else None.
    """
    # A copy, because the maker rewrites the graph in place.
    _, copies = clone(graph.inputs, graph.outputs, copy_inputs=False, copy_orphans=False)
    count = len(signature.outputs)
    updated = iter(copies[count:])
    specs = []
    for variable, spec, storage in zip(graph.inputs, signature.inputs, storages, strict=True):
        update = next(updated) if spec.updated else None
        value = None
        is_shared = isinstance(variable, SharedVariable)
        if is_shared:
            value = variable.container
        elif storage is not None:
            value = Container(variable, storage)
        specs.append(
            In(
                variable,
                name=spec.name,
                value=value,
                update=update,
                mutable=spec.mutable,
                strict=spec.strict,
                allow_downcast=spec.allow_downcast,
                borrow=spec.borrow or spec.mutable,  # an updated input is mutable
                shared=is_shared,
                implicit=is_shared,
            )
        )
    wrapped = [
        Out(variable, borrow=spec.borrow)
        for variable, spec in zip(copies[:count], signature.outputs, strict=True)
    ]
    if signature.form != "list":
        wrapped = wrapped[0] if signature.form == "one" else None
    mode = get_mode(mode)
    options: dict[str, Any] = {}
    if mode.function_maker is FunctionMaker:
        options["function_class"] = GraphFunction
    maker = mode.function_maker(
        specs,
        wrapped,
        **options,
        mode=mode,
        accept_inplace=True,
        on_unused_input="ignore",
        name=signature.name,
        trust_input=signature.trust_input,
    )
    return maker.create()


def saved_graph(graph: InnerGraph, signature: Signature) -> SavedGraph:
    """The variables of a function by their part."""
    count = len(signature.outputs)
    changed = [
        variable
        for variable, spec in zip(graph.inputs, signature.inputs, strict=True)
        if spec.updated
    ]
    return SavedGraph(
        [variable for variable in graph.inputs if not isinstance(variable, SharedVariable)],
        graph.outputs[:count],
        dict(zip(changed, graph.outputs[count:], strict=True)),
        [variable for variable in graph.inputs if isinstance(variable, SharedVariable)],
    )


# -- loading ---------------------------------------------------------------------------------------


class GraphLayer:
    """The functions of a file, to be compiled anew.

    They share the shared variables, whose values are in ``storages``; ``reader`` has their parts.
    """

    def __init__(
        self,
        document: Parsed,
        cells: Sequence[Cell],
        storages: Sequence[list[object]],
        reader: GraphReader,
    ) -> None:
        self._functions, self._reader = document["functions"], reader
        self._state: list[Any] = [
            None if described is None else make_cell(described, cell, storage, self._reader)
            for described, cell, storage in zip(document["cells"], cells, storages, strict=True)
        ]

    def function(
        self,
        name: str,
        signature: Signature,
        storages: Sequence[list[object] | None],
        mode: object,
        options: Mapping[str, object],
    ) -> Any:
        """A function by its name.

        ``storages`` has for each input with a default the list that holds it, else None.  Without a
        ``mode`` it is the one of the saved function, with ``options`` that a file may not say: for
        XLA, and the device.
        """
        given = {
            place: self._state[spec.cell]
            for place, spec in enumerate(signature.inputs)
            if spec.cell is not None
        }
        graph = self._reader.graph(self._functions[name], given)
        mode = _mode_of(signature, options) if mode is None else mode
        _check_mode(mode)
        with config.change_flags(cxx=""):  # constants of Ops without Python code are folded by C
            function = make_function(graph, signature, storages, mode)
        function.graph = saved_graph(graph, signature)
        return function


def host_op_of(reader: GraphReader, place: object, step: HostStep) -> HostFunction:
    """The function of a host step that the compiled layer leaves to PyTensor."""
    [node] = reader.part(place, InnerGraph).nodes
    if [len(node.inputs), len(node.outputs)] != [len(step.arguments), len(step.results)]:
        raise ValueError(f"{step.title} has other inputs and outputs than {node.op}")
    return host_function(node)


def _mode_of(signature: Signature, given: Mapping[str, Any]) -> Mode:
    """The mode that a function was compiled with, as far as a file may say it."""
    options = {name: signature.options[name] for name in KEPT_IN_FILES if name in signature.options}
    include, exclude, require = signature.rewrites
    query = RewriteDatabaseQuery(include=include, exclude=exclude, require=require)
    return Mode(linker=JAXLinker(**options, **given), optimizer=query)


def _check_mode(mode: object) -> None:
    """Refuse modes that generate C code: Ops of a file put their properties into it."""
    try:
        found = get_mode(mode)
    except ValueError as error:
        text = f"mode={mode!r} is no mode of PyTensor: {error}"
        raise ArtifactError(text, code=Code.LOAD_ARGUMENTS) from error
    linker = getattr(found, "linker", found)  # ours may be given in the place of a mode
    linkers = getattr(linker, "linkers", (linker,))
    if getattr(found, "check_c_code", False) or any(map(_makes_c_code, linkers)):
        raise ArtifactError(
            f"mode={mode!r} generates C code, and none is generated from a file. "
            f"{Remedy.OTHER_MODE.text()}.",
            code=Code.C_CODE,
        )


def _makes_c_code(linker: object) -> bool:
    return isinstance(linker, CLinker | DualLinker | OpWiseCLinker) or bool(
        getattr(linker, "c_thunks", False)
    )
