"""A compiled graph in the start-up cache: a file as `save` writes it, to which code is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import jax

from pytensor_jaxlink.artifact.compiled.code_reader import CompiledReader
from pytensor_jaxlink.artifact.compiled.saved_regions import Found, SavedRegion, Specialisation
from pytensor_jaxlink.artifact.container import Container, Member
from pytensor_jaxlink.artifact.documents import Json, dump_document
from pytensor_jaxlink.artifact.folder import Folder
from pytensor_jaxlink.artifact.records import describe
from pytensor_jaxlink.artifact.records import reader as read_record
from pytensor_jaxlink.artifact.start_up.key import Key, checksum_of
from pytensor_jaxlink.artifact.values import Checksums, DataReader, DataWriter
from pytensor_jaxlink.catalogue import Code, without_codes
from pytensor_jaxlink.errors import FAILED_NODE
from pytensor_jaxlink.link.identity import described_graph
from pytensor_jaxlink.link.start_up_cache import Compiled
from pytensor_jaxlink.plan import Executable, HostExecuted
from pytensor_jaxlink.runtime import Ending, kind_of
from pytensor_jaxlink.runtime.typed_jax import configuration
from pytensor_jaxlink.versions import versions

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph
    from pytensor_jaxlink.lowering import Lowered, Program

_MOST = 64  # what a file has code for, of one region


@dataclass(frozen=True)
class Kept:
    """A plan that was kept, with the code that there is."""

    structure: str  # see `structure_of`
    executable: Executable
    ending: Ending

    @property
    def regions(self) -> list[SavedRegion]:
        """The regions with code: none before the plan is read back."""
        found = (function for _, function in self.executable.regions)
        return [function for function in found if isinstance(function, SavedRegion)]


def structure_of(lowered: Lowered) -> str:
    """A checksum of a graph that has been rewritten, with the numbers of its values.

    PyTensor's rewrites go through sets, so the same graph may come out in another order in another
    process.  Where the checksums are equal, regions of one may stand beside regions of the other.
    """
    return checksum_of(_structure(lowered))


def _structure(lowered: Lowered) -> dict[str, object]:
    view, data = lowered.view, Checksums()
    nodes, constants = described_graph(view, lambda node: str(view.nodes[node].op), data.value)
    return {
        "nodes": nodes,
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


class OtherStructureError(Exception):
    """A graph was rewritten to another one than the one that was kept."""


class File:
    """The file of a graph: the compiled layer of a function, which has its signature elsewhere.

    A file is replaced where code is added; of what several processes add at once the last one's is
    there, and the others' is made again.

    Attributes
    ----------
    kept
        What was there when it was opened, or has been written; None where nothing is.
    compile_now
        Compiles the graph itself, when it is needed.
    refuse
        Is told why a region cannot be kept.
    """

    compile_now: Callable[[], Compiled]
    refuse: Callable[[str], None]

    def __init__(self, folder: Folder, key: Key) -> None:
        self._folder, self._key, self._lock = folder, key, RLock()
        self._original: CompiledGraph | None = None
        self._lowered: Lowered | None = None  # whose regions are those of the file
        self.kept = self._read()

    def original(self) -> CompiledGraph:
        """The compiled graph itself, with all that is not in the file."""
        with self._lock:
            found = self._original
            if found is None:
                # Importing PyTensor's rules sets it; that time has passed.
                before = configuration.jax_enable_x64
                found, _ = self.compile_now()
                self._original = found
                configuration.update("jax_enable_x64", before)
        return found

    def program(self, index: int) -> Program:
        """The program of a region.

        Raises
        ------
        OtherStructureError
            If it is not the region that was kept.
        """
        if self._lowered is None:
            lowered, kept = self.original().lowered, self.kept
            if kept is None or structure_of(lowered) != kept.structure:
                error = OtherStructureError("the graph was not rewritten to what was kept")
                setattr(error, FAILED_NODE, None)  # as if the region had failed: see `StartUpGraph`
                raise error
            self._lowered = lowered
        programs = {region.index: program for region, program in self._lowered.regions}
        return programs[index]

    def keep(self, compiled: CompiledGraph, overwritten: tuple[int, ...]) -> str | None:
        """Keep a graph, and read it back.  Returns why that cannot be done, or None.

        Raises
        ------
        ArtifactError
            If it runs Ops on the host, or its key has no part for all that makes it what it is.
        """
        self._key.check()
        lowered = compiled.lowered
        kept = Kept(structure_of(lowered), lowered, Ending(compiled.copied, overwritten))
        problem = self._write(kept, lowered)
        self.kept = None if problem else self._read()
        if self.kept is None and problem is None:
            return Code.NO_FOLDER.mark("the plan that was written is gone")
        return problem

    def code_for(
        self, region: SavedRegion, static: Sequence[object], arguments: Sequence[object]
    ) -> Specialisation | None:
        """The code for a call, which another process has added, or which is made and added now.

        None where JAX cannot export it.
        """
        with self._lock:
            kept = self.kept
            assert kept is not None, "its regions are asked"
            self._take_over(kept)
            code = region.fitting(static, arguments)
            if code is None and (code := self._exported(region.index, tuple(static), arguments)):
                region.code = [*region.code, code][-_MOST:]
                assert self._lowered is not None, "its code was made"
                self._write(kept, self._lowered)
        return code

    def _take_over(self, kept: Kept) -> None:
        """Take over the code that others have added."""
        found = self._read()
        if found is None or found.structure != kept.structure:
            return
        for mine, others in zip(kept.regions, found.regions, strict=True):
            known = {code.signature for code in mine.code}
            mine.code += [code for code in others.code if code.signature not in known]

    def _exported(
        self, index: int, static: tuple[object, ...], arguments: Sequence[object]
    ) -> Specialisation | None:
        from pytensor_jaxlink.artifact.exporting.region_export import Target, export_for_shapes

        program = self.program(index)
        kinds = jax.tree_util.tree_map(kind_of, list(arguments))
        try:
            return export_for_shapes(program, static, kinds, Target(None, 0))
        except Exception as error:
            if hasattr(error, FAILED_NODE):
                raise
            [reason, *_] = [*str(error).splitlines(), ""]  # what JAX calls outside of XLA, mostly
            text = f"region {index} cannot be exported: {without_codes(reason)}"
            self.refuse(Code.NOT_EXPORTED.mark(text))
            return None

    def _read(self) -> Kept | None:
        return self._folder.read(self._key.text, self._kept)

    def _kept(self, container: Container) -> Kept:
        data = DataReader(container, container.document("data.json"), self._key.data.arrays)
        document = container.document("compiled.json")[""]
        reader = CompiledReader(container, data, region=partial(KeptRegion, self))
        return Kept(
            str(container.manifest["structure"]),
            reader.executable(document),
            read_record(Ending)(document["ending"]),
        )

    def _write(self, kept: Kept, lowered: Lowered) -> str | None:
        from pytensor_jaxlink.artifact.exporting.layer import PlanWriter, describe_layer
        from pytensor_jaxlink.artifact.exporting.region_export import Target

        data, members = DataWriter(self._key.data.arrays), dict[str, Member]()
        code = {region.index: region.code for region in kept.regions}
        writer = PlanWriter(data, members, code)
        document = writer.function(lowered, {}, kept.ending)
        members |= {"compiled.json": [dump_document({"": document})], **data.file()}
        manifest: dict[str, Json] = {
            "saved_by": versions(),
            "structure": kept.structure,
            "single": True,
            "functions": {},
            "cells": [],
            "layers": {"compiled": describe_layer({"": writer}, Target(None, 0))},
        }
        return self._folder.write(self._key.text, manifest, members)


class KeptRegion(SavedRegion):
    """A region with the code that there is; what is missing is made, and added.

    It is called while JAX traces.  In the process that makes the code it is the code too that JAX
    gets, and not what the code was made of, so that all processes hand the same to XLA: they have
    the same bits, and what XLA makes of it is found again.
    """

    def __init__(self, file: File, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._file = file

    def on_host(self, static: Sequence[object], *arguments: object) -> tuple[object, object]:
        """The same without JAX."""
        return self._file.program(self.index).on_host(static, *arguments)

    def _without_code(self, static: Sequence[object], arguments: Sequence[object]) -> Found:
        code = self._file.code_for(self, static, arguments)
        if code is None:
            return self._file.program(self.index)(static, *arguments)
        return code(arguments)
