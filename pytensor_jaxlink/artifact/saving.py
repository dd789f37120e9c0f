"""Saving: from functions to the members of a file."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
from pytensor.configdefaults import config

from pytensor_jaxlink.artifact.abandoned import delete_abandoned
from pytensor_jaxlink.artifact.container import Member, Place, write_container
from pytensor_jaxlink.artifact.describing import DataWriter
from pytensor_jaxlink.artifact.documents import dump_document
from pytensor_jaxlink.artifact.exporting.layer import LayerWriter, Wanted
from pytensor_jaxlink.artifact.exporting.pure import describe_pure
from pytensor_jaxlink.artifact.exporting.regions import Target
from pytensor_jaxlink.artifact.graph.functions import (
    Cells,
    describe_cell,
    describe_signature,
    graph_of,
    kind_of,
)
from pytensor_jaxlink.artifact.graph.verify import check_saved
from pytensor_jaxlink.artifact.graph.writer import GraphWriter
from pytensor_jaxlink.artifact.placement import placement_of
from pytensor_jaxlink.artifact.signature import Cell, Signature, to_document
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.link.function import JAXFunction
from pytensor_jaxlink.link.jaxify import PureFunction
from pytensor_jaxlink.runtime import is_forked_child, refused

_PACKAGES = ("pytensor", "jax", "jaxlib", "numpy", "scipy")


def save(  # noqa: PLR0913 -- all but two are options with names
    functions: JAXFunction | Mapping[str, JAXFunction],
    path: Place,
    *,
    graph: bool = True,
    compiled: bool = True,
    dims: Mapping[str, Any] | None = MappingProxyType({}),
    platforms: Sequence[str] | None = None,
    static: Mapping[str, Any] = MappingProxyType({}),
    vjp_order: int = 0,
) -> None:
    """Write functions to a file, with their shared variables as they are now.

    Until the file is complete, what was there before stays.  A saved function is a program: who
    loads and calls it runs it.

    Parameters
    ----------
    functions
        A function of one of our modes, or several by name: what they have in common (arrays,
        shared variables) is written once, and is common to them again when they are loaded.
    path
        Where: a path, or a binary file that is open for writing.
    graph
        Whether to write the PyTensor graphs: what every version of PyTensor and JAX can load.
    compiled
        Whether to write the compiled regions: what runs at once, and without PyTensor.  Needs the
        package flatbuffers.
    dims
        The code is made for open dimensions where the regions allow it.  For the name of an input,
        a tuple with a name, a number, or None for each axis: dimensions of the same name are equal.
        None asks for code for the shapes that the function was called with, and no other.
    platforms
        What the code is for, such as ``("cpu", "cuda", "tpu")``; the default is where this runs.
    static
        For names of inputs that are sizes the values, one or a list, for which there is to be code,
        beside those that the function was called with.
    vjp_order
        How often the loaded code can be differentiated backward, through ``jax_fn``.

    Raises
    ------
    ArtifactError
        If something cannot be saved; it is named, and nothing is written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink import load, save
    >>> x, total = pt.vector("x"), pytensor.shared(0.0, name="total")
    >>> add = pytensor.function([x], total, updates={total: total + x.sum()}, mode="JAXSELECTIVE")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "add.jaxlink"
    >>> save(add, path)
    >>> again = load(path, prefer="graph")
    >>> _ = again(x=np.ones(3))
    >>> float(again(np.ones(2)))
    3.0
    """
    given = dict(functions) if isinstance(functions, Mapping) else {"": functions}
    _check(given)
    named = {
        name: each.function if isinstance(each, PureFunction) else each
        for name, each in given.items()
    }
    if compiled and is_forked_child():
        if not graph:
            raise refused("nothing can be compiled")
        compiled = False  # JAX exports in threads
    data, cells = DataWriter(), Cells()
    signatures = {name: _describe(function, cells, data.value) for name, function in given.items()}
    data.keep_overlaps(storage[0] for storage in cells.values)
    described = [
        Cell(variable.name, kind_of(variable.type), data.value(storage[0]))
        for variable, storage in zip(cells.variables, cells.values, strict=True)
    ]
    members: dict[str, Member] = {}
    layers: dict[str, Any] = {}
    if compiled:
        target = Target(None if platforms is None else tuple(platforms), vjp_order)
        wanted = Wanted(dims, static, target)
        _check_names(signatures.values(), dims=dims or {}, static=static)
        layers["compiled"] = _compiled_layer(named, data, wanted, members)
    if graph:
        layers["graph"] = {}
        members["graph.json"] = [dump_document(_graph_layer(named, cells, data))]
    members["data.json"] = [dump_document(data.table.entries)]
    manifest = {
        "saved_by": _versions(),
        "single": not isinstance(functions, Mapping),
        "functions": {name: to_document(found) for name, found in signatures.items()},
        "cells": [to_document(cell) for cell in described],
        "placements": [placement_of(storage[0]) for storage in cells.values],
        "layers": layers,
    }
    write_container(path, manifest, {**members, **data.members})
    if isinstance(path, str | os.PathLike):
        _delete_abandoned(Path(path))


def _describe(function: Any, cells: Cells, value: Callable[[Any], Any]) -> Signature:
    describe = describe_pure if isinstance(function, PureFunction) else describe_signature
    return describe(function, cells, value)


def _delete_abandoned(path: Path) -> None:
    """Delete what processes that were killed while they saved to the same place have left."""
    with suppress(OSError), os.scandir(path.absolute().parent) as entries:
        delete_abandoned(entries, re.compile(re.escape(path.name)))


def _check(named: Mapping[str, Any]) -> None:
    problems = [
        f"{name or 'the function'} is a {type(function).__name__}"
        for name, function in named.items()
        if not isinstance(function, JAXFunction | PureFunction)
    ]
    problems += [f"{name!r} is not a name" for name in named if not isinstance(name, str)]
    if problems or not named:
        raise ArtifactError(
            f"save takes functions compiled with mode='JAXSELECTIVE' (or another JAXLinker), one "
            f"or a dictionary of several by name: {'; '.join(problems) or 'there is none'}"
        )


def _graph_layer(named: Mapping[str, Any], cells: Cells, data: DataWriter) -> Any:
    writer = GraphWriter(data)
    graphs = {name: graph_of(function) for name, function in named.items()}
    document = {
        "functions": {name: writer.graph(graph) for name, graph in graphs.items()},
        "cells": [describe_cell(variable, writer) for variable in cells.variables],
    }
    document["parts"] = writer.entries
    check_saved(document, graphs, data)
    return document


def _check_names(signatures: Iterable[Signature], **given: Mapping[str, Any]) -> None:
    names = {spec.name for signature in signatures for spec in signature.inputs} - {None}
    for option, values in given.items():
        unknown = sorted(set(values) - names)
        if unknown:
            raise ArtifactError(
                f"{option} names {', '.join(unknown)}, and the inputs are "
                f"{', '.join(sorted(map(str, names)))}"
            )


def _compiled_layer(
    named: Mapping[str, Any], data: DataWriter, wanted: Wanted, members: dict[str, Member]
) -> Any:
    """Add the members of the compiled layer; returns what the manifest says of it."""
    host = GraphWriter(data)
    writer = LayerWriter(data, host, wanted)
    document = {name: writer.function(name, function) for name, function in named.items()}
    members["compiled.json"] = [dump_document(document)]
    members.update(writer.members)
    needs_pytensor = bool(host.entries)
    if needs_pytensor:
        members["host.json"] = [dump_document(host.entries)]
    today = datetime.now(UTC).date()
    return {
        "functions": writer.summary,
        "platforms": list(wanted.target.platforms or [jax.default_backend()]),
        "vjp_order": wanted.target.vjp_order,
        "needs_pytensor": needs_pytensor,
        "float_type": config.floatX,
        "saved_on": today.isoformat(),
        # JAX promises to read what it has exported for six months.
        "good_until": (today + timedelta(days=180)).isoformat(),
    }


def _versions() -> dict[str, str]:
    from pytensor_jaxlink import __version__

    found = {package: version(package) for package in _PACKAGES}
    return {"pytensor_jaxlink": __version__, "python": platform.python_version(), **found}
