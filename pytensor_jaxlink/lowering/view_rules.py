"""Rules for Ops that pass their input on; of some the gradient is another one."""

from __future__ import annotations

import jax
from pytensor.compile.ops import ViewOp
from pytensor.gradient import DisconnectedGrad, ZeroGrad
from pytensor.graph.basic import Apply
from pytensor.scalar.basic import ScalarType

from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.lowering.checks import is_differentiable
from pytensor_jaxlink.lowering.derivatives import Derivatives
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.ops import Unmerged, changes_gradient, is_entry_by_entry


@jax_rule.register(ViewOp)
def _view(op: ViewOp, node: Apply, context: Context) -> JaxFunction:
    if not changes_gradient(op) or not isinstance(node.inputs[0].type, ArrayType | ScalarType):
        return lambda value: value
    derivatives = Derivatives(
        node,
        context.where(),
        context.static,
        context.lower_graph,
        entry_by_entry=is_entry_by_entry(op),
    )

    def view(value: jax.Array) -> jax.Array:
        if not is_differentiable():
            return value
        [same] = derivatives.apply(lambda given: (given,), [value])
        return same

    return view


@jax_rule.register(Unmerged)
def _unmerged(op: Unmerged, node: Apply, context: Context) -> JaxFunction:
    return context.core_rule(op.of(node), context)


@jax_rule.register(DisconnectedGrad)
@jax_rule.register(ZeroGrad)
def _constant(op: ViewOp, node: Apply, context: Context) -> JaxFunction:
    if not isinstance(node.inputs[0].type, ArrayType | ScalarType):
        return lambda value: value
    return lambda value: jax.lax.stop_gradient(value) if is_differentiable() else value
