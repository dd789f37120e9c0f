"""Rules for sparse matrices, as arithmetic on their stored entries.

What changes the pattern of a matrix (the sum or product of two, removing zeros) has results whose
number of entries depends on data, and runs on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.sparse import basic
from pytensor.sparse import math as sparse_math

from pytensor_jaxlink.lowering.checks import collect, require
from pytensor_jaxlink.lowering.coercion import as_dtype, as_jax, plus_zero
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, functions_by, jax_rule_for
from pytensor_jaxlink.lowering.rules import not_right
from pytensor_jaxlink.ops import held_dtype
from pytensor_jaxlink.sparse_values import SparseValue

Dense: TypeAlias = "jax.Array | np.ndarray"

JaxRule: TypeAlias = Callable[[Op, Apply, Context], JaxFunction]

One = TypeVar("One", SparseValue, jax.Array)
Other = TypeVar("Other", SparseValue, jax.Array)

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


_function = functions_by(_register)

_function("CSMProperties")(lambda x: (x.data, x.indices, x.indptr, jnp.asarray(x.shape, "int32")))
_function("DenseFromSparse")(lambda x: _added(x.shape, x.coordinates, x.data))
_function("Transpose")(lambda x: x.transposed)


def _not_right_mixed(op: Op, node: Apply) -> str | None:
    dtypes = [each.type.dtype for each in node.inputs]
    if np.result_type(*dtypes) != node.outputs[0].type.dtype:
        return f"SciPy does not compute in {node.outputs[0].type.dtype} with {', '.join(dtypes)}"
    return None


for _name in ("ColScaleCSC", "RowScaleCSC", "SamplingDot"):
    for _module in _MODULES:
        if hasattr(_module, _name):
            not_right.register(getattr(_module, _name), _not_right_mixed)


def _in_one_type(x: One, y: Other) -> tuple[One, Other]:
    """Two operands, sparse or dense, in the type in which NumPy combines them."""
    dtype = np.result_type(x.dtype, y.dtype)
    return _converted(x, dtype), _converted(y, dtype)


def _converted(operand: One, dtype: np.dtype) -> One:
    if isinstance(operand, SparseValue):
        return operand.with_data(as_dtype(operand.data, dtype))
    return as_dtype(operand, dtype)


def _scaled(x: SparseValue, scale: jax.Array, axis: int) -> SparseValue:
    if scale.shape != (x.shape[axis],):
        raise ValueError(f"a matrix of shape {x.shape} is scaled by {scale.shape[0]} numbers")
    return x.with_data(x.data * scale[x.coordinates[axis]])


_function("ColScaleCSC")(partial(_scaled, axis=1))
_function("RowScaleCSC")(partial(_scaled, axis=0))


@_function("MultiplySparseDenseVector", "SparseDenseVectorMultiply")
def _times_vector(x: SparseValue, scale: jax.Array) -> SparseValue:
    collect(jnp.isfinite(scale))  # PyTensor multiplies the entries that are not stored, too
    x, scale = _in_one_type(x, scale)
    return _scaled(x, scale, 1)


@_function("StructuredAddSparseDenseVector", "StructuredAddSV")
def _add_to_stored(x: SparseValue, added: jax.Array) -> SparseValue:
    if added.shape != x.shape[1:]:
        raise ValueError(f"{added.shape[0]} numbers are added to a matrix of shape {x.shape}")
    # PyTensor adds to entries of the dense matrix, once to each that is not zero.
    collect(x.data != 0)
    collect(jnp.isfinite(added))
    x, added = _in_one_type(x, added)
    outer, inner = x.coordinates if x.format == "csr" else x.coordinates[::-1]
    collect((jnp.diff(outer) > 0) | (jnp.diff(inner) > 0))
    return x.with_data(x.data + added[x.coordinates[1]])


@_function("AddSparseSparseData", "AddSSData")
def _add_data(x: SparseValue, y: SparseValue) -> SparseValue:
    if x.shape != y.shape or x.data.shape != y.data.shape:
        raise ValueError(f"the entries of matrices of shapes {x.shape} and {y.shape} are added")
    return x.with_data(x.data + y.data)


@jax_rule_for("CSM", where=_MODULES)
def _matrix(op: Any, node: Apply, context: Context) -> JaxFunction:
    from_a_matrix = _is_pattern_of_a_matrix(op.format, node.inputs[1:])

    def matrix(
        data: jax.Array, indices: jax.Array, indptr: jax.Array, shape: np.ndarray
    ) -> SparseValue:
        rows, columns = (int(length) for length in shape)
        if data.shape != indices.shape:
            raise ValueError("data and indices of a sparse matrix have different lengths")
        if not from_a_matrix:
            # SciPy refuses other patterns or cuts them.  It takes places outside of the matrix, and
            # reads what lies there in memory.
            require(indptr.shape[0] == (rows if op.format == "csr" else columns) + 1)
            collect((indptr[0] == 0) & (indptr[-1] == indices.shape[0]))
        return SparseValue(data, indices, indptr, (rows, columns), op.format)

    return matrix


def _is_pattern_of_a_matrix(form: str, places: Sequence[Variable]) -> bool:
    """Return True if indices, starts and shape are those of one matrix of a format."""
    owners = {each.owner for each in places}
    owner = owners.pop()
    return (
        not owners
        and owner is not None
        and type(owner.op).__name__ == "CSMProperties"
        and owner.inputs[0].type.format == form
        and list(places) == owner.outputs[1:]
    )


@_register("CSMGrad")
def _gradient(op: Op, node: Apply, context: Context) -> JaxFunction:
    """For each stored entry of a matrix, the sum of the gradient's entries at its place.

    The patterns may differ in order, in their number of entries, and in places that they repeat.
    Where both are one constant without repetitions, as most are, these are the gradient's entries.
    """
    needed = _width_of_one_pattern(node.inputs[1:3], node.inputs[5:7])
    if needed is None:
        return _entries_at_places

    def entries(data: jax.Array, *others: jax.Array) -> jax.Array:
        indices, indptr, shape, slope, *_ = others
        require(data.shape == indices.shape and slope.shape == indices.shape)
        require(_width(indptr, shape) >= needed)
        return slope

    return entries


def _width_of_one_pattern(places: Sequence[Variable], others: Sequence[Variable]) -> int | None:
    """How wide the matrix is at least, if both are one constant pattern with each place once."""
    values = [each.data for each in (*places, *others) if isinstance(each, Constant)]
    if len(values) < 4 or not all(map(np.array_equal, values[:2], values[2:])):
        return None
    indices, indptr = values[:2]
    if not indptr.size or indptr[0] != 0 or indptr[-1] != indices.size or (indices < 0).any():
        return None
    if (np.diff(indptr) < 0).any():
        return None
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    order = np.lexsort((indices, rows))
    repeated = (np.diff(rows[order]) == 0) & (np.diff(indices[order]) == 0)
    return None if repeated.any() else int(indices.max(initial=-1)) + 1


def _entries_at_places(*parts: jax.Array) -> jax.Array:
    data, indices, indptr, shape, slope, slope_indices, slope_indptr, _ = parts
    require(indptr.shape == slope_indptr.shape)
    width = _width(indptr, shape)
    places = _places(data, indices, indptr, width)
    others = _places(slope, slope_indices, slope_indptr, width)

    def summed() -> jax.Array:
        # Both lists of places together in their order; equal ones get the same number.
        together = [jnp.concatenate(pair) for pair in zip(places, others, strict=True)]
        order = jnp.lexsort(together[::-1])
        starts = reduce(jnp.logical_or, (jnp.diff(part[order]) != 0 for part in together))
        numbers = jnp.concatenate([jnp.zeros(order[:1].shape, bool), starts]).cumsum(dtype="int32")
        number = jnp.zeros_like(numbers).at[order].set(numbers)
        count = data.shape[0]
        sums = jnp.zeros(order.shape, slope.dtype).at[number[count:]].add(slope)
        return sums[number[:count]]

    if slope.shape != data.shape:
        return summed()
    alike = reduce(jnp.logical_and, ((a == b).all() for a, b in zip(places, others, strict=True)))
    outer, inner = places
    ascending = ((jnp.diff(outer) > 0) | (jnp.diff(inner) > 0)).all()  # no place comes twice
    return jax.lax.cond(alike & ascending, lambda: slope, summed)  # sorting takes 90 times as long


def _width(indptr: jax.Array, shape: jax.Array) -> jax.Array:
    """The length of the compressed dimension."""
    return jnp.where(indptr.shape[0] - 1 == shape[0], shape[1], shape[0])


def _places(
    data: jax.Array, indices: jax.Array, indptr: jax.Array, width: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The row and the column of each entry, or the reverse; a malformed pattern has none."""
    require(data.shape == indices.shape and indptr.shape[0] > 0)
    require((indptr[0] == 0) & (indptr[-1] == indices.shape[0]))
    require(jnp.diff(indptr) >= 0)
    require((indices >= 0) & (indices < width))
    return SparseValue(data, indices, indptr, (0, 0), "csr").coordinates


