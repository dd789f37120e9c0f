"""Plans in the start-up cache: the compiled layer of a function, without code of its regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytensor_jaxlink.artifact.compiled.code_reader import CompiledReader, Part
from pytensor_jaxlink.artifact.compiled.plan_documents import describe_plan
from pytensor_jaxlink.artifact.container import Container, Member
from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.start_up.key import Key, checksum_of
from pytensor_jaxlink.artifact.values import Checksums, DataReader, DataWriter
from pytensor_jaxlink.plan import HostExecuted, Plan

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.lowering import Lowered


@dataclass(frozen=True)
class Kept:
    """A plan that was kept.

    Attributes
    ----------
    plan, part
        The plan, and what it needs to run.
    overwritten
        The inputs into which operations in place write.
    copied
        The outputs of which the caller gets a copy.
    """

    plan: Plan
    part: Part
    overwritten: tuple[int, ...]
    copied: tuple[int, ...]


def structure_of(lowered: Lowered) -> str:
    """A checksum of a graph that has been rewritten, with the numbers of its values.

    PyTensor's rewrites go through sets, so the same graph may come out in another order in another
    process.  Where the checksums are equal, regions of one may stand beside regions of the other.
    """
    return checksum_of(_structure(lowered))


def _structure(lowered: Lowered) -> Json:
    view, data = lowered.view, Checksums()
    constants = [[number, data.value(value)] for number, value in view.constants.items()]
    return {
        "nodes": [
            [str(node.op), reads, writes]
            for node, reads, writes in zip(
                view.nodes, view.node_inputs, view.node_outputs, strict=True
            )
        ],
        "constants": constants,
        "data": data.table.entries,
        "plan": describe_plan(lowered.plan),
        "inner": [
            _structure(part)
            for function in lowered.functions
            if isinstance(function, HostExecuted)
            for part in function.parts
        ],
    }


def describe(compiled: CompiledGraph, overwritten: tuple[int, ...], key: Key) -> dict[str, Member]:
    """The members of a file for a compiled graph.

    Raises
    ------
    ArtifactError
        If it runs Ops on the host: these are not kept.
    """
    from pytensor_jaxlink.artifact.exporting.layer import PlanWriter, describe_function

    data, lowered = DataWriter(key.data.arrays), compiled.lowered
    part = PlanWriter(data, {}).part(lowered, {})
    document = describe_function(
        lowered.plan, part, overwritten=overwritten, copied=compiled.copied
    )
    return {"compiled.json": [dump_document({"": document})], **data.file()}


def read(container: Container, key: Key, region: Callable[[int], object]) -> Kept:
    """The plan in a file; ``region`` makes its regions from their numbers."""
    document = container.document("compiled.json")[""]
    data = DataReader(container, container.document("data.json"), key.data.arrays)
    plan, part = CompiledReader(container, data, region=region).plan(document)
    overwritten, copied = (document["ending"][name] for name in ("overwritten", "copied"))
    return Kept(plan, part, tuple(map(int, overwritten)), tuple(map(int, copied)))
