"""Elementwise Ops and reductions in the dtypes that NumPy would compute in.

JAX promotes by its own lattice: a float32 divided by an int64 is a float32 there and a float64 in
PyTensor, and a sum is accumulated in the dtype of its input.  PyTensor's rules cast the result; by
then the digits are gone.  These rules cast the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply
from pytensor.scalar.basic import (
    AND,
    OR,
    Add,
    BinaryBitOp,
    Cast,
    Composite,
    LogicalComparison,
    Mul,
    Switch,
)
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import Argmax, Max, Min, NonZeroDimsCAReduce, ProdWithoutZeros
from pytensor.tensor.special import LogSoftmax, Softmax

from pytensor_jaxlink.compat import EMPTY_SOFTMAX_RAISES, computes_in_pairs
from pytensor_jaxlink.lowering.checks import everywhere, is_differentiable
from pytensor_jaxlink.lowering.coercion import (
    as_dtype,
    as_jax,
    check_broadcast,
    sum_of_few,
    with_known_zeros,
)
from pytensor_jaxlink.lowering.derivatives import refusing_derivatives
from pytensor_jaxlink.lowering.eight_bits import EIGHT_BITS, MAY_OVERFLOW, wrapping
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.lowering.scalars import scalar_function
from pytensor_jaxlink.lowering.scalars.comparisons import mixes_integers
from pytensor_jaxlink.lowering.scalars.question import dtypes_of
from pytensor_jaxlink.ops import GradientOfOp, OfTrueSteps
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.size_functions import at_least


@jax_rule.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, context: Context) -> JaxFunction:
    if isinstance(op.scalar_op, GradientOfOp):
        return refusing_derivatives(
            f"JAX differentiates the operation written at {context.where()}, an Op around a graph "
            "that declares its gradient and reads a selection (x[mask], or x[:n] with n as data). "
            f"Of such an Op only the graph is left: {Remedy.WHOLE_ARRAY.text()}."
        )
    function = _promoted(op, node)
    if isinstance(op.scalar_op, OfTrueSteps):
        return lambda mask, value, filler: (
            function(mask, value, filler) if is_differentiable() else as_jax(value)
        )
    if isinstance(op.scalar_op, Switch):
        return _of_the_side_taken(function)
    return with_known_zeros(function) if isinstance(op.scalar_op, Add) else function


def _of_the_side_taken(function: JaxFunction) -> JaxFunction:
    """A `switch` that leaves out the derivative of a side of which it is known not to be taken.

    That side may be NaN: ``linspace(0, v, n)`` divides by ``n - 1``, but not where n is 1.
    """

    def switched(condition: ArrayLike, first: jax.Array, second: jax.Array) -> jax.Array:
        if isinstance(condition, np.ndarray | np.generic) and condition.size:
            if np.all(condition):
                second = jax.lax.stop_gradient(second)
            elif not np.any(condition):
                first = jax.lax.stop_gradient(first)
        return function(condition, first, second)

    return switched


def _promoted(op: Elemwise, node: Apply) -> JaxFunction:
    """The function of arrays, which computes in the dtype in which NumPy would."""
    function = _of_arrays(op, node)
    first = int(isinstance(op.scalar_op, Switch))  # a condition is not part of the arithmetic
    dtypes = dtypes_of(node)[first:]
    common = np.result_type(*dtypes)
    result = np.dtype(node.outputs[0].type.dtype)
    if common.kind in "biu" and result.kind in "fc":
        common = result  # a function of integers with fractional values
    if common == np.float16:
        common = np.dtype("float32")  # as NumPy does; the result is rounded once
    if isinstance(op.scalar_op, BinaryBitOp) and common.kind == "f":
        return _of_bits(function, result.name)
    is_chain = isinstance(op.scalar_op, Add | Mul) and len(dtypes) > 2
    if is_chain and (len(set(dtypes)) > 1 or result == np.float16) and computes_in_pairs():
        return _in_pairs(op, node)
    if common.name in EIGHT_BITS and isinstance(op.scalar_op, MAY_OVERFLOW):
        return wrapping(function, common.name)
    own_dtypes = isinstance(op.scalar_op, _OF_OTHER_DTYPES)
    if isinstance(op.scalar_op, LogicalComparison) and mixes_integers(node):
        own_dtypes = True
    if set(dtypes) == {common} or own_dtypes:
        return function

    def promoted(*values: jax.Array) -> jax.Array:
        operands = (as_dtype(value, common.name) for value in values[first:])
        output = function(*values[:first], *operands)
        # Ops that give one of their inputs (`second`) give it in its own dtype.
        complex_by_promotion = common.kind == "c" and result.kind != "c"
        return jnp.real(output) if complex_by_promotion else output

    return promoted


def _of_bits(function: JaxFunction, dtype: str) -> JaxFunction:
    """An operation on the bits of a uint64 and a signed integer, which PyTensor declares a float64.

    NumPy has no such operation; C computes in uint64, and so in PyTensor's other modes.
    """

    def of_bits(*values: jax.Array) -> jax.Array:
        return as_dtype(function(*(as_dtype(value, "uint64") for value in values)), dtype)

    return of_bits


def _in_pairs(op: Elemwise, node: Apply) -> JaxFunction:
    """A sum or product of arrays of several types, each pair in NumPy's type of the two."""
    pair = scalar_function(op.scalar_op, node)
    assert pair is not None
    dtypes = dtypes_of(node)
    [result] = [np.dtype(output.type.dtype) for output in node.outputs]
    steps = list(accumulate(dtypes, np.result_type))

    def folded(*values: jax.Array) -> jax.Array:
        check_broadcast(node.inputs, [np.shape(value) for value in values])
        total = values[0]
        for value, kind in zip(values[1:], steps[1:], strict=True):
            wide = "float32" if kind == np.float16 else kind.name
            total = as_dtype(pair(as_dtype(total, wide), as_dtype(value, wide)), kind.name)
        return as_dtype(total, result.name)

    return folded


