"""Rules for sparse matrices, as arithmetic on their stored entries.

What changes the pattern of a matrix (the sum or product of two, removing zeros) has results whose
number of entries depends on data, and runs on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.sparse import basic
from pytensor.sparse import math as sparse_math

from pytensor_jaxlink.lowering.coercion import as_dtype, as_jax
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule_for
from pytensor_jaxlink.sparse_values import SparseValue

JaxRule: TypeAlias = Callable[[Op, Apply, Context], JaxFunction]

_MODULES = (basic, sparse_math)


def _register(*names: str) -> Callable[[JaxRule], JaxRule]:
    """Register a rule whose function takes dense operands as arrays of JAX, constants too.

    A tracer, like the columns of the stored entries, is no index of a NumPy array.
    """

    def register(rule: JaxRule) -> JaxRule:
        @jax_rule_for(*names, where=_MODULES)
        def rule_on_arrays(op: Op, node: Apply, context: Context) -> JaxFunction:
            function = rule(op, node, context)
            return lambda *values: function(*map(as_jax, values))

        return rule

    return register


@_register("CSMProperties")
def _properties(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x: (x.data, x.indices, x.indptr, jnp.asarray(x.shape, "int32"))


@jax_rule_for("CSM", where=_MODULES)
def _matrix(op: Any, node: Apply, context: Context) -> JaxFunction:
    def matrix(
        data: jax.Array, indices: jax.Array, indptr: jax.Array, shape: np.ndarray
    ) -> SparseValue:
        rows, columns = (int(length) for length in shape)
        if data.shape != indices.shape:
            raise ValueError("data and indices of a sparse matrix have different lengths")
        return SparseValue(data, indices, indptr, (rows, columns), op.format)

    return matrix


@_register("Cast")
def _cast(op: Any, node: Apply, context: Context) -> JaxFunction:
    return lambda x: x.with_data(as_dtype(x.data, op.out_type))


@_register("DenseFromSparse")
def _dense(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x: jnp.zeros(x.shape, x.dtype).at[x.coordinates].add(x.data)


@_register("Transpose")
def _transpose(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x: x.transposed


@_register("Dot", "StructuredDot")
def _dot(op: Op, node: Apply, context: Context) -> JaxFunction:
    def dot(x: Any, y: Any) -> jax.Array:
        if x.shape[-1] != y.shape[0]:
            raise ValueError(f"shapes {x.shape} and {y.shape} do not fit a product")
        if isinstance(x, SparseValue):
            return _times_dense(x, y)
        return _times_dense(y.transposed, x.T).T

    return dot


def _times_dense(x: SparseValue, y: jax.Array) -> jax.Array:
    """The product of a sparse and a dense matrix or vector."""
    dtype = jnp.promote_types(x.dtype, y.dtype)
    rows, columns = x.coordinates
    entries = x.data.reshape((-1,) + (1,) * (y.ndim - 1)).astype(dtype) * y[columns]
    return jnp.zeros((x.shape[0], *y.shape[1:]), dtype).at[rows].add(entries)


@_register("StructuredDotGradCSC")
def _dot_grad_csc(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda indices, indptr, b, g: _entries_of_product("csc", indices, indptr, g, b)


@_register("StructuredDotGradCSR")
def _dot_grad_csr(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda indices, indptr, b, g: _entries_of_product("csr", indices, indptr, g, b)


def _entries_of_product(
    form: str, indices: jax.Array, indptr: jax.Array, left: jax.Array, right: jax.Array
) -> jax.Array:
    """The entries of ``left @ right.T`` at the places of a pattern."""
    pattern = SparseValue(indices, indices, indptr, (left.shape[0], right.shape[0]), form)
    rows, columns = pattern.coordinates
    return (left[rows] * right[columns]).sum(axis=-1)


@_register("SamplingDot")
def _sampling_dot(op: Op, node: Apply, context: Context) -> JaxFunction:
    def sampling_dot(x: jax.Array, y: jax.Array, pattern: SparseValue) -> SparseValue:
        rows, columns = pattern.coordinates
        return pattern.with_data(pattern.data * (x[rows] * y[columns]).sum(axis=-1))

    return sampling_dot


@_register("SpSum")
def _sum(op: Any, node: Apply, context: Context) -> JaxFunction:
    def total(x: SparseValue) -> jax.Array:
        if op.axis is None:
            return x.data.sum()
        kept = 1 - op.axis % 2
        return jnp.zeros((x.shape[kept],), x.dtype).at[x.coordinates[kept]].add(x.data)

    return total


@_register("MultiplySparseDense", "SparseDenseMultiply")
def _times(op: Op, node: Apply, context: Context) -> JaxFunction:
    def times(x: SparseValue, y: jax.Array) -> SparseValue:
        if y.ndim == 0:
            return x.with_data(x.data * y)
        if y.shape != x.shape:
            raise ValueError(f"matrices of shapes {x.shape} and {y.shape} are multiplied")
        return x.with_data(x.data * y[x.coordinates])

    return times


@_register("MultiplySparseDenseVector", "SparseDenseVectorMultiply", "ColScaleCSC")
def _scale_columns(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x, scale: x.with_data(x.data * scale[x.coordinates[1]])


@_register("RowScaleCSC")
def _scale_rows(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x, scale: x.with_data(x.data * scale[x.coordinates[0]])


@_register("StructuredAddSparseDenseVector", "StructuredAddSV")
def _add_to_columns(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x, added: x.with_data(x.data + added[x.coordinates[1]])


@_register("AddSparseDense", "AddSD")
def _add_dense(op: Op, node: Apply, context: Context) -> JaxFunction:
    def add(x: SparseValue, y: jax.Array) -> jax.Array:
        if y.shape != x.shape:
            raise ValueError(f"matrices of shapes {x.shape} and {y.shape} are added")
        dtype = jnp.promote_types(x.dtype, y.dtype)
        return y.astype(dtype).at[x.coordinates].add(x.data.astype(dtype))

    return add


@_register("AddSparseSparseData", "AddSSData")
def _add_data(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda x, y: x.with_data(x.data + y.data)


@_register("Diag")
def _diagonal(op: Op, node: Apply, context: Context) -> JaxFunction:
    def diagonal(x: SparseValue) -> jax.Array:
        if x.shape[0] != x.shape[1]:
            raise ValueError("Diag only apply on square matrix")
        rows, columns = x.coordinates
        entries = jnp.where(rows == columns, x.data, jnp.zeros((), x.dtype))
        return jnp.zeros(x.shape[:1], x.dtype).at[rows].add(entries)

    return diagonal
