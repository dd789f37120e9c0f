"""The key of a graph: equal for graphs that are compiled to the same, in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pytensor.compile.io import In, Out
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.graphs.comparing import check_saved
from pytensor_jaxlink.artifact.graphs.functions import tags_of
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter
from pytensor_jaxlink.artifact.start_up.environment import (
    flags,
    foreign_code,
    machine,
    versions,
)
from pytensor_jaxlink.artifact.values import Checksums
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.link.options import PLACES

FORMAT = 1


@dataclass(frozen=True)
class Key:
    """The name of a graph in the cache.

    Attributes
    ----------
    text
        Its name.
    data
        The data of the graph, whose large constants need not be kept.
    document, graph
        What it was made of.
    """

    text: str
    data: Checksums
    document: Mapping[str, Json]
    graph: InnerGraph

    def check(self) -> None:
        """Look whether all that makes the graph what it is has a part in the name.

        Raises
        ------
        ArtifactError
            If what was written would not make an equal graph.
        """
        named = {**self.document, "functions": {"": self.document["graph"]}}
        check_saved(named, {"": self.graph}, self.data)

    def code(self, structure: str, region: int, signature: object) -> str:
        """The name of the code of a region for some static values, shapes and dtypes."""
        return checksum_of([self.text, structure, region, signature])


def key_of(
    given: FunctionGraph,
    updated: Mapping[int, int],
    mode: Mode,
    inputs: Sequence[In],
    outputs: Sequence[Out],
) -> Key:
    """The key of a graph as the user gave it.

    Cost: that of writing the graph as JSON, and of reading its large constants once.

    Parameters
    ----------
    given
        The graph, updates after outputs.
    updated
        For each output that is an update the position of its input.
    mode
        What rewrites and compiles it.
    inputs, outputs
        What the function says of them (`In`, `Out`).

    Raises
    ------
    ArtifactError
        If something has no name by which other processes would know it.
    """
    data, graph = Checksums(), InnerGraph.between(given.inputs, given.outputs)
    writer = GraphWriter(data)
    options = mode.linker
    options = {k: v for k, v in asdict(options.options).items() if k not in PLACES}
    document = {
        "format": FORMAT,
        "versions": versions(),
        "machine": machine(),
        "flags": flags(),
        "options": writer.value(options),
        "rewrites": _rewrites(mode),
        "graph": writer.graph(graph),
        "parts": writer.entries,
        "inputs": [[bool(spec.mutable), bool(spec.borrow), spec.implicit] for spec in inputs],
        "outputs": [bool(spec.borrow) for spec in outputs],
        "updates": sorted(updated.items()),
        "code": foreign_code({type(part) for part in writer.objects}),
        "data": data.table.entries,
    }
    return Key(checksum_of(document), data, document, graph)


def checksum_of(document: object) -> str:
    """The checksum of a document."""
    return hashlib.sha256(dump_document(document)).hexdigest()


def _rewrites(mode: Mode) -> Json:
    """The rewrites of a mode, by the tags of which they are asked for."""
    query = mode.provided_optimizer
    if isinstance(query, str) or query is None:
        return [[str(query)]]
    if not isinstance(query, RewriteDatabaseQuery) or query.subquery or query.extra_rewrites:
        text = "the mode has rewrites of its own, which have no names"
        raise ArtifactError(text, code=Code.NAMELESS_REWRITES)
    return [*tags_of(query), [str(query.position_cutoff)]]
