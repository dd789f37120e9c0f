"""The linker, and the modes that it makes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from os import PathLike
from typing import Any, Literal

from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.basic import Container, PerformLinker
from pytensor.link.utils import map_storage

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.link.overwritten import with_overwritten
from pytensor_jaxlink.link.start_up_cache import Compiled, Postponed, StartUpEntry
from pytensor_jaxlink.rewriting import INCOMPATIBLE_REWRITES, REQUIRED_REWRITES, default_query


class JAXLinker(PerformLinker):
    """A linker that runs every PyTensor graph on JAX.

    Parameters
    ----------
    jit : {"selective", True, False}
        ``"selective"`` compiles the largest regions that JAX can compile and runs the rest between
        them on the host.  ``True`` compiles the whole graph by one `jax.jit`, or raises
        `NotJittableError` when the function is built, with every blocker.  ``False`` compiles
        nothing: the function runs operation by operation in JAX, and the user jits ``f.jax_fn``
        with ``f.static_argnums``.
    host_ops : {"split", "error", "callback"}
        What becomes of an operation that JAX cannot run: a graph break; `UntranspilableOpError`
        when the function is built; or a part of its region that JAX calls on the host
        (`jax.pure_callback`), if the shapes of its outputs are known before it runs, by the Op's
        ``infer_shape`` or static types, and otherwise a graph break.
    donate : {"updates", "all", "warn", "none"}
        Whose memory a function that is one region may reuse: that of the shared variables which it
        updates, from 1 MiB on; of these and of every `jax.Array` argument; the same, and show
        JAX's warning where it could not be used; nobody's.  ``In(x, mutable=True)`` donates that
        argument, except under ``"none"``.  A donated argument no longer exists after the call;
        giving it again raises `DonatedArgumentError`.  Nothing is donated that somebody else holds,
        and a call that fails leaves every shared variable as it was.
    checks : {"raise", "ignore"}
        Whether assertions, specified shapes and out-of-range indices raise what PyTensor's Python
        linker raises, or are dropped.  Checks inside a region cost one copy of one boolean a call.
    outputs : {"jax", "numpy"}
        Results, and what updates leave in shared variables, as `jax.Array` on the device, or as
        writable NumPy arrays.
    dynamic : {"auto", True, False}
        What becomes of a size that is the value of an argument (``x[:n]``, ``arange(n)``).
        ``"auto"`` compiles for the first value, and makes the size data when a second one comes:
        slices become masks, and one program serves every value.  ``True`` makes sizes data from the
        start, ``False`` compiles for each value.  A size stays static where an array whose length
        depends on it is needed as it is; ``f.explain()`` says so, with the operation.  What the
        user traces (``f.jax_fn``, `jaxify`) takes a size that JAX traces as data, except under
        ``False``.  An argument that comes with a second length is padded from then on, and its
        length goes along as data; the first length, and others that come often, keep programs of
        their own.  Under ``True`` arguments are padded from the first call on, and no length has a
        program of its own.
    buckets : sequence of int or callable, optional
        The lengths to which arguments are padded, ascending, or a function that gives the one for a
        length.  By default, and beyond the longest: the powers of two from 64 on, or from 16 on for
        arrays of several changing axes.
    recompile_limit : int
        For how many combinations of shapes and static values a region is compiled.
    on_recompile_limit : {"host", "compile", "error"}
        What becomes of further ones: the region runs on the host, by PyTensor's own implementation;
        it is compiled all the same, and as many of these as the limit says are kept; or
        `RecompileLimitError`.  A `JAXLinkWarning`, once for each region, says what keeps changing.
    compiler_options : mapping, optional
        Options of XLA, as `jax.jit` takes them.
    compilation_cache : path, optional
        A folder for JAX's persistent compilation cache: what has been compiled once is found there
        by later processes.  JAX has one such folder for the whole process, so this holds for all
        that is compiled from then on.
    cache_dir : path, optional
        A folder for the start-up cache: a function that was built and called in an earlier process
        is neither rewritten nor traced again.  JAX's compilation cache is put in the folder ``xla``
        there, for the process, unless JAX has one already.  Many processes may use it at once.
        ``f.stats.start_up_cache`` says what became of a function.
    cache_limit : int
        The bytes that the start-up cache may have, and JAX's beside it; what was used least
        recently goes first.
    device : jax.Device or str, optional
        Where to run what is not committed to a device: NumPy arrays, constants.  A platform
        (``"cpu"``: its first device) or one of its devices (``"gpu:1"``), of this process.  Arrays
        that are committed (`jax.device_put` with a device or a sharding) run where they are, as
        always in JAX.  What the user traces, ``f.jax_fn``, runs where JAX is told to.

    Raises
    ------
    ValueError
        If an option has a value it cannot have; all of them are named.

    Examples
    --------
    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink import JAXLinker
    >>> x = pt.vector("x", dtype="float64")
    >>> f = pytensor.function([x], pt.unique(pt.exp(x)) * 2, mode=JAXLinker())
    >>> f(np.zeros(3))
    Array([2.], dtype=float64)
    >>> f.explain().graph_break_count
    1
    """

    required_rewrites = REQUIRED_REWRITES
    incompatible_rewrites = INCOMPATIBLE_REWRITES

    entry: StartUpEntry | None = None
    """The start-up cache's entry for the accepted graph."""
    rewrite: Postponed | None = None
    """Rewrites the accepted graph, where the start-up cache has postponed that."""

    def __init__(  # noqa: PLR0913 -- one for each option
        self,
        jit: Literal["selective"] | bool = "selective",
        *,
        host_ops: Literal["split", "error", "callback"] = "split",
        donate: Literal["updates", "all", "warn", "none"] = "updates",
        checks: Literal["raise", "ignore"] = "raise",
        outputs: Literal["jax", "numpy"] = "jax",
        dynamic: Literal["auto"] | bool = "auto",
        buckets: Sequence[int] | Callable[[int], int] | None = None,
        recompile_limit: int = 8,
        on_recompile_limit: Literal["host", "compile", "error"] = "host",
        compiler_options: Mapping[str, object] | None = None,
        compilation_cache: str | PathLike[str] | None = None,
        cache_dir: str | PathLike[str] | None = None,
        cache_limit: int = 1 << 30,
        device: object = None,
        allow_gc: bool | None = None,
    ) -> None:
        super().__init__(allow_gc=allow_gc)
        self.options = Options(
            jit,
            host_ops,
            checks,
            outputs,
            donate,
            compiler_options,
            compilation_cache,
            recompile_limit,
            on_recompile_limit,
            cache_dir,
            cache_limit,
            _name_of(device),
            dynamic,
            buckets,
        )

    @property
    def function_maker(self) -> Callable[..., Any]:
        """The maker of functions, for which `pytensor.function` asks a mode.

        Having it is also what lets the linker itself be given as ``mode=``.
        """
        from pytensor_jaxlink.link.maker import JAXFunctionMaker

        return JAXFunctionMaker

    @property
    def linker(self) -> JAXLinker:
        """Itself: PyMC asks a mode for its linker and its rewrites."""
        return self

    @property
    def provided_optimizer(self) -> RewriteDatabaseQuery:
        """The rewrites that suit the linker, where it is given as ``mode=``."""
        return default_query()

    def accept(
        self, fgraph: FunctionGraph, no_recycling: object = None, profile: object = None
    ) -> JAXLinker:
        """A copy of this linker tied to ``fgraph``; options are kept."""
        linker = copy(self)
        linker.fgraph = fgraph
        linker.no_recycling = [] if no_recycling is None else no_recycling
        return linker

    def make_all(
        self,
        input_storage: list[list[Any]] | None = None,
        output_storage: list[list[Any]] | None = None,
        storage_map: dict[Variable, list[Any]] | None = None,
    ) -> tuple[Any, ...]:
        """Compile the accepted graph and tie it to storage, as `PerformLinker.make_all` does."""
        from pytensor_jaxlink.link.virtual_machine import VirtualMachine

        fgraph, entry = self.fgraph, self.entry
        assert fgraph is not None, "the linker must accept a graph before it makes a function"
        if entry is None:
            compiled, overwritten = self._compile()
        else:
            compiled, overwritten = entry.compiled(fgraph, self._compile)
        nodes = self.schedule(fgraph)
        input_storage, output_storage, storage_map = map_storage(
            fgraph, nodes, input_storage, output_storage, storage_map
        )
        # Nothing between them is stored.  Of what is in here `Function.copy` wants to find a copy,
        # also where only an update that it deletes needs it.
        storage_map = dict(zip(fgraph.inputs, input_storage, strict=True))
        machine = VirtualMachine(
            compiled,
            input_storage,
            output_storage,
            storage_map,
            overwritten,
            allow_gc=self.allow_gc,
        )
        return (
            machine,
            [Container(v, cell) for v, cell in zip(fgraph.inputs, input_storage, strict=True)],
            [
                Container(v, cell, readonly=True)
                for v, cell in zip(fgraph.outputs, output_storage, strict=True)
            ],
            [machine],
            nodes,
        )

    def _compile(self) -> Compiled:
        """Compile the accepted graph."""
        # Imported here: PyTensor's JAX rules change JAX's configuration when they are imported.
        from pytensor_jaxlink.link.compiler import CompiledGraph

        if self.rewrite is not None:
            self.rewrite()
        fgraph = self.fgraph
        assert fgraph is not None
        if not any(node.op.destroy_map for node in fgraph.apply_nodes):
            return CompiledGraph(fgraph, self.options), ()
        source, overwritten = with_overwritten(fgraph)
        return CompiledGraph(source, self.options), overwritten

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "entry"}

    def __repr__(self) -> str:
        options = self.options
        return (
            f"JAXLinker(jit={options.jit!r}, host_ops={options.host_ops!r}, "
            f"donate={options.donate!r}, checks={options.checks!r}, outputs={options.outputs!r}, "
            f"dynamic={options.dynamic!r}, buckets={options.buckets!r}, "
            f"recompile_limit={options.recompile_limit!r}, "
            f"on_recompile_limit={options.on_recompile_limit!r}, "
            f"compiler_options={options.compiler_options!r}, "
            f"compilation_cache={options.compilation_cache!r}, "
            f"cache_dir={options.cache_dir!r}, cache_limit={options.cache_limit!r}, "
            f"device={options.device!r})"
        )


def mode_of(linker: JAXLinker) -> Mode:
    """The mode that runs ``linker`` after the rewrites that suit it."""
    return Mode(linker=linker, optimizer=default_query())


def with_inplace(mode: Mode) -> Mode:
    """The mode, with the rewrites to operations in place where ``mode`` includes them by name.

    They are of no use to JAX, so the linker excludes them.  Somebody who asks for them wants inputs
    that are declared mutable to be overwritten.
    """
    query = mode.provided_optimizer
    if "inplace" not in getattr(query, "include", ()):
        return mode
    linker = copy(mode.linker)
    linker.incompatible_rewrites = [n for n in linker.incompatible_rewrites if n != "inplace"]
    return Mode(linker=linker, optimizer=query)


def _name_of(device: Any) -> Any:
    """A device as text, which can be copied and pickled; all else as it is."""
    jax = sys.modules.get("jax")  # who has a device has imported it
    if jax is None or not isinstance(device, jax.Device):
        return device
    there = jax.local_devices(backend=device.platform)
    if device not in there:
        text = f"JAXLinker: device={device!r} belongs to another process"
        raise ValueError(Code.NO_DEVICE.mark(text))
    return f"{device.platform}:{there.index(device)}"
