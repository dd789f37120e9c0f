"""The ways in which a graph is run: under each set of options, and after it was saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import pytensor
from pytensor.compile.io import SymbolicOutput
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.link.vm import VMLinker
from pytensor.tensor.basic import ARange
from pytensor.tensor.type import DenseTensorType
from scipy.sparse import issparse

from pytensor_jaxlink import JAXLinker, NotJittableError, load, save
from pytensor_jaxlink.compat import IfElse
from pytensor_jaxlink.errors import ArtifactError, UntranspilableOpError
from pytensor_jaxlink.rewriting import (
    default_query,
    hand_on,
    keep_given,
    linked_query,
)
from tests.differential.failures import patient_mode
from tests.differential.grammar import Graph
from tests.differential.rounding import noisy_mode

PYTHON = Mode("py", "fast_run").excluding("fusion", "inplace", "BlasOpt")
"""The Python linker; without rewrites that fuse or work in place, which cost time here.

And without those for BLAS, which drop an array of integers from a sum (docs/upstream.md).
"""

PYTHON_IN_OUR_ORDER = Mode("py", linked_query().excluding("jaxlink"))
"""PyTensor's rewrites alone, without those that the linker takes away."""

LINKERS: dict[str, Mapping[str, Any]] = {
    "default": {},
    "recompile_limit": {"recompile_limit": 1, "dynamic": False},
    "dynamic": {"dynamic": True},
    "numpy": {"outputs": "numpy"},
    "donate": {"donate": "all"},
    "callback": {"host_ops": "callback"},
    "ignore": {"checks": "ignore"},
    "level_0": {"compiler_options": {"xla_backend_optimization_level": 0}},
    "ahead": {},
    "unjitted": {"jit": False},
}
"""For each set of options what the linker is asked for."""

TRANSFORMATIONS = ("grad", "vmap")
"""JAX's transformations of what `jaxify` makes."""

UNCHECKED = ("ignore", "traced")
"""The ways in which nothing is checked: what Python raises is not raised there."""

OWN = (*LINKERS, "cached", "unrewritten", "graph", "compiled")
"""The ways that call a function of ours; two are the layers of a saved one."""

OPTIONS = (*OWN, "traced", *TRANSFORMATIONS)
"""All ways."""


@dataclass(frozen=True)
class Way:
    """A function in one of the ways, and how its shared variables are read."""

    option: str
    function: Callable[..., Any]
    states: Callable[[], list[Any]]


def reference(graph: Graph, mode: Mode = PYTHON) -> Way:
    """The graph under PyTensor's Python linker."""
    return Way("python", _function(graph, mode), _states_of(graph))


def ordered_reference(graph: Graph) -> Way:
    """The graph with all rewrites: they decide which of several nodes that raise runs first."""
    return Way(
        "ordered", _function(graph, Mode("py", "fast_run").excluding("BlasOpt")), _states_of(graph)
    )


def counted_reference(graph: Graph) -> Way:
    """The graph where each length is that of its array, and none is inferred."""
    mode = PYTHON.excluding("ShapeOpt", "local_shape_to_shape_i")
    return Way("counted", _function(graph, mode), _states_of(graph))


def has_range_of_reals(graph: Graph) -> bool:
    """Whether a range of real numbers is in it: its inferred length may differ by one."""
    nodes = _nodes(graph)
    return any(isinstance(n.op, ARange) and n.outputs[0].type.dtype[0] == "f" for n in nodes)


def has_branch(graph: Graph) -> bool:
    """Whether an `IfElse` is in it: the Python linker runs both sides."""
    return any(isinstance(node.op, IfElse) for node in _nodes(graph))


def _nodes(graph: Graph) -> list[Apply]:
    ends = [*graph.outputs, *(update for _, update in graph.updates)]
    return FunctionGraph(outputs=ends, clone=True).toposort()


