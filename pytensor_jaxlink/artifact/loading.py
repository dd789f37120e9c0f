"""Loading: from the members of a file to functions.  Neither PyTensor nor the compiler is needed.

What makes functions from graphs is imported where a graph is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Never

from pytensor_jaxlink.artifact.container import Container, Place, opened
from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.artifact.names import Names
from pytensor_jaxlink.artifact.records import reader
from pytensor_jaxlink.artifact.signature import Cell, Signature
from pytensor_jaxlink.artifact.values import DataReader
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.logs import Topic

if TYPE_CHECKING:
    from pytensor_jaxlink.artifact.compiled.calling import Calling
    from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
    from pytensor_jaxlink.artifact.graphs.functions import GraphLayer
    from pytensor_jaxlink.artifact.graphs.reader import GraphReader
    from pytensor_jaxlink.plan import HostStep


def load(
    path: Place,
    *,
    prefer: Literal["compiled", "graph"] = "compiled",
    allow: Sequence[str] = (),
    mode: object = None,
    compilation_cache: str | os.PathLike[str] | None = None,
    compiler_options: Mapping[str, object] | None = None,
    device: object = None,
    **unknown: Never,
) -> Any:
    """The function, or the dictionary of functions, that `save` wrote to a file.

    A saved function is a program: load files only from people whose programs you would run.

    Parameters
    ----------
    path
        The file: a path, or a binary file that is open, which is read from its start.
    prefer
        Which layer, where the file has both.  ``"compiled"`` gives a `LoadedFunction`, which runs
        at once and needs no PyTensor (unless the plan has host steps that do).  Sizes for which no
        code was saved are compiled from the graph, where that and PyTensor are there.  ``"graph"``
        gives the same kind of function as `pytensor.function`, with the variables that it is made
        of as ``f.graph`` (``inputs``, ``outputs``, ``updates`` and ``state``).
    allow
        Modules, beside those of PyTensor, that names in the file may lead to: those that define
        your own Ops, or classes of named tuples in the place of stand-ins.  They are imported.
    mode
        What compiles the graph, where another mode than the saved one is wanted.
    compilation_cache
        A folder for JAX's persistent compilation cache, set for the whole process, as in
        `JAXLinker`.  A file is for any machine, and XLA makes the machine's own code of it at the
        first call, which takes most of the time until the first result.  With a folder, only the
        first process compiles.
    compiler_options
        Options of XLA, as in `JAXLinker`.  Those of the function that was saved are not in force:
        some have XLA write files.
    device
        Where it runs and keeps its state: a `jax.Device` or its name, as in `JAXLinker`, or a
        `jax.sharding.Mesh`, over which the state is spread by the names of axes that it had.  By
        default the state lies where it was, over the mesh of `jax.set_mesh` or over the same
        devices, as far as this process has them.

    Raises
    ------
    ArtifactError
        If the file is damaged, or holds what this version or this environment does not have.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink import load, save
    >>> x = pt.vector("x", dtype="float64")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "f.jaxlink"
    >>> save(pytensor.function([x], x.sum(), mode="JAXSELECTIVE"), path)
    >>> load(path)(x=np.ones(3))
    Array(3., dtype=float64)
    >>> load(path, prefer="graph").graph.outputs
    [Sum{axes=None}.0]
    """
    if unknown:
        options = ", ".join(load.__kwdefaults__ or ())
        text = f"load has no option {', '.join(unknown)}; its options are {options}"
        raise TypeError(Code.LOAD_ARGUMENTS.mark(text))
    if prefer not in ("compiled", "graph"):
        text = f"prefer={prefer!r} is not one of 'compiled', 'graph'"
        raise ValueError(Code.LOAD_ARGUMENTS.mark(text))
    if isinstance(allow, str):
        text = f"allow={allow!r} is a string, not a sequence of names of modules"
        raise TypeError(Code.LOAD_ARGUMENTS.mark(text))
    _check_options(compiler_options, mode, compilation_cache, device)
    if compilation_cache is not None:
        from pytensor_jaxlink.runtime import use_compilation_cache

        use_compilation_cache(compilation_cache)
    if isinstance(device, str):
        from pytensor_jaxlink.runtime import named_device

        device = named_device(device)
    with opened(path) as container:
        file = _File(container, allow, mode, compiler_options, device)
        functions = file.compiled() if file.takes_compiled(prefer) else file.from_graph()
        return functions[""] if container.manifest["single"] else functions


def _check_options(
    compiler_options: object, mode: object, compilation_cache: object, device: object
) -> None:
    problem = None
    if compilation_cache is not None or compiler_options is not None:
        from pytensor_jaxlink.runtime import problem_of_folder, problem_of_options

        problem = problem_of_folder("compilation_cache", compilation_cache)
        problem = problem or problem_of_options(compiler_options)
    for name, given, verb, it in (
        ("compiler_options", compiler_options, "are", "them"),
        ("device", device, "is", "it"),
    ):
        if problem is None and given is not None and mode is not None:
            problem = (
                f"{name} {verb} for the mode of the saved function; give {it} to the mode that "
                f"takes its place, mode=JAXLinker({name}=...)"
            )
    if problem is not None:
        raise ValueError(Code.LOAD_ARGUMENTS.mark(f"load: {problem}"))


def _is_of(device: Any, platform: str) -> bool:
    """Return True if a device, or those of a mesh, are of a platform in the words of `jax.export`.

    These tell apart the platforms of GPUs ("cuda"), which a device does not.  None is the device
    where JAX puts arrays.
    """
    import jax

    if isinstance(device, jax.sharding.Mesh):
        device = device.devices.flat[0]
    try:
        there = jax.local_devices(backend=platform)
    except RuntimeError:  # this process has no such platform
        return False
    return (jax.local_devices()[0] if device is None else device) in there


class _File:
    """An open file, whose functions are being made."""

    def __init__(
        self,
        container: Container,
        allow: Sequence[str],
        mode: object,
        compiler_options: Mapping[str, object] | None,
        device: object,
    ) -> None:
        manifest = container.manifest
        self._container, self._names, self._mode = container, Names(allow), mode
        self._host_reader: GraphReader | None = None
        self._compiler_options = compiler_options
        self._layers = manifest["layers"]
        self._signatures = {n: reader(Signature)(each) for n, each in manifest["functions"].items()}
        self._callings = {n: self._calling(each) for n, each in self._signatures.items()}
        self._cells = reader(tuple[Cell, ...])(manifest["cells"])
        self._data = DataReader(container, container.document("data.json"))
        self._version = str(manifest["saved_by"]["pytensor"])
        self._device = device
        self._without_graph = dict(manifest.get("without_graph") or {})
        # Files of before do not have them.
        self._placements = manifest.get("placements") or [None] * len(self._cells)

    def takes_compiled(self, prefer: str) -> bool:
        """Return True if the compiled layer is used."""
        if not self._layers:
            raise ArtifactError(
                "it has no layer that functions could be made of", code=Code.DAMAGED
            )
        if "graph" not in self._layers or self._without_graph:
            return True  # all functions come from one layer
        return prefer == "compiled" and "compiled" in self._layers and self._is_for_here()

    def _is_for_here(self) -> bool:
        platforms = self._layers["compiled"]["platforms"]
        if any(_is_of(self._device, str(platform)) for platform in platforms):
            return True
        Topic.FALLBACKS.log(
            lambda: (
                f"a saved function with code for {', '.join(platforms)} is compiled from its graph"
            )
        )
        return False

    def _storages(self) -> list[list[object]]:
        pairs = zip(self._cells, self._placements, strict=True)
        return [[self._value(cell, placement)] for cell, placement in pairs]

    def _value(self, cell: Cell, placement: Parsed) -> object:
        value = self._data.value(cell.value)
        if cell.type.kind != "array" or (placement is None and self._device is None):
            return value
        from pytensor_jaxlink.artifact.placement import placed

        return placed(value, placement, self._device)

    def _asked_device(self) -> object:
        from jax.sharding import Mesh

        return None if isinstance(self._device, Mesh) else self._device

    def _graph_layer(self, document: Parsed, storages: Sequence[list[object]]) -> GraphLayer:
        with _pytensor("the graph layer of a saved function"):
            from pytensor_jaxlink.artifact.graphs.functions import GraphLayer
        return GraphLayer(document, self._cells, storages, self._graph_reader(document["parts"]))

    def _graph_reader(self, parts: Parsed) -> GraphReader:
        from pytensor_jaxlink.artifact.graphs.reader import GraphReader

        return GraphReader(self._data, parts, self._names, self._version)

    def from_graph(self) -> dict[str, object]:
        """The functions, compiled from their graphs."""
        layer = self._graph_layer(self._container.document("graph.json"), self._storages())
        functions = {}
        for name, signature in self._signatures.items():
            function = self._from_layer(layer, name, self._defaults(signature))
            functions[name] = self._as_saved(name, function, function.graph.state)
        return functions

    def _defaults(self, signature: Signature) -> list[list[object] | None]:
        """For each input with a default a list that holds it, else None."""
        found = [spec.default for spec in signature.inputs]
        return [None if each is None else [self._data.value(each[0])] for each in found]

    def _from_layer(
        self, layer: GraphLayer, name: str, storages: Sequence[list[object] | None]
    ) -> Any:
        options = {"compiler_options": self._compiler_options, "device": self._asked_device()}
        return layer.function(name, self._signatures[name], storages, self._mode, options)

    def _as_saved(self, name: str, function: Any, state: Sequence[object]) -> object:
        """A function; if `jaxify` made it, the pure function of trees over it."""
        calling = self._callings[name]
        if calling is None or not calling.pure:
            return function
        from pytensor_jaxlink.pure_function import PureFunction

        outputs = self._signatures[name].outputs
        return PureFunction(
            calling.trees.name,
            tuple(state),
            calling.trees.names,
            tuple(spec.name or spec.type.text for spec in outputs),
            function,
            calling.trees,
        )

    def compiled(self) -> dict[str, Any]:
        """The functions, as they were compiled."""
        from pytensor_jaxlink.artifact.compiled.code_reader import MOST_KEPT, CompiledReader
        from pytensor_jaxlink.artifact.compiled.saved_state import SavedState
        from pytensor_jaxlink.runtime import Policy

        summary = self._layers["compiled"]
        float_type = str(summary["float_type"])
        states = [
            SavedState(cell, storage, float_type)
            for cell, storage in zip(self._cells, self._storages(), strict=True)
        ]
        reader = CompiledReader(self._container, self._data, self._host_ops)
        documents = self._container.document("compiled.json")
        policy = Policy(
            MOST_KEPT,
            "compile",
            compiler_options=self._compiler_options,
            device=self._asked_device(),
        )
        functions = {
            name: reader.function(
                documents[name],
                signature,
                states,
                self._defaults(signature),
                float_type,
                policy,
                self._callings[name],
            )
            for name, signature in self._signatures.items()
        }
        for name, reason in self._without_graph.items():
            functions[name].without_graph = str(reason)
        if "graph" in self._layers:
            document = self._container.document("graph.json")
            storages = [state.storage for state in states]
            for name in functions.keys() - self._without_graph.keys():
                function = functions[name]
                function.from_graph = self._maker(name, function, document, storages)
        return {name: self._as_saved(name, f, f.state) for name, f in functions.items()}

    def _calling(self, signature: Signature) -> Calling | None:
        if signature.trees is None:
            return None
        from pytensor_jaxlink.artifact.compiled.calling import Calling

        return Calling(signature, self._container, self._names)

    def _host_ops(self, place: object, step: HostStep) -> Callable[..., Any]:
        """The function of a host step that needs PyTensor."""
        with _pytensor("a host step of this function"):
            from pytensor_jaxlink.artifact.graphs.functions import host_op_of
        if self._host_reader is None:
            self._host_reader = self._graph_reader(self._container.document("host.json"))
        return host_op_of(self._host_reader, place, step)

    def _maker(
        self,
        name: str,
        function: LoadedFunction,
        document: object,
        storages: Sequence[list[object]],
    ) -> Callable[[], object]:
        """The compiler of a function from its graph, which runs once."""

        @cache
        def make() -> Any:
            layer = self._graph_layer(document, storages)
            return self._from_layer(layer, name, function.own_storages)

        return make


@contextmanager
def _pytensor(what: str) -> Iterator[None]:
    """Say who needs PyTensor, where it is missing."""
    try:
        yield
    except ImportError as error:
        text = f"{what} needs PyTensor, which cannot be imported: {error}"
        raise ArtifactError(text, code=Code.NEEDS_PYTENSOR) from error
