"""Rules for Ops whose sizes are values: with these known, JAX needs no more than its own calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    Eye,
    Join,
    MakeVector,
    Nonzero,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.extra_ops import (
    FillDiagonal,
    FillDiagonalOffset,
    RavelMultiIndex,
    Repeat,
    SearchsortedOp,
    Unique,
    UnravelIndex,
)
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp

from pytensor_jaxlink.lowering.checks import (
    are_read,
    collect,
    is_false,
    refuted,
    unknown_size,
)
from pytensor_jaxlink.lowering.coercion import (
    as_dtype,
    as_jax,
    as_sizes,
    canonical_dtype,
    check_broadcast,
    check_equal_lengths,
)
from pytensor_jaxlink.lowering.host_functions import host_function
from pytensor_jaxlink.lowering.rule import (
    Context,
    JaxFunction,
    jax_rule,
    upstream_rule,
)
from pytensor_jaxlink.ops import Assumption
from pytensor_jaxlink.size_functions import as_integer


def _integers(values: Iterable[object]) -> tuple[int, ...]:
    return tuple(map(as_integer, values))


@jax_rule.register(DeepCopyOp)
@jax_rule.register(ScalarFromTensor)
@jax_rule.register(TensorFromScalar)
@jax_rule.register(TypeCastingOp)
def _identity(op: Op, node: Apply, context: Context) -> JaxFunction:
    return lambda value: value  # JAX arrays are immutable: a copy is the array itself


@jax_rule.register(Shape)
@jax_rule.register(Shape_i)
def _shape(op: Op, node: Apply, context: Context) -> JaxFunction:
    of_array = host_function(node)
    return lambda array: of_array(array)[0]


@jax_rule.register(Nonzero)
@jax_rule.register(Unique)
def _numpy_only(op: Op, node: Apply, context: Context) -> JaxFunction:
    return host_function(node)  # its inputs are known, so NumPy has the answer


@jax_rule.register(MakeVector)
def _make_vector(op: MakeVector, node: Apply, context: Context) -> JaxFunction:
    def make_vector(*values: ArrayLike) -> ArrayLike:
        if not values:
            return np.zeros((0,), op.dtype)
        dtype = canonical_dtype(op.dtype)
        return jnp.stack([jnp.asarray(value, dtype=dtype) for value in values])

    return make_vector


@jax_rule.register(Reshape)
def _reshape(op: Reshape, node: Apply, context: Context) -> JaxFunction:
    return lambda array, shape: reshaped(array, _integers(shape))


def reshaped(array: jax.Array, lengths: Iterable[int]) -> jax.Array:
    """The array with other lengths, as NumPy takes them.

    For NumPy each negative length is the unknown one, for JAX -1 alone.  JAX finds a length for an
    empty array where another one is 0; NumPy refuses, because any would do.  An array that is
    padded may have entries where that of the user has none, and does not fit then.
    """
    sizes = tuple(-1 if isinstance(n, int) and n < 0 else n for n in lengths)
    known = [n for n in sizes if isinstance(n, int)]
    if -1 in known and 0 in known:
        raise refuted(ValueError("a length is unknown and another one is 0"))
    try:
        return jnp.reshape(array, sizes)
    except TypeError as error:
        if len(known) < len(sizes):
            raise
        # As NumPy: a branch leaves such a side out.
        raise refuted(ValueError(f"{error}")) from error


@jax_rule.register(Alloc)
def _alloc(op: Alloc, node: Apply, context: Context) -> JaxFunction:
    def alloc(value: jax.Array, *shape: object) -> jax.Array:
        sizes = as_sizes(shape, node.outputs[0].type.dtype)
        check_broadcast([node.inputs[0], node.outputs[0]], [np.shape(value), sizes])
        return jnp.broadcast_to(value, sizes)

    return alloc


@jax_rule.register(AllocEmpty)
def _alloc_empty(op: AllocEmpty, node: Apply, context: Context) -> JaxFunction:
    return lambda *shape: jnp.empty(as_sizes(shape, op.dtype), dtype=canonical_dtype(op.dtype))


@jax_rule.register(Eye)
def _eye(op: Eye, node: Apply, context: Context) -> JaxFunction:
    def eye(rows: object, columns: object, offset: object) -> jax.Array:
        height, width = as_sizes((rows, columns), op.dtype)
        diagonal = jnp.eye(height, width, as_integer(offset), dtype=bool)
        return as_dtype(diagonal, op.dtype)  # JAX's own lets XLA make 0 of a product with NaN

    return eye


@jax_rule.register(Join)
def _join(op: Join, node: Apply, context: Context) -> JaxFunction:
    """In the declared type: JAX makes float16 of that and integers."""
    dtype = node.outputs[0].type.dtype

    def joined(arrays: Sequence[ArrayLike], axis: int) -> jax.Array:
        for other, lengths in enumerate(zip(*map(np.shape, arrays), strict=True)):
            if other != axis % len(np.shape(arrays[0])):
                check_equal_lengths(*lengths)
        return jnp.concatenate([as_dtype(array, dtype) for array in arrays], axis=axis)

    if (along := getattr(op, "axis", None)) is not None:
        return lambda *arrays: joined(arrays, along)
    return lambda axis, *arrays: joined(arrays, int(axis))


@jax_rule.register(Split)
def _split(op: Any, node: Apply, context: Context) -> JaxFunction:
    def split(array: jax.Array, *axis_and_sizes: np.ndarray) -> Sequence[jax.Array]:
        *axis, sizes = axis_and_sizes
        along = int(axis[0]) if axis else op.axis
        lengths = _integers(sizes)
        if len(lengths) != op.len_splits or sum(lengths) != array.shape[along]:
            raise ValueError(
                f"Split sizes {lengths} do not divide a dimension of length {array.shape[along]} "
                f"into {op.len_splits} parts"
            )
        if any(isinstance(length, int) and length < 0 for length in lengths):
            raise ValueError(f"Split sizes cannot be negative, found {lengths}")
        return jax.lax.split(as_jax(array), lengths, axis=along)

    return split


@jax_rule.register(SortOp)
@jax_rule.register(ArgSortOp)
def _sort(op: SortOp | ArgSortOp, node: Apply, context: Context) -> JaxFunction:
    sort, along = jnp.sort if isinstance(op, SortOp) else jnp.argsort, getattr(op, "axis", -1)
    if node.inputs[0].type.dtype.startswith("complex"):
        sort = _sorted_complex if isinstance(op, SortOp) else _order_of_complex
    return lambda array, *axis: sort(array, axis=int(axis[0]) if axis else along)


def _order_of_complex(array: jax.Array, axis: int) -> jax.Array:
    """NumPy puts a number behind all others where a part is NaN; JAX looks at the real part."""
    array = as_jax(array)
    real, imaginary = array.real, array.imag
    keys = imaginary, real, jnp.isnan(imaginary), jnp.isnan(real)
    return jnp.lexsort(keys, axis=axis)


def _sorted_complex(array: jax.Array, axis: int) -> jax.Array:
    return jnp.take_along_axis(as_jax(array), _order_of_complex(array, axis), axis=axis)


@jax_rule.register(Repeat)
def _repeat(op: Repeat, node: Apply, context: Context) -> JaxFunction:
    def repeat(array: jax.Array, counts: np.ndarray) -> jax.Array:
        if np.any(np.asarray(counts) < 0):
            raise ValueError("repeats may not contain negative values.")
        alike = np.size(counts) == 1  # a vector of one count is stretched
        total = None if alike else int(np.sum(counts))
        repeats = int(np.ravel(counts)[0]) if alike else counts
        return jnp.repeat(array, repeats, axis=op.axis, total_repeat_length=total)

    return repeat


@jax_rule.register(RavelMultiIndex)
def _ravel_multi_index(op: RavelMultiIndex, node: Apply, context: Context) -> JaxFunction:
    """JAX's own asks for concrete indices where those out of range are an error."""

    def ravel_multi_index(*inputs: Any) -> jax.Array:
        *indices, dims = inputs
        lengths: Any = _integers(dims)
        if len(indices) != len(lengths):
            raise ValueError(f"{len(indices)} indices for {len(lengths)} lengths")
        if indices[0].size and min(lengths) < 1:
            raise ValueError("NumPy decides by the indices what it makes of lengths below 1")
        indices = [jnp.asarray(index, "int64") for index in indices]
        if op.mode == "raise":
            for index, length in zip(indices, lengths, strict=True):
                context.check((index >= 0) & (index < length))
        mode = "clip" if op.mode == "raise" else op.mode
        return jnp.ravel_multi_index(tuple(indices), lengths, mode=mode, order=op.order)

    return ravel_multi_index