@_register("Cast")
def _cast(op: Any, node: Apply, context: Context) -> JaxFunction:
    return lambda x: x.with_data(as_dtype(x.data, op.out_type))


@_function("Dot", "StructuredDot")
def _dot(x: Any, y: Any) -> Dense:
    if x.shape[-1] != y.shape[0]:
        raise ValueError(f"shapes {x.shape} and {y.shape} do not fit a product")
    if isinstance(x, SparseValue):
        return _times_dense(x, y)
    return _times_dense(y.transposed, x.T).T


def _times_dense(x: SparseValue, y: jax.Array) -> Dense:
    """The product of a sparse and a dense matrix or vector."""
    x, y = _in_one_type(x, y)
    rows, columns = x.coordinates
    entries = x.data.reshape((-1,) + (1,) * (y.ndim - 1)) * y[columns]
    return _added((x.shape[0], *y.shape[1:]), rows, entries)


def _entries_of_product(
    form: str, indices: jax.Array, indptr: jax.Array, right: jax.Array, left: jax.Array
) -> jax.Array:
    """The entries of ``left @ right.T`` at the places of a pattern."""
    pattern = SparseValue(indices, indices, indptr, (left.shape[0], right.shape[0]), form)
    rows, columns = pattern.coordinates
    left, right = _in_one_type(left, right)
    return (left[rows] * right[columns]).sum(axis=-1)


