"""All that depends on the version of PyTensor, or on what has no public way.

Each entry says why it is here and what would end it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import AbstractFunctionGraph, FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import GraphRewriter

EMPTY_SOFTMAX_RAISES = not pytensor.__version__.startswith("3.0.")
"""In PyTensor 3.0 the softmax of an empty array is empty; from 3.1 it has no largest entry."""


def prepared_inner_graph(
    fgraph: AbstractFunctionGraph, rewriter: GraphRewriter, *, again: bool
) -> AbstractFunctionGraph:
    """The inner graph of an Op, rewritten for JAX.

    From PyTensor 3.1 inner graphs are frozen, and the rewriting of the outer graph rewrites them.
    Before, they were mutable and each backend rewrote its own copy when it linked.

    Parameters
    ----------
    again
        Whether to rewrite what has been rewritten: of the gradients that PyTensor wraps up
        (`OpFromGraph`) one pass leaves much that another one simplifies.
    """
    if not isinstance(fgraph, FunctionGraph) and not again:
        return fgraph
    copy = mutable(fgraph)
    rewriter.rewrite(copy)
    return copy


def inlined(node: Apply) -> list[Variable]:
    """The outputs of an `OpFromGraph` node as expressions in the node's inputs.

    From PyTensor 3.1 a frozen graph is bound to inputs; before, a graph was cloned.
    """
    inner: Any = node.op
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


def core_node(node: Apply) -> Apply:
    """The node that a `Blockwise` applies to each batch element.  PyTensor has no public name."""
    op: Any = node.op
    return op._create_dummy_core_node(node.inputs)


def ask_linker_for_function_maker() -> None:
    """Let a linker choose the class of the functions that are made with it.

    ``Mode.function_maker`` is how `pytensor.function` learns which maker to use, and a `Mode`
    subclass can override it; a plain ``Mode(linker=...)`` has no way to ask its linker.  This makes
    the property ask first.  For every linker without the attribute (all of PyTensor's own) nothing
    changes.  The only change that we make to PyTensor's classes; a hook in PyTensor would end it.
    """
    original = Mode.function_maker
    if getattr(original, "asks_linker", False):
        return

    class AskLinker(property):
        asks_linker = True

    def function_maker(mode: Mode) -> Any:
        maker = getattr(mode.linker, "function_maker", None)
        return original.__get__(mode) if maker is None else maker

    Mode.function_maker = AskLinker(function_maker)
