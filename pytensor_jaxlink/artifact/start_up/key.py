"""The key of a graph: equal for graphs that are compiled to the same, in any process."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import jax
from pytensor.compile.io import In, Out
from pytensor.compile.mode import Mode
from pytensor.configdefaults import config
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.graphs.functions import tags_of
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph
from pytensor_jaxlink.artifact.graphs.reader import check_saved
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter
from pytensor_jaxlink.artifact.start_up.sources import foreign_code, modules_of_rewrites, own_code
from pytensor_jaxlink.artifact.values import Checksums
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.link.options import PLACES
from pytensor_jaxlink.versions import versions


@dataclass(frozen=True)
class Key:
    """The name of a graph in the cache."""

    text: str  # its name
    data: Checksums  # the data of the graph, whose large constants need not be kept
    # what it was made of
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


def key_of(
    given: FunctionGraph,
    updated: Mapping[int, int],
    mode: Mode,
    inputs: Sequence[In],
    outputs: Sequence[Out],
) -> Key:
    """The key of a graph as the user gave it, updates after outputs.

    ``updated`` has for each output that is an update the position of its input.  It costs writing
    the graph as JSON, and reading its large constants once.  Raises `ArtifactError` if something
    has no name by which other processes would know it.
    """
    data, graph = Checksums(), InnerGraph.between(given.inputs, given.outputs)
    writer = GraphWriter(data)
    options = mode.linker
    options = {k: v for k, v in asdict(options.options).items() if k not in PLACES}
    document = {
        "versions": {**versions(), "pytensor_jaxlink": own_code()},
        "machine": machine(),
        "flags": flags(),
        "options": writer.value(options),
        "rewrites": _rewrites(mode),
        "graph": writer.graph(graph),
        "parts": writer.entries,
        "inputs": [[bool(spec.mutable), bool(spec.borrow), spec.implicit] for spec in inputs],
        "outputs": [bool(spec.borrow) for spec in outputs],
        "updates": sorted(updated.items()),
        "code": foreign_code(
            {type(part) for part in writer.objects}, writer.modules | modules_of_rewrites(mode)
        ),
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


# -- what code depends on beside the graph: the machine and flags ----------------------------------

_FLAGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)


@cache
def machine() -> str:
    """The target of XLA: the kind of the device and the instructions of the processor."""
    parts = [platform.machine(), platform.system(), jax.default_backend()]
    parts.append(jax.devices()[0].device_kind)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    # The model and what it can do (``flags``, on Arm ``Features``), of the first processor.
    wanted = ("model name", "flags", "Features", "CPU part")
    parts += [next((line for line in lines if line.startswith(name)), "") for name in wanted]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def flags() -> dict[str, str]:
    """The configuration that rewriting and tracing look at."""
    found = {name: str(getattr(jax.config, name, None)) for name in _FLAGS}
    return found | {"floatX": config.floatX, "cast_policy": config.cast_policy}
