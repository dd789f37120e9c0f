"""The start-up cache that the linker is given, and its entry for each graph."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
from pytensor.compile.io import In, Out
from pytensor.compile.mode import Mode
from pytensor.configdefaults import config
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.artifact.folder import Folder
from pytensor_jaxlink.artifact.start_up.kept import File
from pytensor_jaxlink.artifact.start_up.key import key_of
from pytensor_jaxlink.artifact.start_up.start_up_graph import StartUpGraph
from pytensor_jaxlink.catalogue import Code, without_codes
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.link.start_up_cache import Compiled
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import has_compilation_cache, use_compilation_cache

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph

_XLA = "xla"


def entry_of(
    given: FunctionGraph,
    updated: Mapping[int, int],
    mode: Mode,
    inputs: Sequence[In],
    outputs: Sequence[Out],
) -> Entry:
    """The entry for a graph; see `pytensor_jaxlink.link.start_up_cache.FindEntry`.

    Nothing that goes wrong with it is an error for the user: the function is then compiled as it
    would be without it, and ``f.stats.start_up_cache`` says why.
    """
    options: Options = mode.linker.options
    folder = Folder(Path(str(options.cache_dir)).absolute(), options.cache_limit)
    _use_compilation_cache(options.compilation_cache, folder)
    try:
        _check(options)
        file = File(folder, key_of(given, updated, mode, inputs, outputs))
    except Exception as error:  # whatever stands in the way is not the user's concern
        return Entry(options, _reason(error))
    return Entry(options, file)


def _use_compilation_cache(given: str | os.PathLike[str] | None, folder: Folder) -> None:
    """Set the folder of JAX's compilation cache: the one given, or else, for want of any, ours.

    JAX warns at each compilation that it cannot write, so a folder where it could not is no folder
    for it.
    """
    if given is not None:
        use_compilation_cache(given)
    elif not has_compilation_cache() and folder.makes(_XLA):
        use_compilation_cache(folder.path / _XLA, folder.limit)


class Entry:
    """The entry for one graph: its file in the folder, or the problem why it has none."""

    def __init__(self, options: Options, file: File | str) -> None:
        self._options, self._file = options, file
        # Whether the graph need not be rewritten.
        self.found = isinstance(file, File) and file.kept is not None
        if self.found:
            _set_float_type()

    def compiled(self, fgraph: FunctionGraph, compile_now: Callable[[], Compiled]) -> Compiled:
        """The compiled graph, from the cache where it is there, else compiled and kept."""
        status, file = "hit", self._file
        if not self.found:
            compiled, overwritten = compile_now()
            problem = file if isinstance(file, str) else _kept(file, compiled, overwritten)
            if problem is not None:
                compiled.stats.start_up_cache = f"not kept: {problem}"
                return compiled, overwritten
            compile_now, fgraph, status = (lambda: (compiled, overwritten)), compiled.source, "miss"
        assert isinstance(file, File)
        file.compile_now = compile_now
        graph = StartUpGraph(file, fgraph, self._options, status=status)
        return graph, graph.kept.ending.overwritten


def _kept(file: File, compiled: CompiledGraph, overwritten: tuple[int, ...]) -> str | None:
    """Keep a graph.  Returns why that cannot be done, or None."""
    try:
        return file.keep(compiled, overwritten)
    except Exception as error:
        return _reason(error)


def _check(options: Options) -> None:
    if options.jit is False:
        raise ArtifactError("jit=False compiles nothing", code=Code.NOTHING_COMPILED)
    if importlib.util.find_spec("flatbuffers") is None:
        text = f"jax.export needs the package flatbuffers: {Remedy.INSTALL.text()}"
        raise ArtifactError(text, code=Code.NO_FLATBUFFERS)


def _reason(error: Exception) -> str:
    """The reason with its code; an error of somebody else's code is one of saving."""
    if isinstance(error, ArtifactError):
        return str(error)
    return Code.NOT_SAVABLE.mark(f"{type(error).__name__}: {without_codes(str(error))}")


def _set_float_type() -> None:
    """Set JAX's 64-bit types, as importing PyTensor's rules for JAX does."""
    if "pytensor.link.jax.dispatch.basic" not in sys.modules:
        jax.config.update("jax_enable_x64", config.floatX == "float64")
