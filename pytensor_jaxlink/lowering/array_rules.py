"""Rules for Ops on arrays that PyTensor's JAX backend leaves out and JAX has functions for."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor import basic, blas, extra_ops, fft
from pytensor.tensor.basic import Choose, PermuteRowElements
from pytensor.tensor.fourier import Fourier
from pytensor.tensor.linalg import inverse
from pytensor.tensor.linalg.solvers import lstsq
from pytensor.tensor.reshape import JoinDims, SplitDims

from pytensor_jaxlink.lowering.coercion import (
    as_inexact,
    as_jax,
    check_broadcast,
    check_equal_lengths,
)
from pytensor_jaxlink.lowering.linalg import with_nan
from pytensor_jaxlink.lowering.rule import (
    Context,
    JaxFunction,
    functions_by,
    jax_rule,
    jax_rule_for,
)
from pytensor_jaxlink.lowering.rules import not_right
from pytensor_jaxlink.lowering.shapes import reshaped

_register = partial(jax_rule_for, where=(basic, blas, extra_ops, fft, inverse, lstsq))
_function = functions_by(_register)

_function("CpuContiguous")(lambda array: array)  # JAX arrays have no strides
_function("Dot22")(jnp.dot)
_function("Dot22Scalar")(lambda x, y, scale: scale * jnp.dot(x, y))
_function("Ger")(lambda a, alpha, x, y: a + alpha * jnp.outer(x, y))


@_function("Gemm", "Gemv")
def _added(
    y: jax.Array, alpha: jax.Array, a: jax.Array, x: jax.Array, beta: jax.Array
) -> jax.Array:
    """A product that is added to an array, which BLAS does not read where it is added 0 times."""
    if np.ndim(y) == 1:
        check_equal_lengths(np.shape(y)[0], np.shape(a)[0])
    return jnp.where(beta == 0, jnp.zeros((), y.dtype), beta * y) + alpha * jnp.dot(a, x)


@not_right.register(Choose)
def _not_right_choose(op: Choose, node: Apply) -> str | None:
    if node.inputs[0].type.dtype == "uint64":
        return "NumPy takes no uint64 for the places of a choice"
    return None


@_register("Choose")
def _choose(op: Choose, node: Apply, context: Context) -> JaxFunction:
    def choose(index: jax.Array, choices: jax.Array) -> jax.Array:
        index = jnp.asarray(index)
        if op.mode == "raise":
            context.check((index >= 0) & (index < choices.shape[0]))
        return jnp.choose(index, choices, mode="wrap" if op.mode == "wrap" else "clip")

    return choose


@jax_rule.register(JoinDims)
def _join_dims(op: JoinDims, node: Apply, context: Context) -> JaxFunction:
    first, last = op.start_axis, op.start_axis + op.n_axes

    def join_dims(array: jax.Array) -> jax.Array:
        joined = prod(array.shape[first:last])
        return array.reshape(*array.shape[:first], joined, *array.shape[last:])

    return join_dims


@jax_rule.register(SplitDims)
def _split_dims(op: SplitDims, node: Apply, context: Context) -> JaxFunction:
    def split_dims(array: jax.Array, shape: np.ndarray) -> jax.Array:
        lengths = tuple(int(length) for length in shape)
        return reshaped(array, (*array.shape[: op.axis], *lengths, *array.shape[op.axis + 1 :]))

    return split_dims


@_function("RFFTOp")
def _rfft(array: jax.Array, lengths: np.ndarray) -> jax.Array:
    """Real and imaginary parts in a last dimension of length two."""
    found = jnp.fft.rfftn(as_inexact(array), s=tuple(int(length) for length in lengths))
    return jnp.stack([found.real, found.imag], axis=-1)


@jax_rule.register(Fourier)
def _fourier(op: Fourier, node: Apply, context: Context) -> JaxFunction:
    return lambda array, length, axis: jnp.fft.fft(as_inexact(array), n=int(length), axis=int(axis))


@_function("IRFFTOp")
def _irfft(array: jax.Array, lengths: np.ndarray) -> jax.Array:
    """Without the division by the number of entries that NumPy makes."""
    if array.shape[-1] < 2:  # JAX would take another entry
        raise IndexError("the last dimension has no imaginary parts")
    sizes = tuple(int(length) for length in lengths)
    return jnp.fft.irfftn(array[..., 0] + 1j * array[..., 1], s=sizes) * prod(sizes)


@_register("TensorInv")
def _tensor_inverse(op: Any, node: Apply, context: Context) -> JaxFunction:
    def tensor_inverse(array: jax.Array) -> jax.Array:
        if not array.size:
            raise ValueError("NumPy cannot reshape the inverse of an empty array")
        inverse = with_nan(jnp.linalg.tensorinv(as_inexact(array), op.ind), array.reshape((1, -1)))
        context.check(jnp.isfinite(inverse))  # where one is not finite NumPy decides
        return inverse

    return tensor_inverse


@_register("TensorSolve")
def _tensor_solve(op: Any, node: Apply, context: Context) -> JaxFunction:
    def tensor_solve(a: jax.Array, b: jax.Array) -> jax.Array:
        order = list(range(np.ndim(a)))
        for axis in op.axes or ():  # NumPy puts each of them last, JAX all together
            order.remove(axis)
            order.append(axis)
        found = jnp.linalg.tensorsolve(as_inexact(jnp.transpose(a, order)), as_inexact(b))
        solution = with_nan(found, as_jax(a).reshape((1, -1)))
        context.check(jnp.isfinite(solution))  # where one is not finite NumPy decides
        return solution

    return tensor_solve


@jax_rule.register(PermuteRowElements)
def _permute_rows(op: PermuteRowElements, node: Apply, context: Context) -> JaxFunction:
    """The order of the entries of each row, or the inverse of it."""

    def permute(rows: jax.Array, order: jax.Array) -> jax.Array:
        length = rows.shape[-1]
        if order.shape[-1] != length:
            raise ValueError("a permutation has another length than the rows")
        check_broadcast(node.inputs, [rows.shape, order.shape])
        lead = jnp.broadcast_shapes(rows.shape[:-1], order.shape[:-1])
        rows, order = (jnp.broadcast_to(v, (*lead, length)) for v in (rows, order))
        context.check((order >= -length) & (order < length))
        order = jnp.where(order < 0, order + length, order)
        if op.inverse:
            # A permutation's inverse sorts it; what is none leaves entries open in PyTensor too.
            order = jnp.argsort(order, axis=-1)
        return jnp.take_along_axis(rows, order, axis=-1)

    return permute
