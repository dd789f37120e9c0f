"""Plans in the start-up cache: what of a compiled graph does not depend on the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pytensor_jaxlink.artifact.compiled.code_reader import CompiledReader, Part
from pytensor_jaxlink.artifact.compiled.plan_documents import describe_plan, plan_of
from pytensor_jaxlink.artifact.container import Container, Member
from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.start_up.key import Checksums, Key, checksum_of
from pytensor_jaxlink.artifact.values import DataReader, DataWriter
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.plan import HostExecuted, HostStep, Plan, Region, Step

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.lowering import Lowered

RegionOf = Callable[[int], Callable[..., object]]
"""Makes the function of a region from its number."""

RegionsOf = Callable[[str], RegionOf]
"""Makes that for a structure."""


@dataclass(frozen=True)
class Kept:
    """The parts of a compiled graph that are kept beside the code.

    Attributes
    ----------
    plan
        The plan.
    structure
        What its numbers stand for: see `structure_of`.
    functions, constants
        The functions of its steps, as `Executor` takes them, and its constants.
    overwritten
        The inputs into which operations in place write.
    copied
        The outputs of which the caller gets a copy.
    """

    plan: Plan
    structure: str
    functions: Sequence[object]
    constants: Mapping[int, object]
    overwritten: tuple[int, ...]
    copied: tuple[int, ...]


class _Writer(DataWriter):
    """Leaves out the arrays that the graph has."""

    def __init__(self, key: Key) -> None:
        super().__init__()
        self._key = key

    def large(self, member: Member, checksum: str) -> Json:
        if checksum in self._key.data.arrays:
            return {"given": checksum}
        return super().large(member, checksum)


class _Reader(DataReader):
    """Takes from the graph the arrays that were left out."""

    def __init__(self, container: Container, key: Key) -> None:
        self._key = key
        super().__init__(container, container.document("data.json"))

    def _entry(self, entry: Any) -> object:
        if "given" in entry:
            return self._key.data.arrays[entry["given"]]
        return super()._entry(entry)


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


def describe(kept: Kept, compiled: CompiledGraph, key: Key) -> dict[str, Member]:
    """The members of a file for a compiled graph.

    Raises
    ------
    ArtifactError
        If it runs Ops on the host: these are not kept.
    """
    data = _Writer(key)
    document = {
        "plan": describe_plan(kept.plan),
        "structure": kept.structure,
        "overwritten": kept.overwritten,
        "copied": kept.copied,
        **_describe_part(compiled.lowered, data),
    }
    members: dict[str, Member] = {"plan.json": [dump_document(document)]}
    return members | {"data.json": [dump_document(data.table.entries)]} | data.members


def _describe_part(lowered: Lowered, data: DataWriter) -> dict[str, Json]:
    functions = [
        _describe_step(lowered, step, function, data)
        for step, function in zip(lowered.plan.steps, lowered.functions, strict=True)
    ]
    constants = [[number, data.value(value)] for number, value in lowered.constants.items()]
    return {"functions": functions, "constants": constants}


def _describe_step(lowered: Lowered, step: Step, function: object, data: DataWriter) -> Json:
    from pytensor_jaxlink.lowering.size_arithmetic import describe_size

    match step, function:
        case _, HostExecuted(_, parts):
            return {"parts": [_describe_part(part, data) for part in parts]}
        case HostStep(), _:
            node = lowered.view.nodes[lowered.view.producer[step.results[0]]]
            size = describe_size(node) if step.folded else None
            if size is None:
                text = f"{step.operation} runs on the host"
                raise ArtifactError(text, code=Code.STEP_ON_HOST)
            return {"size": size}
    return None


class _PlanReader(CompiledReader):
    def __init__(self, container: Container, data: DataReader, region_of: RegionOf) -> None:
        super().__init__(container, data, _no_host_ops)
        self._region_of = region_of

    def region(self, step: Region, described: object) -> Callable[..., object]:
        return self._region_of(step.index)


def read(container: Container, key: Key, regions_of: RegionsOf) -> Kept:
    """Read the contents of a file."""
    document = container.document("plan.json")
    plan, structure = plan_of(document["plan"]), str(document["structure"])
    reader = _PlanReader(container, _Reader(container, key), regions_of(structure))
    part = reader.part(plan, document)
    return Kept(
        plan,
        structure,
        part.functions,
        part.constants,
        tuple(map(int, document["overwritten"])),
        tuple(map(int, document["copied"])),
    )


def kept_of(compiled: CompiledGraph, overwritten: tuple[int, ...], regions_of: RegionsOf) -> Kept:
    """The same of a graph that has just been compiled."""
    lowered = compiled.lowered
    structure = structure_of(lowered)
    part = _part_of(lowered, regions_of(structure))
    return Kept(
        lowered.plan, structure, part.functions, part.constants, overwritten, compiled.copied
    )


def _part_of(lowered: Lowered, region_of: RegionOf) -> Part:
    functions: list[object] = []
    for step, function in zip(lowered.plan.steps, lowered.functions, strict=True):
        match step, function:
            case Region(), _:
                functions.append(region_of(step.index))
            case _, HostExecuted(node, inner):
                parts = tuple(_part_of(part, region_of) for part in inner)
                functions.append(HostExecuted(node, parts))
            case _:
                functions.append(function)
    return Part(tuple(functions), lowered.constants)


def _no_host_ops(place: object) -> NoReturn:
    raise ValueError("a host step")