def lazy_reference(graph: Graph, mode: Mode) -> Way:
    """The graph in PyTensor, which runs the side of an `IfElse` that is taken, and no other."""
    linker = VMLinker(lazy=True, use_cloop=False, c_thunks=False)
    lazy = Mode(linker, mode.provided_optimizer)
    return Way("lazy", _function(graph, lazy), _states_of(graph))


def noisy_reference(graph: Graph, mode: Mode) -> tuple[Way, Callable[[int, bool], None]]:
    """The same with noise in the last digits, and the function that seeds the noise."""
    mode, seed = noisy_mode(mode)
    return Way("python", _function(graph, mode), _states_of(graph)), seed


def patient_references(graph: Graph) -> list[Way]:
    """The graph in Python, where a call raises what each of its operations raises.

    With rewrites, and without: PyTensor 3.0 checks some shapes before the operation that would.
    """
    modes = map(patient_mode, (PYTHON, Mode("py", None)))
    return [Way("patient", _function(graph, mode), _states_of(graph)) for mode in modes]


def is_refused(graph: Graph) -> bool:
    """Whether PyTensor's rewrites fail before the linker gets the graph (docs/upstream.md)."""
    try:
        _function(graph, PYTHON_IN_OUR_ORDER)
    except AssertionError:
        return True
    return False


def ways(graph: Graph, options: Sequence[str]) -> Iterator[Way | tuple[str, Exception]]:
    """The graph in each of the ways; what was raised where it cannot be built.

    It is rewritten once: options do not change what it is rewritten to.  A saved function is saved
    after the calls of the default.
    """
    first = _function(graph, Mode(linker=JAXLinker(), optimizer=default_query()))
    yield Way("default", first, _states_of(graph))
    for option in options:
        if option in LINKERS and option != "default":
            try:
                function = _linked(first, JAXLinker(**LINKERS[option]))
            except UntranspilableOpError:
                if option == "unjitted":  # all of it has to run in JAX
                    continue
                raise
            call = CALLS[option](function) if option in CALLS else function
            yield Way(option, call, _states_of(graph))
    if "traced" in options and (traced := _traced(graph, first)) is not None:
        yield Way("traced", traced, _states_of(graph))
    if "cached" in options:
        yield from _cached(graph)
    if set(options) & {"graph", "compiled"}:
        yield from _saved(graph, first, options)


def unrewritten(graph: Graph) -> Way:
    """The graph as the user wrote it."""
    return Way("unrewritten", _function(graph, Mode(JAXLinker(), None)), _states_of(graph))


def unassumed(graph: Graph) -> set[int]:
    """The calls in which an assumption of the library's own does not hold (docs/checks.md)."""
    graph.reset()
    mode = Mode(linker=JAXLinker(**LINKERS["dynamic"]), optimizer=default_query())
    function, found = _function(graph, mode), set()
    for number, values in enumerate(graph.calls):
        before = function.stats.fallbacks
        try:
            function(*deepcopy(values))
        except Exception:
            continue
        if function.stats.fallbacks > before:
            found.add(number)
    return found


def _function(graph: Graph, mode: Mode) -> Any:
    return pytensor.function(
        graph.inputs, graph.outputs, updates=graph.updates, mode=mode, on_unused_input="ignore"
    )


def _states_of(graph: Graph) -> Callable[[], list[Any]]:
    return lambda: [variable.get_value() for variable in graph.shared]


