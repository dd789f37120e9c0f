"""Saving: from functions to the members of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType

from pytensor.compile.executor import Function

from pytensor_jaxlink.artifact.abandoned import delete_abandoned
from pytensor_jaxlink.artifact.compiled.calling import TreeFunction, check_trees
from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from pytensor_jaxlink.artifact.container import Member, Place, problem_of_place, write_container
from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.exporting.examples import by_name
from pytensor_jaxlink.artifact.exporting.layer import Wanted, compiled_layer
from pytensor_jaxlink.artifact.exporting.region_export import Target
from pytensor_jaxlink.artifact.exporting.traced import TracedFunction, array_kind
from pytensor_jaxlink.artifact.graphs.functions import (
    Cells,
    describe_cell,
    describe_signature,
)
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph, op_of_jax
from pytensor_jaxlink.artifact.graphs.reader import check_saved
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter
from pytensor_jaxlink.artifact.placement import placement_of
from pytensor_jaxlink.artifact.records import describe
from pytensor_jaxlink.artifact.signature import SavedTrees, Signature
from pytensor_jaxlink.artifact.skeletons import Leaf, describe_skeleton
from pytensor_jaxlink.artifact.values import DataWriter
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.frames import warn_at_user_line
from pytensor_jaxlink.link.jax_function import JAXFunction
from pytensor_jaxlink.link.jaxify import PureFunction
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import is_forked_child, refused
from pytensor_jaxlink.versions import versions


def save(  # noqa: PLR0913 -- all but two are options with names
    functions: Callable[..., object] | Mapping[str, Callable[..., object]],
    path: Place,
    *,
    examples: object = None,
    static_argnums: object = (),
    graph: bool = True,
    compiled: bool = True,
    dims: Mapping[str, object] | None = MappingProxyType({}),
    platforms: Sequence[str] | None = None,
    static: Mapping[str, object] = MappingProxyType({}),
    vjp_order: int = 0,
) -> None:
    """Write functions to a file, with their shared variables as they are now.

    Until the file is complete, what was there before stays.  A saved function is a program: who
    loads and calls it runs it.

    Parameters
    ----------
    functions
        A function of one of our modes, one that `jaxify` made, or any function that JAX can trace:
        a plain or jitted function, a `functools.partial`, a bound method, a callable tree (a module
        of equinox).  Or several by name: what they have in common (arrays, shared variables) is
        written once, and is common to them again when they are loaded.
    path
        Where: a path, or a binary file that is open for writing.
    examples
        For a function of JAX, the arguments of a call: a tuple, a dictionary of keywords, or what
        ``inspect.signature(fn).bind(...)`` gives; or a list of several calls.  Their shapes, types,
        trees and static values are those that the file has code for.  For several functions, a
        dictionary by name.
    static_argnums
        The arguments of a function of JAX that are static as a whole, by position or name; those of
        a jitted function are known.  Leaves that are neither arrays nor numbers are always static.
    graph
        Whether to write the PyTensor graphs: what every version of PyTensor and JAX can load.
    compiled
        Whether to write the compiled regions: what runs at once, and without PyTensor.  Needs the
        package flatbuffers.
    dims
        The code is made for open dimensions where the regions allow it.  For the name of an input,
        a tuple with a name, a number, or None for each axis: dimensions of the same name are equal.
        None asks for code for the shapes that the function was called with, and no other.  Of a
        function of JAX no dimension is open that has no name here.  Its inputs are the leaves of
        its arguments: ``"x"``, ``"params['w']"``.
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

    A function of JAX, whose arguments and results are trees:

    >>> import jax
    >>> def affine(params, x):
    ...     return {"y": params["slope"] * x + params["start"]}
    >>> line = {"slope": np.float64(2.0), "start": np.float64(1.0)}
    >>> save(jax.jit(affine), path, examples=(line, np.arange(3.0)), dims={"x": "n"})
    >>> load(path)(line, np.arange(2.0))
    {'y': Array([1., 3.], dtype=float64)}
    """
    given = dict(functions) if isinstance(functions, Mapping) else {"": functions}
    _check(given, path)
    _check_not_loaded(given)
    if not (graph or compiled):
        text = "graph=False and compiled=False leave nothing to save"
        raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
    named = {n: found for n, each in given.items() if (found := _of_graph(each)) is not None}
    of_jax = given.keys() - named.keys()
    if compiled and is_forked_child():
        if not graph or of_jax:
            raise refused("nothing can be compiled")
        compiled = False  # JAX exports in threads
    if of_jax and not compiled:
        text = f"{_listed(of_jax)}: a function of JAX has a compiled layer only"
        raise ArtifactError(text, code=Code.NO_GRAPH_LAYER)
    traced = _traced(given, of_jax, examples, static_argnums)
    data, cells = DataWriter(), Cells()
    signatures = {
        name: _of_traced(traced[name], cells, dims or {}, static)
        if name in traced
        else _describe(given[name], named[name], cells, data.value)
        for name in given
    }
    for signature in filter(attrgetter("trees"), signatures.values()):
        check_trees(signature, data)
    data.keep_overlaps(cells.values)
    described = cells.described(data.value)
    graphs = {}
    if graph:  # as they were before they were rewritten, updates after outputs
        given_graphs = {name: function.maker.given for name, function in named.items()}
        graphs = {n: InnerGraph.between(g.inputs, g.outputs) for n, g in given_graphs.items()}
    without_graph = _without_graph(graphs, of_jax, compiled=compiled)
    members: dict[str, Member] = {}
    layers: dict[str, Json] = {}
    if compiled:
        target = Target(None if platforms is None else tuple(platforms), vjp_order)
        wanted = Wanted(dims, static, target)
        _check_names(signatures.values(), dims=dims or {}, static=static)
        layers["compiled"] = compiled_layer({**named, **traced}, data, wanted, members)
    kept = {name: each for name, each in graphs.items() if name not in without_graph}
    if kept:
        layers["graph"] = {}
        members["graph.json"] = [dump_document(_graph_layer(kept, cells, data))]
    manifest = {
        "saved_by": versions(),
        "single": not isinstance(functions, Mapping),
        "functions": {name: describe(found) for name, found in signatures.items()},
        "cells": [describe(cell) for cell in described],
        "placements": list(map(placement_of, cells.values)),
        "layers": layers,
        "without_graph": without_graph,
    }
    write_container(path, manifest, {**members, **data.file()})
    if isinstance(path, str | os.PathLike):
        _delete_abandoned(Path(path))


def _traced(
    given: Mapping[str, Callable[..., object]],
    of_jax: Collection[str],
    examples: object,
    static_argnums: object,
) -> dict[str, TracedFunction]:
    """The functions of JAX, traced for their examples."""
    if not of_jax:
        if examples is not None or static_argnums != ():
            raise ArtifactError(
                "examples and static_argnums are for functions of JAX; one of PyTensor is called, "
                "or compiled (f.compile), with the shapes that it is to be saved for",
                code=Code.SAVE_ARGUMENTS,
            )
        return {}
    if [*given] == [""]:
        return {"": TracedFunction("", given[""], examples, static_argnums)}
    names = sorted(of_jax)
    asked = by_name("static_argnums", static_argnums or {}, names)
    examples = by_name("examples", examples or {}, names)
    return {
        name: TracedFunction(name, given[name], examples.get(name), asked.get(name, ()))
        for name in given
        if name in of_jax
    }


def _of_traced(
    function: TracedFunction, cells: Cells, dims: Mapping[str, object], static: Mapping[str, object]
) -> Signature:
    places = [
        cells.hold(name, array_kind(array.shape, array.dtype), array)
        for name, array in zip(function.state_names, function.state, strict=True)
    ]
    signature = function.signature(places, dims)
    asked = {str(spec.name) for spec in signature.inputs} & static.keys()
    if asked:
        raise ArtifactError(
            f"{function.name}: static names {_listed(asked)}, and there is code for the static "
            "values of the examples",
            code=Code.SAVE_ARGUMENTS,
        )
    return signature


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(name or "the function" for name in names))


def _of_graph(function: object) -> JAXFunction | None:
    """The function of a graph that was compiled here, also under trees; None for all others."""
    flat = function.function if isinstance(function, PureFunction) else function
    return flat if isinstance(flat, JAXFunction) else None


def _describe(
    given: object, function: JAXFunction, cells: Cells, value: Callable[[object], Json]
) -> Signature:
    signature = describe_signature(function, cells, value)
    return _with_trees(signature, given) if isinstance(given, PureFunction) else signature


def _delete_abandoned(path: Path) -> None:
    """Delete what processes that were killed while they saved to the same place have left."""
    with suppress(OSError), os.scandir(path.absolute().parent) as entries:
        delete_abandoned(entries, re.compile(re.escape(path.name)))


def _check(named: Mapping[str, object], path: object) -> None:
    problem = problem_of_place(path, "write")
    if problem is not None:
        raise ArtifactError(problem, code=Code.SAVE_ARGUMENTS)
    problems = [
        f"{name or 'the function'} is a {type(function).__name__}"
        for name, function in named.items()
        if not callable(function)
        or (isinstance(function, Function) and not isinstance(function, JAXFunction))
    ]
    problems += [f"{name!r} is not a name" for name in named if not isinstance(name, str)]
    if problems or not named:
        raise ArtifactError(
            f"save takes functions compiled with mode='JAXSELECTIVE' (or another JAXLinker), "
            f"functions that jaxify made, and functions of JAX, one or a dictionary of several by "
            f"name: {'; '.join(problems) or 'there is none'}",
            code=Code.SAVE_ARGUMENTS,
        )


def _check_not_loaded(named: Mapping[str, object]) -> None:
    """Raise for functions that came out of compiled layers: these hold no graph to save."""
    loaded = [
        name
        for name, function in named.items()
        if isinstance(function, LoadedFunction) and not isinstance(function, TreeFunction)
    ]
    if loaded:
        raise ArtifactError(
            f"{_listed(loaded)}: a LoadedFunction, which is code without a graph. "
            f"{Remedy.SAVE_FROM_GRAPH.text()}.",
            code=Code.SAVE_ARGUMENTS,
        )


def _without_graph(
    graphs: Mapping[str, InnerGraph], of_jax: Collection[str], *, compiled: bool
) -> dict[str, str]:
    """The functions that have no graph layer, and why.

    Raises
    ------
    ArtifactError
        If there is to be no other layer.
    """
    found = dict.fromkeys(sorted(of_jax), "it is a function of JAX")
    for name, graph in graphs.items():
        op = op_of_jax(graph)
        if op is None:
            continue
        found[name] = f"{op.name or 'an Op'} is a function of JAX (pytensor.wrap_jax)"
        text = f"{name or 'the function'} has no graph layer, because {found[name]}"
        if not compiled:
            raise ArtifactError(text, code=Code.NO_GRAPH_LAYER)
        warn_at_user_line(f"{text}. Its compiled layer is saved.", Code.GRAPH_NOT_SAVED)
    return found


def _graph_layer(graphs: Mapping[str, InnerGraph], cells: Cells, data: DataWriter) -> Json:
    writer = GraphWriter(data)
    document = {
        "functions": {name: writer.graph(graph) for name, graph in graphs.items()},
        "cells": [describe_cell(variable, writer) for variable in cells.variables],
    }
    document["parts"] = writer.entries
    check_saved(document, graphs, data)
    return document


def _check_names(signatures: Iterable[Signature], **given: Mapping[str, object]) -> None:
    names = {spec.name for signature in signatures for spec in signature.inputs} - {None}
    for option, values in given.items():
        unknown = sorted(set(values) - names)
        if unknown:
            raise ArtifactError(
                f"{option} names {', '.join(unknown)}, and the inputs are "
                f"{', '.join(sorted(map(str, names)))}",
                code=Code.SAVE_ARGUMENTS,
            )


def _with_trees(signature: Signature, function: PureFunction) -> Signature:
    """How a pure function is called, from the signature of its flat function."""
    outputs = tuple(
        replace(spec, name=name)
        for spec, name in zip(signature.outputs, function.output_names, strict=True)
    )
    return replace(signature, name=function.name, outputs=outputs, trees=_saved_trees(function))


def _saved_trees(function: PureFunction) -> SavedTrees:
    trees = function.trees
    places = iter(trees.places)
    arguments = [
        describe_skeleton(
            tree.unflatten([Leaf(next(places)) for _ in range(tree.num_leaves)]),
            f"{function.name}: inputs[{argument}]",
        )
        for argument, tree in enumerate(trees.arguments)
    ]
    outputs = trees.outputs.unflatten(list(map(Leaf, range(trees.outputs.num_leaves))))
    return SavedTrees(
        tuple(arguments),
        {},
        describe_skeleton(outputs, f"{function.name}: outputs"),
        None,
        trees.names[: len(trees.places)],
        x64=True,
        pure=True,
    )