_function("StructuredDotGradCSC")(partial(_entries_of_product, "csc"))
_function("StructuredDotGradCSR")(partial(_entries_of_product, "csr"))


@_function("SamplingDot")
def _sampling_dot(x: jax.Array, y: jax.Array, pattern: SparseValue) -> SparseValue:
    if x.shape[1] != y.shape[1] or (x.shape[0], y.shape[0]) != pattern.shape:
        raise ValueError(f"{x.shape} times {y.shape} is sampled at places of {pattern.shape}")
    rows, columns = pattern.coordinates
    x, y = _in_one_type(x, y)
    entries = (x[rows] * y[columns]).sum(axis=-1, dtype=x.dtype)  # NumPy adds in this type, too
    return pattern.with_data(pattern.data * as_dtype(entries, pattern.dtype))


@_register("SpSum")
def _sum(op: Any, node: Apply, context: Context) -> JaxFunction:
    """In the type in which NumPy adds, and SciPy too."""
    dtype = held_dtype(node.outputs[0]) or node.outputs[0].type.dtype

    def total(x: SparseValue) -> Dense:
        data = as_dtype(x.data, dtype)
        if op.axis is None:
            return np.zeros((), data.dtype) if data.shape[0] == 0 else data.sum()
        kept = 1 - op.axis % 2
        return _added((x.shape[kept],), x.coordinates[kept], data)

    return total


@_function("MultiplySparseDense", "SparseDenseMultiply")
def _times(x: SparseValue, y: jax.Array) -> SparseValue:
    x, y = _in_one_type(x, y)
    if y.ndim == 0:
        return x.with_data(x.data * y)
    if y.shape != x.shape:
        raise ValueError(f"matrices of shapes {x.shape} and {y.shape} are multiplied")
    return x.with_data(x.data * y[x.coordinates])


@_function("AddSparseDense", "AddSD")
def _add_dense(x: SparseValue, y: jax.Array) -> jax.Array:
    if y.shape != x.shape:
        raise ValueError(f"matrices of shapes {x.shape} and {y.shape} are added")
    x, y = _in_one_type(x, y)
    return y.at[x.coordinates].add(x.data)


@_function("Diag")
def _diagonal(x: SparseValue) -> Dense:
    if x.shape[0] != x.shape[1]:
        raise ValueError("Diag only apply on square matrix")
    rows, columns = x.coordinates
    entries = jnp.where(rows == columns, x.data, jnp.zeros((), x.dtype))
    return _added(x.shape[:1], rows, entries)


def _added(
    shape: tuple[int, ...], places: jax.Array | tuple[jax.Array, ...], entries: jax.Array
) -> Dense:
    """Zeros to which entries are added at some places.

    They are 0.0 to what reads them, too: XLA adds the entries to the other term of a sum, and takes
    a sum with known zeros for the other term.
    """
    if entries.shape[0] == 0:
        return np.zeros(shape, entries.dtype)
    return plus_zero(jnp.zeros(shape, entries.dtype).at[places].add(entries))
