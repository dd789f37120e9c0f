"""Products of arrays, in PyTensor's types, with a check of the lengths that have to be equal."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.math import Dot

from pytensor_jaxlink.lowering.coercion import as_dtype, check_equal_lengths
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.ops import Contraction, held_dtype


@jax_rule.register(Dot)
def _dot(op: Dot, node: Apply, context: Context) -> JaxFunction:
    """In the type of the result: XLA makes a selection of a boolean that JAX converts (`as_dtype`).

    Operands that hold 64 bits have such a product.
    """
    dtype = held_dtype(node.outputs[0]) or node.outputs[0].type.dtype

    def dot(left: jax.Array, right: jax.Array) -> jax.Array:
        check_equal_lengths(np.shape(left)[-1], np.shape(right)[-2:][0])
        return jnp.dot(as_dtype(left, dtype), as_dtype(right, dtype))

    return dot


@jax_rule.register(Contraction)
def _contraction(op: Contraction, node: Apply, context: Context) -> JaxFunction:
    dimensions = (((op.left,), (op.right,)), ((), ()))
    dtype = held_dtype(node.outputs[0]) or node.outputs[0].type.dtype

    def contract(*matrices: jax.Array) -> jax.Array:
        left, right = (as_dtype(matrix, dtype) for matrix in matrices)
        check_equal_lengths(left.shape[op.left], right.shape[op.right])
        return jax.lax.dot_general(left, right, dimensions)

    return contract


@jax_rule.register(Einsum)
def _einsum(op: Einsum, node: Apply, context: Context) -> JaxFunction:
    """JAX stretches lengths of 1 and multiplies in its own types; PyTensor does neither."""
    terms = op.subscripts.partition("->")[0].replace(" ", "").split(",")
    kinds = [variable.type for variable in node.inputs]
    function = upstream_rule(node, dtype=node.outputs[0].type.dtype)

    def einsum(*operands: jax.Array) -> jax.Array:
        lengths: dict[str | int, list[int]] = {}
        for term, kind, operand in zip(terms, kinds, operands, strict=True):
            for label, length, known in zip(
                _labels(term, kind.ndim), np.shape(operand), kind.shape, strict=True
            ):
                if known != 1:
                    lengths.setdefault(label, []).append(length)
        for same in lengths.values():
            check_equal_lengths(*same)
        return function(*operands)

    return einsum


def _labels(term: str, ndim: int) -> list[str | int]:
    """The label of each dimension of an operand; those that dots stand for are numbered."""
    before, _, after = term.partition("...")
    return [*before, *range(len(before) + len(after) - ndim, 0), *after]