@jax_rule.register(SearchsortedOp)
def _searchsorted(op: SearchsortedOp, node: Apply, context: Context) -> JaxFunction:
    """PyTensor's rule takes the permutation that sorts for the side, and JAX's common type."""
    upstream = upstream_rule(node, context.static)

    def function(array: jax.Array, values: jax.Array) -> jax.Array:
        common = np.result_type(array.dtype, values.dtype)
        return upstream(as_dtype(array, common), as_dtype(values, common))

    def of_permuted(array: jax.Array, values: jax.Array, order: jax.Array) -> jax.Array:
        if np.shape(order) != np.shape(array):
            raise ValueError("the permutation has another length than the array")
        order = as_jax(order)
        context.check((order >= 0) & (order < len(order)))
        return function(as_jax(array)[order], values)

    return function if len(node.inputs) == 2 else of_permuted


@jax_rule.register(UnravelIndex)
def _unravel_index(op: UnravelIndex, node: Apply, context: Context) -> JaxFunction:
    def unravel_index(indices: jax.Array, dims: np.ndarray) -> tuple[jax.Array, ...]:
        indices = jnp.asarray(indices, "int64")  # a length need not fit into a narrow type
        lengths = _integers(dims)
        context.check(
            (indices >= 0) & (indices < int(np.prod(lengths))) & (min(lengths, default=1) > 0)
        )
        if op.order == "C":
            return jnp.unravel_index(indices, lengths)
        return jnp.unravel_index(indices, lengths[::-1])[::-1]

    return unravel_index