# What converts, or looks at each of its inputs in a dtype of its own.
_OF_OTHER_DTYPES = (Cast, Composite, ScalarLoop)


def _of_arrays(op: Elemwise, node: Apply) -> JaxFunction:
    """The function of the scalar Op, with PyTensor's check that no length is stretched."""
    own = scalar_function(op.scalar_op, node)
    function = own or upstream_rule(node)
    if own is None and len(node.inputs) == 1:
        return function

    def checked(*values: jax.Array) -> jax.Array:
        check_broadcast(node.inputs, [np.shape(value) for value in values])
        return function(*map(as_jax, values))

    return checked


@jax_rule.register(NonZeroDimsCAReduce)
@jax_rule.register(Argmax)
@jax_rule.register(Max)
@jax_rule.register(LogSoftmax)
@jax_rule.register(Softmax)
def _of_something(
    op: Argmax | CAReduce | LogSoftmax | Softmax, node: Apply, context: Context
) -> JaxFunction:
    """Reductions without an identity: PyTensor raises where there is nothing to reduce."""
    of_integers = node.inputs[0].type.dtype[0] in "iu" and isinstance(op, Softmax | LogSoftmax)
    if isinstance(op, Argmax):
        function = _first_place(op)
    else:
        function = _softmax_of_integers(op, node) if of_integers else upstream_rule(node)
    axes = (op.axis,) if isinstance(op.axis, int) else op.axis

    def reduced_axes(array: jax.Array) -> Sequence[int]:
        return range(np.ndim(array)) if axes is None else axes

    def reduce(array: jax.Array) -> jax.Array:
        empty = not all(at_least(np.shape(array)[axis], 1) for axis in reduced_axes(array))
        if empty and isinstance(op, Softmax | LogSoftmax) and not EMPTY_SOFTMAX_RAISES:
            return array
        if empty and not getattr(op, "initial", None):
            raise ValueError(f"{op} of an array of shape {np.shape(array)}, which has no entries")
        return extreme(array, empty=empty) if isinstance(op, Max | Min) else function(array)

    def extreme(array: jax.Array, *, empty: bool) -> jax.Array:
        array = as_dtype(array, node.inputs[0].type.dtype)  # before it is reduced, as NumPy does
        if jnp.iscomplexobj(array) and 0 not in np.shape(array):
            return _extreme_complex(_rows(array, reduced_axes(array)), isinstance(op, Max))
        if array.dtype.name in EIGHT_BITS and not empty:  # of nothing it is the type's extreme
            return function(as_dtype(array, "int32")).astype(array.dtype)
        if not jnp.issubdtype(array.dtype, np.floating):
            return function(array)
        return _extreme(array, tuple(reduced_axes(array)), isinstance(op, Max))

    return reduce


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _extreme(array: jax.Array, axes: tuple[int, ...], largest: bool) -> jax.Array:
    """The largest or smallest entries; on CPUs XLA's of some thousand entries pass over NaN.

    Entries that lie side by side are compared and looked at for NaN in one pass.  Across them XLA
    is five times as fast in two passes.
    """
    if array.ndim - 1 not in axes:
        return _extreme_in_two_passes(array, axes, largest)
    compare = jax.lax.max if largest else jax.lax.min

    def of_two(one: Any, other: Any) -> Any:
        return compare(one[0], other[0]), one[1] | other[1]

    nothing = np.array(-np.inf if largest else np.inf, array.dtype), np.array(False)
    found, nan = jax.lax.reduce((array, jnp.isnan(array)), nothing, of_two, axes)
    return jax.lax.select(nan, jnp.full_like(found, jnp.nan), found)


def _extreme_in_two_passes(array: jax.Array, axes: tuple[int, ...], largest: bool) -> jax.Array:
    nothing = (-np.inf if largest else np.inf) if 0 in np.shape(array) else None
    found = (jnp.max if largest else jnp.min)(array, axes, initial=nothing)
    return jnp.where(jnp.isnan(array).any(axes), jnp.nan, found)


@_extreme.defjvp
def _extreme_jvp(
    axes: tuple[int, ...], largest: bool, primals: Any, tangents: Any
) -> tuple[jax.Array, jax.Array]:
    """A reduction of two arrays at once has no derivative in JAX."""
    return jax.jvp(lambda array: _extreme_in_two_passes(array, axes, largest), primals, tangents)