def _linked(function: Any, linker: JAXLinker) -> Any:
    """A function from the rewritten graph of another one."""
    maker = function.maker
    fgraph, _ = maker.fgraph.clone_get_equiv(attach_feature=False)
    fgraph.update_mapping = maker.fgraph.update_mapping
    hand_on(maker.fgraph, fgraph)
    keep_given(fgraph, maker.given)
    updates = {place: output for output, place in fgraph.update_mapping.items()}
    inputs = [copy(spec) for spec in maker.inputs]
    for place, spec in enumerate(inputs):
        spec.variable = fgraph.inputs[place]
        spec.update = fgraph.outputs[updates[place]] if place in updates else None
    made = type(maker)(
        inputs,
        [SymbolicOutput(output) for output in fgraph.outputs],
        mode=Mode(linker=linker, optimizer=default_query()),
        fgraph=fgraph,
        accept_inplace=True,
        no_fgraph_prep=True,
        on_unused_input="ignore",
    ).create([spec.value for spec in maker.inputs])
    made.unpack_single, made.return_none = function.unpack_single, function.return_none
    return made


def _traced(graph: Graph, first: Any) -> Callable[..., Any] | None:
    """The pure function under `jax.jit`, and None where JAX does not trace it.

    Matrices of SciPy are no arguments of `jax.jit`, and no results: they are bound before.
    """
    if not all(isinstance(each.type, DenseTensorType) for each in (*graph.shared, *graph.outputs)):
        return None
    try:
        function = _linked(first, JAXLinker(jit=False))
        static = function.static_argnums
    except (NotJittableError, UntranspilableOpError):
        return None
    plain = jax.jit(function.jax_fn, static_argnums=static)
    count = len(graph.outputs)
    states = function.input_storage[len(graph.inputs) :]

    def call(*values: Any) -> Any:
        given = [*values, *[state.value for state in states]]
        for place in static:
            size = np.asarray(given[place]).tolist()
            given[place] = tuple(size) if isinstance(size, list) else size
        matrices = {place: value for place, value in enumerate(given) if issparse(value)}
        bound = _bound(function.jax_fn, matrices)
        run = jax.jit(bound, static_argnums=static) if matrices else plain
        with jax.enable_x64(True), jax.checking_leaks():
            results = run(*[None if issparse(value) else value for value in given])
        for output, place in function.updates.items():
            states[place - len(values)].value = np.asarray(results[output])
        return results[:count]

    return call


def _bound(function: Callable[..., Any], values: Mapping[int, Any]) -> Callable[..., Any]:
    """A function, some of whose arguments are these."""
    return lambda *given: function(*[values.get(place, one) for place, one in enumerate(given)])


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, given arrays of JAX that nobody else holds."""

    def call(*values: Any) -> Any:
        with jax.enable_x64(True):
            return function(
                *[jax.device_put(np.array(v)) if isinstance(v, np.ndarray) else v for v in values]
            )

    return call


def compiled_before(function: Any) -> Callable[..., Any]:
    """The function, which is compiled for its arguments before each call."""

    def call(*values: Any) -> Any:
        return function.compile(*values)(*values)

    return call


CALLS = {"donate": on_device, "ahead": compiled_before}
"""How a function is called where it is not called as it is."""


def _cached(graph: Graph) -> Iterator[Way]:
    """The function that fills a start-up cache, and the one that comes from it."""
    with TemporaryDirectory() as folder:
        for _ in range(2):
            mode = Mode(JAXLinker(cache_dir=folder), default_query())
            graph.reset()
            yield Way("cached", _function(graph, mode), _states_of(graph))


def _saved(graph: Graph, function: Any, options: Sequence[str]) -> Iterator[Any]:
    graph.reset()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f.jaxlink"
        try:
            save(function, path)
        except ArtifactError as error:
            yield "graph", error
            return
        for layer in ("graph", "compiled"):
            if layer in options:
                try:
                    yield _loaded(graph, layer, path)
                except ArtifactError as error:
                    yield layer, error


def _loaded(graph: Graph, layer: Any, path: Path) -> Way:
    loaded = load(path, prefer=layer, allow=("tests",))
    states = loaded.graph.state if layer == "graph" else loaded.state
    named = {state.name: state for state in states}

    def values() -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [named[v.name].get_value() if v.name in named else None for v in graph.shared]

    return Way(layer, loaded, values)
