"""All that depends on the version of PyTensor, or on what has no public way.

Each entry says why it is here and what would end it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from operator import is_
from typing import Any

import numpy as np
import pytensor
import pytensor.scalar
import pytensor.tensor
import scipy
from pytensor.compile.executor import Function
from pytensor.compile.mode import Mode
from pytensor.configdefaults import config
from pytensor.configparser import ConfigParam
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import AbstractFunctionGraph, FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.link.basic import Linker
from pytensor.link.jax.linker import JAXLinker as PyTensorJAXLinker
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import Elemwise

as_tensor_dispatcher: Any = pytensor.tensor._as_tensor_variable
"""How PyTensor makes a tensor of a value, by its class.  PyTensor has no public name for it."""

WRONG_REWRITES = (
    ("det_of_matrix_factorized_elsewhere",) if pytensor.__version__.startswith("3.0.") else ()
)
"""In PyTensor 3.0 a determinant beside an LU factorisation loses the sign of the permutation."""

EMPTY_SOFTMAX_RAISES = not pytensor.__version__.startswith("3.0.")
"""In PyTensor 3.0 the softmax of an empty array is empty; from 3.1 it has no largest entry."""

SCIPY_CASTS_COUNTS = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 18)
"""From SciPy 1.18 on `betabinom` takes counts of any dtype; before, those that are cast safely."""


@cache
def computes_in_pairs() -> bool:
    """Return True if the Python linker takes sums and products of many arrays in pairs.

    Then an int8 times an int8 wraps before it is multiplied with a float64.  Earlier versions
    compute with Python's numbers.
    """
    short, long = pytensor.tensor.bvector(), pytensor.tensor.dvector()
    node, cell = Elemwise(pytensor.scalar.mul).make_node(short, short, long), [None]
    entry = np.array([100], "int8")
    node.op.perform(node, [entry, entry, np.ones(1)], [cell])
    return bool(np.asarray(cell[0]) != 100 * 100)


def prepared_inner_graph(
    fgraph: AbstractFunctionGraph, rewriter: Callable[[], GraphRewriter], *, again: bool
) -> AbstractFunctionGraph:
    """The inner graph of an Op, rewritten for JAX.

    From PyTensor 3.1 inner graphs are frozen, and the rewriting of the outer graph rewrites them.
    Before, they were mutable and each backend rewrote its own copy when it linked.

    Parameters
    ----------
    rewriter
        Gives the rewriter.  To make one takes longer than to analyse a small loop.
    again
        Whether to rewrite what has been rewritten: of the gradients that PyTensor wraps up
        (`OpFromGraph`) one pass leaves much that another one simplifies.
    """
    if not isinstance(fgraph, FunctionGraph) and not again:
        return fgraph
    copy = mutable(fgraph)
    rewriter().rewrite(copy)
    return copy


def with_inner_graph(op: Any, change: Callable[[FunctionGraph], None]) -> Any:
    """A copy of an Op whose inner graph has been changed in place; frozen from PyTensor 3.1 on."""
    if isinstance(op.fgraph, FunctionGraph):
        copy = op.clone()
        change(copy.fgraph)
        return copy
    inner = op.fgraph.unfreeze()
    change(inner)
    return op.clone_with_inner_graph(inner)


def inlined(node: Apply) -> list[Variable]:
    """The outputs of an `OpFromGraph` node as expressions in the node's inputs.

    From PyTensor 3.1 a frozen graph is bound to inputs; before, a graph was cloned.
    """
    inner = node.op
    replacements = dict(zip(inner.fgraph.inputs, node.inputs, strict=True))
    if isinstance(inner.fgraph, FunctionGraph):
        return clone_replace(inner.fgraph.outputs, replacements)
    return inner.fgraph.bind(replacements)


# The place of `IfElse` is another from PyTensor 3.2 on, where the old one warns.
_new_place = find_spec("pytensor.conditional") is not None
_conditional: Any = import_module("pytensor.conditional.op" if _new_place else "pytensor.ifelse")
IfElse, ifelse = _conditional.IfElse, _conditional.ifelse


def mutable(fgraph: AbstractFunctionGraph) -> FunctionGraph:
    """A copy of a graph that can be rewritten.  Before PyTensor 3.1 no graph was frozen."""
    if isinstance(fgraph, FunctionGraph):
        return fgraph.clone()
    unfrozen: Any = fgraph
    return unfrozen.unfreeze()


def runnable_copy(graph: FunctionGraph) -> FunctionGraph:
    """A copy of a graph whose loops PyTensor may run.

    PyTensor 3.0 rewrites the inner graph of a loop in place when the loop runs for the first time,
    with operations in place that no other graph may have.  Later ones are frozen.
    """
    if any(map(_is_compiled_in_place, graph.apply_nodes)):
        return graph.clone(clone_inner_graphs=True)
    return graph.clone()


def runnable_op(node: Apply) -> Op:
    """The Op of a node, or a copy of it: see `runnable_copy`."""
    return node.op.clone() if _is_compiled_in_place(node) else node.op


def _is_compiled_in_place(node: Apply) -> bool:
    return isinstance(node.op, Scan) and isinstance(node.op.fgraph, FunctionGraph)


def core_node(node: Apply) -> Apply:
    """The node that a `Blockwise` applies to each batch element.  PyTensor has no public name."""
    op = node.op
    return op._create_dummy_core_node(node.inputs)


def ask_linker_for_function_maker() -> None:
    """Let a linker choose the class of the functions that are made with it.

    ``Mode.function_maker`` is how `pytensor.function` learns which maker to use, and a `Mode`
    subclass can override it; a plain ``Mode(linker=...)`` has no way to ask its linker.  This makes
    the property ask first.  For every linker without the attribute (all of PyTensor's own) nothing
    changes.  A hook in PyTensor would end this.
    """
    original = Mode.function_maker
    if getattr(original, "asks_linker", False):
        return

    class AskLinker(property):
        asks_linker = True

    def function_maker(mode: Mode) -> Any:
        maker = getattr(mode.linker, "function_maker", None)
        return original.__get__(mode) if maker is None else maker

    mode_class: Any = Mode
    mode_class.function_maker = AskLinker(function_maker)


_INNER_GRAPH_REWRITES = (
    ("pytensor.scan.rewriting.inner_graph", "rewrite_scan_inner_graph"),
    ("pytensor.compile.rewriting", "rewrite_ofg_inner_graph"),
    ("pytensor.tensor.optimize", "rewrite_optimize_inner_graph"),
)


def rewrite_inner_graphs_as_for_jax(linker: type[Linker]) -> None:
    """Have inner graphs rewritten under ``linker`` as for PyTensor's mode "JAX": nothing in place.

    From PyTensor 3.1 the class of the linker selects the rewrites of inner graphs, and those of
    `PerformLinker` work in place.  Before, each backend rewrote its own copy when it linked.
    """
    for module, name in _INNER_GRAPH_REWRITES:
        if find_spec(module) is not None:
            dispatcher = getattr(import_module(module), name, None)
            if dispatcher is not None:
                dispatcher.register(linker, dispatcher.dispatch(PyTensorJAXLinker))


def start_processes_as_for_jax(linker: type[Linker]) -> None:
    """Let PyMC, which must have been imported, start its processes by forkserver for ``linker``.

    It does so for PyTensor's mode "JAX", if `pymc.sample` is given that mode: it asks for the class
    of PyTensor's linker, and never for the mode of the configuration, or of a step method that the
    user has made.  JAX has threads, and a forked process has none of them.  A hook in PyMC would
    end this.
    """
    parallel: Any = sys.modules["pymc.sampling.parallel"]
    if hasattr(parallel, "JAXLinker"):
        parallel.JAXLinker |= linker
    for module in ("pymc.sampling.parallel", "pymc.sampling.mcmc", "pymc.smc.sampling"):
        choose = getattr(sys.modules.get(module), CHOOSES_PROCESSES, None)
        if choose is not None:
            setattr(sys.modules[module], CHOOSES_PROCESSES, _with_configured_mode(choose))
    sampler = getattr(parallel, "ParallelSampler", None)
    if sampler is not None and hasattr(parallel, CHOOSES_PROCESSES):
        sampler.__init__ = _asking_steps(sampler.__init__, linker)


CHOOSES_PROCESSES = "_initialize_multiprocessing_context"
"""The function of PyMC that chooses how processes start.  It has no public name."""


def _with_configured_mode(choose: Callable[..., object]) -> Callable[..., object]:
    @wraps(choose)
    def chosen(context: object, *, mode: object = None, **options: object) -> object:
        found: Any = choose(context, mode=config.mode if mode is None else mode, **options)
        if context is None:
            found = copy(found)  # it is a module's
            found.left_to_pymc = True
        return found

    return chosen


def _asking_steps(original: Callable[..., None], linker: type[Linker]) -> Callable[..., None]:
    @wraps(original)
    def make(self: object, *, step_method: object, mp_ctx: Any = None, **options: object) -> None:
        if getattr(mp_ctx, "left_to_pymc", False) and _has_function(step_method, linker):
            choose = getattr(sys.modules["pymc.sampling.parallel"], CHOOSES_PROCESSES)
            mp_ctx = choose(None, mode=Mode(linker=linker()))
        original(self, step_method=step_method, mp_ctx=mp_ctx, **options)

    return make


def _has_function(part: Any, linker: type[Linker], depth: int = 5) -> bool:
    """Return True if a step method, or a part of it, calls a function of a linker."""
    if isinstance(part, Function):
        return isinstance(part.maker.linker, linker)
    if isinstance(part, dict):
        parts = part.values()
    elif isinstance(part, list | tuple):
        parts = part
    elif any(kind.__module__.startswith("pymc.") for kind in type(part).__mro__):
        parts = getattr(part, "__dict__", {}).values()
    else:
        return False
    return depth > 0 and any(_has_function(each, linker, depth - 1) for each in parts)


def accept_in_configuration(mode: str, linker: str) -> None:
    """Let ``config.mode`` and ``config.linker`` take names that are registered.

    PyTensor has the names of its own in both, and no way to add one.
    """
    configuration: Any = type(config)
    configuration.linker.all.add(linker)
    own = configuration.mode
    if mode in getattr(own, "added", ()):
        return

    def checked(value: object) -> Any:
        return value if isinstance(value, str) and value == mode else own.apply(value)

    extended: Any = ConfigParam(config.mode, apply=checked)
    extended.added = (mode,)
    config.add("mode", own.doc, extended, in_c_key=own.in_c_key)


def retry_with(convert: Callable[[list[object]], list[object]], owner: type, name: str) -> None:
    """Call a method of PyTensor again with converted arguments, where it raises and they change.

    PyTensor compares the classes of keys, lengths and axes with NumPy's, and has no way to add one.
    A call that succeeds costs nothing more.
    """
    original = getattr(owner, name)

    @wraps(original)
    def method(*args: object, **options: object) -> Any:
        try:
            return original(*args, **options)
        except (TypeError, ValueError):
            new_args = convert(list(args))
            new_options = dict(zip(options, convert(list(options.values())), strict=True))
            old, new = [*args, *options.values()], [*new_args, *new_options.values()]
            if len(old) == len(new) and all(map(is_, old, new)):
                raise
        return original(*new_args, **new_options)

    # PyTensor skips its own files when it looks for the line of the user that made a node.
    code: Any = method
    code.__code__ = code.__code__.replace(co_filename=original.__code__.co_filename)
    setattr(owner, name, method)