def _extreme_complex(rows: jax.Array, largest: bool) -> jax.Array:
    """The largest or smallest complex numbers, or the first NaN, which JAX passes over."""
    place = _largest_complex_place(rows if largest else -rows)
    return jnp.take_along_axis(rows, place[..., None], axis=-1)[..., 0]


def _rows(array: jax.Array, axes: Sequence[int]) -> jax.Array:
    """An array with entries, of which some dimensions are one, the last.

    JAX has no number for a length that it may choose.
    """
    kept = tuple(axis for axis in range(np.ndim(array)) if axis not in axes)
    moved = jnp.transpose(array, (*kept, *axes))
    return jnp.reshape(moved, (*moved.shape[: len(kept)], -1))


def _first_place(op: Argmax) -> JaxFunction:
    """PyTensor's rule multiplies the lengths, which may be open."""

    def first_place(array: jax.Array) -> jax.Array:
        axes = tuple(range(np.ndim(array)) if op.axis is None else op.axis)
        if 0 in np.shape(array):
            return jnp.zeros([n for k, n in enumerate(np.shape(array)) if k not in axes], "int64")
        flat = _rows(as_jax(array), axes)
        if jnp.iscomplexobj(flat):
            return _largest_complex_place(flat)
        if not jnp.issubdtype(flat.dtype, jnp.inexact):
            return _largest_place(flat)
        return jax.lax.platform_dependent(flat, cpu=_largest_place, default=_first_of_several)

    return first_place


def _largest_place(rows: jax.Array) -> jax.Array:
    return jnp.argmax(rows, axis=-1)


def _largest_complex_place(rows: jax.Array) -> jax.Array:
    """NumPy compares real parts, then imaginary ones; JAX orders no complex numbers."""
    nan = jnp.isnan(rows)
    largest = rows.real == rows.real.max(axis=-1, keepdims=True)
    imaginary = jnp.where(largest, rows.imag, -jnp.inf)
    largest &= imaginary == imaginary.max(axis=-1, keepdims=True)
    return jnp.where(nan.any(axis=-1), _largest_place(nan), _largest_place(largest))


def _first_of_several(rows: jax.Array) -> jax.Array:
    """The place of the largest entry, or of the first NaN: on GPUs JAX gives that of any NaN."""
    nan = jnp.isnan(rows)
    return jnp.where(nan.any(axis=-1), _largest_place(nan), _largest_place(rows))


def _softmax_of_integers(op: CAReduce | LogSoftmax | Softmax, node: Apply) -> JaxFunction:
    """JAX takes the smallest integer for the maximum of nothing; differences wrap, as in NumPy."""
    result, given = node.outputs[0].type.dtype, node.inputs[0].type.dtype

    def below_largest(array: jax.Array) -> jax.Array:
        return array - array.max(op.axis, keepdims=True)

    if given in EIGHT_BITS:
        below_largest = wrapping(below_largest, given)

    def softmax(array: jax.Array) -> jax.Array:
        array = as_jax(array)
        powers = as_dtype(below_largest(array), result)
        if isinstance(op, LogSoftmax):
            return powers - jnp.log(jnp.exp(powers).sum(op.axis, keepdims=True))
        return jnp.exp(powers) / jnp.exp(powers).sum(op.axis, keepdims=True)

    return softmax


@jax_rule.register(ProdWithoutZeros)
def _product_without_zeros(op: ProdWithoutZeros, node: Apply, context: Context) -> JaxFunction:
    """Of zeros alone it is zero.  PyTensor 3.0 has no rule for it, and gradients contain it."""
    accumulator = op.acc_dtype or node.inputs[0].type.dtype

    def product(array: jax.Array) -> jax.Array:
        factors = as_dtype(array, accumulator)
        is_zero = factors == 0
        found = jnp.where(is_zero, jnp.ones((), factors.dtype), factors).prod(op.axis)
        return jnp.where(is_zero.all(op.axis), jnp.zeros((), found.dtype), found)

    return product


@jax_rule.register(CAReduce)
def _reduce(op: CAReduce, node: Apply, context: Context) -> JaxFunction:
    kind = node.inputs[0].type
    if kind.dtype == "bool" and (op.axis is None or len(op.axis) == kind.ndim):
        if isinstance(op.scalar_op, AND):
            return lambda array: everywhere(jnp.asarray(array))
        if isinstance(op.scalar_op, OR):
            return lambda array: ~everywhere(~jnp.asarray(array))
    function = upstream_rule(node)
    if isinstance(op.scalar_op, Add):
        function = sum_of_few(function, op.axis)
    given, declared = (variable.type.dtype for variable in (*node.inputs, *node.outputs))
    accumulator = getattr(op, "acc_dtype", None) or given
    if accumulator.startswith("complex") and not declared.startswith("complex"):
        return lambda array: function(as_dtype(array, accumulator)).real  # as NumPy converts it
    if accumulator == given:
        return function
    return lambda array: function(as_dtype(array, accumulator))
