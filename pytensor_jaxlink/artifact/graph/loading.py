"""Functions from the graph layer of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.artifact.graph.functions import (
    make_cell,
    make_function,
    saved_graph,
)
from pytensor_jaxlink.artifact.graph.names import Names
from pytensor_jaxlink.artifact.graph.reader import GraphReader
from pytensor_jaxlink.artifact.signature import Cell, Signature
from pytensor_jaxlink.artifact.values import DataReader
from pytensor_jaxlink.link.linker import JAXLinker


def functions_of(
    document: Any,
    signatures: Mapping[str, Signature],
    cells: Sequence[Cell],
    data: DataReader,
    *,
    allow: Sequence[str],
    mode: Any,
    version: str,
) -> dict[str, Any]:
    """The functions of a file, compiled anew.

    Parameters
    ----------
    document
        The graph layer.
    signatures, cells
        What the manifest says of the functions and their state.
    data
        The data of the file.
    allow, mode
        See `pytensor_jaxlink.load`.
    version
        The version of PyTensor that wrote the file.
    """
    reader = GraphReader(data, document["parts"], Names(allow), version)
    state = [
        make_cell(described, cell, data.value(cell.value), reader)
        for described, cell in zip(document["cells"], cells, strict=True)
    ]
    functions = {}
    for name, signature in signatures.items():
        given = {
            place: state[spec.cell]
            for place, spec in enumerate(signature.inputs)
            if spec.cell is not None
        }
        graph = reader.graph(document["functions"][name], given)
        defaults = [spec.default and tuple(map(data.value, spec.default)) for spec in signature.inputs]
        functions[name] = make_function(
            graph, signature, defaults, _mode_of(signature) if mode is None else mode
        )
        functions[name].graph = saved_graph(graph, signature)
    return functions


def _mode_of(signature: Signature) -> Mode:
    """The mode that a function was compiled with."""
    include, exclude, require = signature.rewrites
    query = RewriteDatabaseQuery(include=include, exclude=exclude, require=require)
    return Mode(linker=JAXLinker(**signature.options), optimizer=query)
