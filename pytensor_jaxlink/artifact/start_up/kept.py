"""Plans in the start-up cache, and regions whose code is there or goes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import jax

from pytensor_jaxlink.artifact.compiled.code_reader import CompiledReader
from pytensor_jaxlink.artifact.compiled.saved_regions import Specialisation, array_kind_of, form_of
from pytensor_jaxlink.artifact.container import Container, Member
from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.folder import Folder
from pytensor_jaxlink.artifact.records import describe
from pytensor_jaxlink.artifact.start_up.key import Key, checksum_of
from pytensor_jaxlink.artifact.values import Checksums, DataReader, DataWriter
from pytensor_jaxlink.catalogue import Code, without_codes
from pytensor_jaxlink.errors import FAILED_NODE
from pytensor_jaxlink.link.start_up_cache import Compiled
from pytensor_jaxlink.plan import Executable, HostExecuted, Region
from pytensor_jaxlink.runtime.specialisation import kind_of
from pytensor_jaxlink.runtime.typed_jax import configuration

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.lowering import Lowered, Program


@dataclass(frozen=True)
class Kept:
    """A plan that was kept."""

    executable: Executable
    overwritten: tuple[int, ...]  # the inputs into which operations in place write
    copied: tuple[int, ...]  # the outputs of which the caller gets a copy


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
        "plan": describe(lowered.plan),
        "inner": [
            _structure(part)
            for function in lowered.functions
            if isinstance(function, HostExecuted)
            for part in function.parts
        ],
    }


def members_of(
    compiled: CompiledGraph, overwritten: tuple[int, ...], key: Key
) -> dict[str, Member]:
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
    executable = CompiledReader(container, data, region=region).executable(document)
    overwritten, copied = (document["ending"][name] for name in ("overwritten", "copied"))
    return Kept(executable, tuple(map(int, overwritten)), tuple(map(int, copied)))


_KIND = "code"


class OtherStructureError(Exception):
    """A graph was rewritten to another one than the one that was kept."""


class Original:
    """The compiled graph itself, made when it is needed by ``compile_now``.

    It has the ``structure`` of the graph that was kept (see `structure_of`), and ``refuse`` is told
    why a region cannot be kept.
    """

    def __init__(self) -> None:
        self.structure = ""
        self.compile_now: Callable[[], Compiled] | None = None
        self.refuse: Callable[[str], None] = lambda reason: None
        self._made: Any = None
        self._programs: dict[int, Program] | None = None
        self._lock = RLock()

    def __call__(self) -> CompiledGraph:
        """The compiled graph."""
        with self._lock:
            if self._made is None:
                assert self.compile_now is not None, "nothing asks before the linker has answered"
                # Importing PyTensor's rules sets it; that time has passed.
                before = configuration.jax_enable_x64
                self._made, _ = self.compile_now()
                configuration.update("jax_enable_x64", before)
        return self._made

    def program(self, index: int) -> Program:
        """The program of a region.

        Raises
        ------
        OtherStructureError
            If it is not the region that was kept.
        """
        lowered = self().lowered
        if self._programs is None:
            if structure_of(lowered) != self.structure:
                error = OtherStructureError("the graph was not rewritten to what was kept")
                setattr(error, FAILED_NODE, None)  # as if the region had failed: see `StartUpGraph`
                raise error
            self._programs = _programs(lowered)
        return self._programs[index]


def _programs(lowered: Lowered) -> dict[int, Program]:
    """The programs of the regions of a plan, those of loops and branches included."""
    found: dict[int, Program] = {}
    for step, function in zip(lowered.plan.steps, lowered.functions, strict=True):
        if isinstance(step, Region):
            found[step.index] = cast("Program", function)
        elif isinstance(function, HostExecuted):
            for part in function.parts:
                found |= _programs(part)
    return found


class KeptRegion:
    """A region as a function: ``(static, *arguments) -> (results, conditions)``.

    It is called while JAX traces.  In the process that makes the code it is the code too that JAX
    gets, and not what the code was made of, so that all processes hand the same to XLA: they have
    the same bits, and what XLA makes of it is found again.
    """

    def __init__(self, index: int, key: Key, folder: Folder, original: Original) -> None:
        self._index, self._key, self._folder, self._original = index, key, folder, original

    def __call__(self, static: Sequence[object], *arguments: object) -> tuple[object, object]:
        """Run the code for these sizes, where there is any, else what it is made of."""
        code = self._code(tuple(static), arguments)
        if code is None:
            return self._original.program(self._index)(static, *arguments)
        return code(arguments)

    def on_host(self, static: Sequence[object], *arguments: object) -> tuple[object, object]:
        """The same without JAX."""
        return self._original.program(self._index).on_host(static, *arguments)

    def _code(
        self, static: tuple[object, ...], arguments: Sequence[object]
    ) -> Specialisation | None:
        kinds = jax.tree_util.tree_map(kind_of, list(arguments))
        leaves = tuple(map(array_kind_of, jax.tree_util.tree_leaves(kinds)))
        signature = DataWriter().value((static, tuple(map(form_of, arguments)), leaves))
        name = self._key.code(self._original.structure, self._index, signature)
        return self._folder.read(_KIND, name, self._read) or self._made(name, static, kinds)

    def _read(self, container: Container) -> Specialisation:
        data = DataReader(container, container.document("data.json"))
        document = container.document("compiled.json")
        [code] = CompiledReader(container, data).code(document, f"region {self._index}")
        return code

    def _made(self, name: str, static: tuple[object, ...], kinds: Any) -> Specialisation | None:
        """The code, made now and kept; None where JAX cannot export it."""
        from pytensor_jaxlink.artifact.exporting.layer import PlanWriter
        from pytensor_jaxlink.artifact.exporting.region_export import Target, export_for_shapes

        program = self._original.program(self._index)
        try:
            code = export_for_shapes(program, static, kinds, Target(None, 0))
        except Exception as error:
            if hasattr(error, FAILED_NODE):
                raise
            [reason, *_] = [*str(error).splitlines(), ""]  # what JAX calls outside of XLA, mostly
            text = f"region {self._index} cannot be exported: {without_codes(reason)}"
            self._original.refuse(Code.NOT_EXPORTED.mark(text))
            return None
        data, members = DataWriter(), dict[str, Member]()
        document = PlanWriter(data, members).region([], [code], "")
        members["compiled.json"] = [dump_document(document)]
        self._folder.write(_KIND, name, {}, {**members, **data.file()})
        return code
