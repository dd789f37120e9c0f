"""Operands that XLA must not see through.

XLA takes ``(a / b) / c`` for ``a / (b * c)``, and ``a / (b / c)`` for ``a * c / b``: the products
overflow, or become zero, where the quotients do not.  It takes ``log(a ** b)`` for
``b * log(abs(a))``, a number where the logarithm of a negative one is NaN (docs/upstream.md).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar.basic import ScalarOp

from pytensor_jaxlink.analysis import MOVING
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction


def hiding(function: ScalarFunction, node: Apply, kind: type[ScalarOp]) -> ScalarFunction | None:
    """The function with its operands hidden that such an Op computes; None without any."""
    hidden = [_is_computed_by(operand, kind) for operand in node.inputs]
    if not any(hidden):
        return None

    def apply(*values: jax.Array) -> jax.Array:
        pairs = zip(values, hidden, strict=True)
        return function(*[opaque(value) if hide else value for value, hide in pairs])

    return apply


def opaque(value: jax.Array) -> jax.Array:
    """The same value.  A selection costs less than a barrier, over which XLA does not fuse."""
    return jnp.where(jnp.isnan(value), jnp.nan, value)


def _is_computed_by(operand: Variable, kind: type[ScalarOp]) -> bool:
    while (node := operand.owner) is not None and isinstance(node.op, MOVING):
        operand = node.inputs[0]
    op = getattr(node, "op", None)
    return isinstance(getattr(op, "scalar_op", op), kind)
