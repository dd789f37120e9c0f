"""Ops whose evaluation may show outside of the graph, so that they run as seldom as they can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.op import Op
from pytensor.link.c.op import COp
from pytensor.printing import Print

from pytensor_jaxlink.ops.inner_graph import inner_graphs


def is_foreign_module(module: str) -> bool:
    """Return True for a module that is neither PyTensor's nor ours."""
    return module.partition(".")[0] not in ("pytensor", "pytensor_jaxlink")


def has_effects(graph: AbstractFunctionGraph) -> bool:
    """Return True if a graph has an Op of the user's, or one that prints."""
    return has_op(graph, may_show)


def has_op(graph: AbstractFunctionGraph, asked: Callable[[Op], bool]) -> bool:
    """Return True if the answer is True for an Op of a graph, or of a graph inside it."""
    return any(asked(node.op) for node in graph.apply_nodes) or any(
        has_op(nested.fgraph, asked)
        for node in graph.apply_nodes
        for nested in inner_graphs(node.op, node)
    )


def may_show(op: Any) -> bool:
    """Return True for an Op of the user's, or one that prints."""
    op = getattr(op, "core_op", op)  # of a batch
    return isinstance(op, FromFunctionOp | Print) or is_foreign_module(type(op).__module__)


def makes_thunk(op: Op) -> bool:
    """Return True for an Op that makes or prepares the code which runs it: no `perform` will do."""
    kind = type(op)
    prepared = kind.make_py_thunk, kind.prepare_node
    own = any(is_foreign_module(method.__module__) for method in prepared)
    return own or kind.make_thunk not in (Op.make_thunk, COp.make_thunk)
