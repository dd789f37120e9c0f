"""Scalar Ops that hold a graph of scalar Ops, or have one as their gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.scipy import special
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph, FunctionGraph
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.scalar import basic, math
from pytensor.scalar.loop import ScalarLoop

from pytensor_jaxlink.errors import NotDifferentiableError
from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import as_dtype, canonical_dtype
from pytensor_jaxlink.lowering.node_by_node import node_by_node
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction, scalar_function
from pytensor_jaxlink.remedies import Remedy

Loop = tuple[jax.Array, tuple[jax.Array, ...], jax.Array]
"""The steps that were made, the state, and where the loop has ended."""


@scalar_function.register(math.BetaInc)
def _betainc(op: math.BetaInc, node: Apply) -> ScalarFunction:
    """JAX has no gradient with respect to the first two arguments."""
    return with_own_gradient(special.betainc, op, node)


def with_own_gradient(function: ScalarFunction, op: basic.ScalarOp, node: Apply) -> ScalarFunction:
    """The function of a scalar Op, which JAX differentiates by the Op's gradient in PyTensor."""
    inputs = [basic.get_scalar_type(v.type.dtype)() for v in node.inputs]

    @cache  # made when it is asked for: the gradient holds this Op again
    def slope(position: int) -> Callable[..., Sequence[jax.Array]]:
        [cost] = op.make_node(*inputs).outputs
        try:
            result: Any = grad(cost, inputs[position])
        except (NotImplementedError, NullTypeGradError) as error:
            raise NotDifferentiableError(
                f"JAX differentiates {op} with respect to its argument {position + 1}, and "
                f"PyTensor has no such gradient. {Remedy.HOLD_CONSTANT.text()}."
            ) from error
        return _composed(FunctionGraph(inputs, [result], clone=True))

    differentiable = jax.custom_jvp(function)

    def jvp(primals: Sequence[jax.Array], tangents: Sequence[jax.Array]) -> tuple[jax.Array, Any]:
        # Some gradients are loops, so only those that are asked for are computed.
        terms = [
            slope(position)(*primals)[0] * tangent
            for position, tangent in enumerate(tangents)
            if not isinstance(tangent, jax.custom_derivatives.SymbolicZero)
        ]
        return differentiable(*primals), sum(terms)

    differentiable.defjvp(jvp, symbolic_zeros=True)
    return lambda *values: differentiable(*jnp.broadcast_arrays(*values))


@scalar_function.register(basic.Composite)
def _composite(op: basic.Composite, node: Apply) -> ScalarFunction:
    """Each Op by the function that it has outside of a graph of scalars."""
    function = _composed(op.fgraph)
    if len(node.outputs) > 1:
        return cast("ScalarFunction", function)
    return lambda *values: function(*values)[0]


@scalar_function.register(ScalarLoop)
def _scalar_loop(op: ScalarLoop, node: Apply) -> ScalarFunction:
    """One loop for all elements, which ends when it has ended for each."""
    step = _composed(op.fgraph)
    carried = len(op.outputs) - int(op.is_while)
    dtypes = [variable.type.dtype for variable in op.outputs]

    def scalar_loop(steps: jax.Array, *values: jax.Array) -> Any:
        if not op.is_while:
            require(steps >= 0)
        limit, *inputs = jnp.broadcast_arrays(steps, *values)
        start, constant = inputs[:carried], inputs[carried:]
        state = tuple(
            jnp.asarray(entry, canonical_dtype(dtype))
            for entry, dtype in zip(start, dtypes[:carried], strict=True)
        )

        def goes_on(loop: Loop) -> jax.Array:
            made, _, done = loop
            return ((made < limit) & ~done).any()

        def body(loop: Loop) -> Loop:
            made, state, done = loop
            active = (made < limit) & ~done
            outputs = step(*state, *constant)
            state = tuple(
                jnp.where(active, jnp.asarray(new, old.dtype), old)
                for new, old in zip(outputs[:carried], state, strict=True)
            )
            if op.is_while:
                done = jnp.where(active, outputs[-1], done)
            return made + 1, state, done

        loop = (jnp.zeros((), limit.dtype), state, jnp.zeros(limit.shape, bool))
        _, state, done = jax.lax.while_loop(goes_on, body, loop)
        outputs = (*state, done) if op.is_while else state
        return outputs[0] if len(outputs) == 1 else outputs

    return scalar_loop


def _composed(fgraph: AbstractFunctionGraph) -> Callable[..., Sequence[jax.Array]]:
    """A graph of scalar Ops as a function of arrays."""
    return node_by_node(fgraph, _as_declared)


def _as_declared(node: Apply) -> Callable[..., list[jax.Array]]:
    """The function of a scalar Op; its results have the dtypes that the Op declares."""
    function = scalar_function(node.op, node) or jax_funcify(node.op, node=node)

    def computed(*values: jax.Array) -> list[jax.Array]:
        results = function(*values)
        results = results if isinstance(results, tuple | list) else (results,)
        return [
            as_dtype(result, variable.type.dtype)
            for result, variable in zip(results, node.outputs, strict=True)
        ]

    return computed
