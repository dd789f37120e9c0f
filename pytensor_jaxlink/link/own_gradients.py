"""JAX's derivatives of graphs that declare other gradients than those of their values.

`zero_grad`, `grad_clip` and others of `pytensor.gradient` pass on what they are given.  PyTensor's
rewrites drop them, because it has taken all gradients before, and what is beside them is simplified
together (the logarithm of a sigmoid).  JAX takes derivatives after the rewrites.  So the values are
those of the rewritten graph, and the derivatives those of the graph that keeps these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero, zero_from_primal
from pytensor.compile.io import In
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.compat import runnable_copy
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.ops import changes_gradient, has_op, keep_apart
from pytensor_jaxlink.rewriting import default_query, excluded_of, given_of, rewrites_of

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph

Trace = Callable[[Sequence[object]], list[object]]
"""From the values of the inputs of a graph to those of its outputs, as JAX traces them."""

_DROPS = "local_view_op"
"""PyTensor's rewrite that drops the operations."""


def has_own_gradients(compiled: CompiledGraph) -> bool:
    """Return True if the rewrites have dropped operations that declare another gradient."""
    given = given_of(compiled.source)
    if given is None or _DROPS in excluded_of(compiled.source):
        return False
    return has_op(given, changes_gradient)


def with_own_gradients(compiled: CompiledGraph) -> CompiledGraph:
    """The graph with the operations that the rewrites have dropped."""
    from pytensor_jaxlink.link.maker import JAXFunctionMaker

    source, options = compiled.source, replace(compiled.options, cache_dir=None)
    given = given_of(source)
    assert given is not None
    linker = JAXLinker()
    linker.options = options
    query = RewriteDatabaseQuery(
        include=rewrites_of(source), exclude=[*(default_query().exclude or ()), _DROPS]
    )
    graph = runnable_copy(given)
    keep_apart(graph)
    mode = Mode(linker, query)
    inputs = [In(variable) for variable in graph.inputs]
    maker = JAXFunctionMaker(inputs, graph.outputs, mode, fgraph=graph, on_unused_input="ignore")
    return type(compiled)(maker.fgraph, options)


def differentiated(value_of: Trace, kept: Callable[[], Trace]) -> Trace:
    """Give a function the derivatives of another one with the same values.

    Parameters
    ----------
    value_of
        The function.
    kept
        Gives the other one, when JAX differentiates.
    """

    def function(values: Sequence[object]) -> list[object]:
        places = [k for k, value in enumerate(values) if _is_traced(value)]
        leaves, tree = jax.tree.flatten([values[k] for k in places])

        def all_values(given: Sequence[object]) -> list[object]:
            found = dict(zip(places, jax.tree.unflatten(tree, given), strict=True))
            return [found.get(k, value) for k, value in enumerate(values)]

        def rule(
            primals: Sequence[jax.Array], tangents: Sequence[jax.Array]
        ) -> tuple[list[object], list[object]]:
            moving = [k for k, each in enumerate(tangents) if not isinstance(each, SymbolicZero)]

            def outputs_of(*moved: jax.Array) -> list[object]:
                given = list(primals)
                for k, value in zip(moving, moved, strict=True):
                    given[k] = value
                return kept()(all_values(given))

            points, directions = ([each[k] for k in moving] for each in (primals, tangents))
            _, moves = jax.jvp(outputs_of, points, directions)
            outputs = jax.device_put(same(*primals))  # NumPy arrays give such
            # What operations in place leave in inputs follows the outputs.
            return outputs, [*moves, *map(zero_from_primal, outputs[len(moves) :])]

        same = jax.custom_jvp(lambda *given: value_of(all_values(given)))
        same.defjvp(rule, symbolic_zeros=True)
        return same(*leaves) if places else value_of(values)

    return function


def _is_traced(value: object) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
