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
from jax.custom_derivatives import SymbolicZero, zero_from_primal
from pytensor.compile.io import In
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.type import Type
from pytensor.scalar.basic import ScalarType

from pytensor_jaxlink.compat import runnable_copy
from pytensor_jaxlink.errors import NotDifferentiableError, NotJittableError
from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.ops import has_op, is_kept_apart, keep_apart
from pytensor_jaxlink.rewriting import default_query, excluded_of, given_of, rewrites_of
from pytensor_jaxlink.trees import is_traced

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph

Trace = Callable[[Sequence[object]], list[object]]
"""From the values of the inputs of a graph to those of its outputs, as JAX traces them."""

_DROPS = "local_view_op"
"""PyTensor's rewrite that drops the operations."""


def has_own_gradients(compiled: CompiledGraph) -> bool:
    """Return True if the rewrites may drop or merge operations that declare another gradient."""
    given = given_of(compiled.source)
    return given is not None and has_op(given, is_kept_apart)


def with_own_gradients(compiled: CompiledGraph) -> CompiledGraph:
    """The graph with the operations that the rewrites have dropped."""
    from pytensor_jaxlink.link.maker import JAXFunctionMaker

    source, options = compiled.source, replace(compiled.options, cache_dir=None)
    given = given_of(source)
    assert given is not None
    linker = JAXLinker()
    linker.options = options
    excluded = *(default_query().exclude or ()), *excluded_of(source), _DROPS
    query = RewriteDatabaseQuery(include=rewrites_of(source), exclude=excluded)
    graph = runnable_copy(given)
    keep_apart(graph)
    mode = Mode(linker, query)
    inputs = [In(variable) for variable in graph.inputs]
    maker = JAXFunctionMaker(inputs, graph.outputs, mode, fgraph=graph, on_unused_input="ignore")
    return type(compiled)(maker.fgraph, options)


def differentiated(value_of: Trace, kept: Callable[[], Trace], outputs: Sequence[Type]) -> Trace:
    """Give a function the derivatives of another one with the same values.

    Parameters
    ----------
    value_of
        The function.
    kept
        Gives the other one, when JAX differentiates.
    outputs
        The types of the results.
    """
    # Others have no derivatives, and JAX cannot map generators beside those that have.
    real = [k for k, kind in enumerate(outputs) if _has_derivatives(kind)]

    def function(values: Sequence[object]) -> list[object]:
        places = [k for k, value in enumerate(values) if is_traced(jax.tree.leaves(value))]
        if not places:
            return value_of(values)
        leaves, tree = jax.tree.flatten([values[k] for k in places])
        # What JAX keeps of a function must not hold what it traces.
        others = {k: value for k, value in enumerate(values) if k not in places}

        def real_outputs(trace: Trace, given: Sequence[object]) -> list[object]:
            found = others | dict(zip(places, jax.tree.unflatten(tree, given), strict=True))
            results = trace([found[k] for k in sorted(found)])
            # What operations in place leave in inputs follows the outputs.
            return [results[k] for k in real if k < len(results)]

        def rule(
            primals: Sequence[jax.Array], tangents: Sequence[jax.Array]
        ) -> tuple[list[object], list[object]]:
            moving = [k for k, each in enumerate(tangents) if not isinstance(each, SymbolicZero)]

            def outputs_of(*moved: jax.Array) -> list[object]:
                given = list(primals)
                for k, value in zip(moving, moved, strict=True):
                    given[k] = value
                return real_outputs(kept(), given)

            points, directions = ([each[k] for k in moving] for each in (primals, tangents))
            try:
                _, moves = jax.jvp(outputs_of, points, directions)
            except NotJittableError as error:
                raise NotDifferentiableError(
                    "JAX differentiates a graph that declares other gradients (zero_grad, "
                    "grad_clip), and cannot trace it with these. Take the gradient by PyTensor: "
                    "jaxify(inputs, pytensor.grad(cost, inputs))."
                ) from error
            results = jax.device_put(same(*primals))  # NumPy arrays give such
            return results, [*moves, *map(zero_from_primal, results[len(moves) :])]

        same = jax.custom_jvp(lambda *given: real_outputs(value_of, given))
        same.defjvp(rule, symbolic_zeros=True)
        results = dict(zip(real, same(*leaves), strict=False))
        if len(results) < len(outputs):
            results = dict(enumerate(value_of(values))) | results
        return [results[k] for k in sorted(results)]

    return function


def _has_derivatives(kind: Type) -> bool:
    is_array = isinstance(kind, ArrayType | ScalarType)
    return is_array and kind.dtype.startswith(("float", "complex"))
