"""Functions from the graph layer of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytensor.compile.mode import Mode, get_mode
from pytensor.configdefaults import config
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.c.basic import CLinker, DualLinker, OpWiseCLinker

from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.artifact.graphs.functions import make_cell, make_function, saved_graph
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph
from pytensor_jaxlink.artifact.graphs.reader import GraphReader
from pytensor_jaxlink.artifact.names import Names
from pytensor_jaxlink.artifact.signature import Cell, Signature
from pytensor_jaxlink.artifact.values import DataReader
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.link.options import KEPT_IN_FILES
from pytensor_jaxlink.lowering.host_functions import HostFunction, host_function
from pytensor_jaxlink.remedies import Remedy


class GraphLayer:
    """The functions of a file, to be compiled anew.

    Parameters
    ----------
    document
        The graph layer.
    cells
        What the manifest says of the shared variables.
    storages
        Lists that hold their values, which the functions share.
    data
        The data of the file.
    allow
        See `pytensor_jaxlink.load`.
    version
        The version of PyTensor that wrote the file.
    """

    def __init__(
        self,
        document: Parsed,
        cells: Sequence[Cell],
        storages: Sequence[list[object]],
        data: DataReader,
        *,
        allow: Sequence[str],
        version: str,
    ) -> None:
        self._functions = document["functions"]
        self._reader = GraphReader(data, document["parts"], Names(allow), version)
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

        Parameters
        ----------
        name, signature
            Of the function.
        storages
            For each input with a default the list that holds it, else None.
        mode
            What compiles it; None for the mode that it was compiled with.
        options
            Options of `JAXLinker` that a file may not say: for XLA, and the device.
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


def host_ops_of(
    parts: Parsed, data: DataReader, *, allow: Sequence[str], version: str
) -> Callable[[object], HostFunction]:
    """The maker of the functions of host steps that the compiled layer leaves to PyTensor."""
    reader = GraphReader(data, parts, Names(allow), version)

    def function_of(place: object) -> HostFunction:
        [node] = reader.part(place, InnerGraph).nodes
        return host_function(node)

    return function_of


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