@jax_rule.register(FillDiagonal)
def _fill_diagonal(op: FillDiagonal, node: Apply, context: Context) -> JaxFunction:
    def fill_diagonal(array: jax.Array, value: ArrayLike) -> jax.Array:
        if array.ndim > 2 and len(set(array.shape)) != 1:
            raise ValueError("All dimensions of input must be of equal length")
        along = jnp.arange(min(array.shape))
        return as_jax(array).at[(along,) * array.ndim].set(value)

    return fill_diagonal


@jax_rule.register(FillDiagonalOffset)
def _fill_diagonal_offset(op: FillDiagonalOffset, node: Apply, context: Context) -> JaxFunction:
    """The offset is data: it says which entries are written, and no shape depends on it."""

    def fill_diagonal_offset(array: jax.Array, value: ArrayLike, offset: ArrayLike) -> jax.Array:
        array = as_jax(array)
        start, end, fits = _diagonal(jnp.asarray(offset), *array.shape)
        context.check(fits)
        height, width = array.shape
        if not array.size:
            return array
        places = start + (width + 1) * jnp.arange(height)
        rows = jnp.where(places < end, places // width, height)
        return array.at[rows, places % width].set(value, mode="drop")

    return fill_diagonal_offset


def _diagonal(offset: jax.Array, height: int, width: int) -> tuple[jax.Array, ...]:
    """The slice of the flat matrix that PyTensor writes to, and whether NumPy can compute it.

    NumPy computes it in the dtype of the offset, and a literal has 8 bits: products and sums wrap,
    and a length that does not fit raises.  A diagonal that begins far outside of the matrix ends
    before the first entry, which is an index from the end.
    """
    kind = offset.dtype
    side, step, size = min(height, width), width + 1, height * width
    shape = [np.asarray(length).astype(kind) for length in (height, width)]
    above = offset >= 0
    start = jnp.where(above, offset, -offset * shape[1])
    room = jnp.where(above, shape[1] - offset, shape[0] + offset)
    wide = canonical_dtype("uint64" if kind.kind == "u" else "int64")
    whole = room.astype(wide) >= side  # the number of steps is then one of Python's integers
    steps = jnp.where(whole, np.asarray(side).astype(kind), room)
    end = start + np.asarray(step).astype(kind) * steps

    def bound(value: jax.Array) -> jax.Array:
        value = jnp.minimum(value.astype(wide), size).astype(canonical_dtype("int64"))
        return jnp.where(value < 0, jnp.maximum(value + size, 0), value)

    largest = np.iinfo(kind).max
    fits = (
        (width <= largest)
        & (above | (height <= largest))
        & jnp.where(whole, step * side <= largest, step <= largest)
    )
    return bound(start), bound(end), fits


@jax_rule.register(SpecifyShape)
def _specify_shape(op: SpecifyShape, node: Apply, context: Context) -> JaxFunction:
    def specify_shape(array: jax.Array, *shape: ArrayLike | None) -> jax.Array:
        for axis, (length, wanted) in enumerate(zip(np.shape(array), shape, strict=True)):
            if wanted is not None:
                said = f"axis {axis} has {length} entries, and is specified to have {wanted}"
                context.check(wanted == length, partial(AssertionError, said))
        return array

    return specify_shape


@jax_rule.register(Assumption)
def _assumption(op: Assumption, node: Apply, context: Context) -> JaxFunction:
    """Looked at where the user's checks are ignored, too."""

    def assume(value: object, *conditions: ArrayLike) -> object:
        for condition in conditions:
            if is_false(condition) and not are_read():
                raise unknown_size(op.msg)
            collect(condition)
        return value

    return assume


@jax_rule.register(CheckAndRaise)
def _check_and_raise(op: CheckAndRaise, node: Apply, context: Context) -> JaxFunction:
    def check(value: object, *conditions: ArrayLike) -> object:
        for condition in conditions:
            context.check(condition, partial(op.exc_type, op.msg))
        return value

    return check
