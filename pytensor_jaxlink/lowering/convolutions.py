"""Rules for convolutions, exact for integers and for values that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.scipy.signal import convolve
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.signal import conv

from pytensor_jaxlink.lowering.coercion import as_dtype, as_inexact
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule_for


@jax_rule_for("Convolve1d", where=(conv,))
def _convolve_vectors(op: Op, node: Apply, context: Context) -> JaxFunction:
    dtype = node.outputs[0].type.dtype

    def convolved(one: jax.Array, other: jax.Array, full: object) -> jax.Array:
        return _convolved(as_dtype(one, dtype), as_dtype(other, dtype), full, jnp.convolve)

    return convolved


def _convolved(
    one: jax.Array, other: jax.Array, full: object, of_reals: Callable[..., jax.Array]
) -> jax.Array:
    """A convolution.

    Of integers and booleans JAX's functions compute it in floating point, and lose digits.  Of real
    numbers they multiply the zeros that they put around the longer array, with infinities too.
    NumPy puts none there, and SciPy does for matrices.
    """
    mode, empty = "full" if full else "valid", 0 in (*one.shape, *other.shape)
    if not full and all(k <= n for k, n in zip(one.shape, other.shape, strict=True)):
        one, other = other, one
    raises = not full and any(k < n for k, n in zip(one.shape, other.shape, strict=True))
    if empty or raises:
        return of_reals(one, other, mode=mode)
    if full and other.size > one.size:
        one, other = other, one
    room = [k - 1 for k in other.shape]

    is_exact = not jnp.issubdtype(one.dtype, jnp.inexact)

    def sums(one: jax.Array, kernel: jax.Array) -> jax.Array:
        if full and (one.ndim == 1 or is_exact):
            return _sum_of_products(one, kernel)
        around = jnp.pad(one, [(n, n) for n in room]) if full else one
        return _without(_sum_of_products(around, kernel), room)

    if is_exact:
        return sums(one, other)
    if not full:
        choose = _the_first  # nothing is put around
    elif one.ndim == 1 and one.dtype in ("float64", "complex128"):
        choose = _if_finite_on_gpus  # XLA's loops on a CPU, for 64 bits, pass over what is around
    else:
        choose = _if_finite
    return _of_reals(partial(of_reals, mode=mode), sums, choose)(one, other)


Choice: TypeAlias = Callable[[JaxFunction, JaxFunction, jax.Array, jax.Array], jax.Array]
"""How one of two functions of an array and a kernel is chosen, and called."""


def _the_first(
    convolve: JaxFunction, sums: JaxFunction, one: jax.Array, kernel: jax.Array
) -> jax.Array:
    return convolve(one, kernel)


def _if_finite(
    convolve: JaxFunction, sums: JaxFunction, one: jax.Array, kernel: jax.Array
) -> jax.Array:
    finite = jnp.isfinite(one.sum() * kernel.sum())  # a sum that overflows costs time only
    return jax.lax.cond(finite, convolve, sums, one, kernel)


def _if_finite_on_gpus(
    convolve: JaxFunction, sums: JaxFunction, one: jax.Array, kernel: jax.Array
) -> jax.Array:
    chosen = partial(_if_finite, convolve, sums)
    return jax.lax.platform_dependent(one, kernel, cpu=convolve, default=chosen)


def _of_reals(convolve: JaxFunction, sums: JaxFunction, choose: Choice) -> JaxFunction:
    """A convolution by JAX's function, or by sums of products where that is wrong.

    Its derivative, which needs no such terms, is that of JAX's function.
    """
    chosen = _chosen(convolve, sums, choose)

    @jax.custom_jvp
    def convolved(one: jax.Array, kernel: jax.Array) -> jax.Array:
        return chosen(one, kernel)

    @convolved.defjvp
    def derivative(
        values: tuple[jax.Array, jax.Array], changes: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        slope = convolve(changes[0], values[1]) + convolve(values[0], changes[1])
        return convolved(*values), slope

    return convolved


def _chosen(convolve: JaxFunction, sums: JaxFunction, choose: Choice) -> JaxFunction:
    """One of two functions, chosen once for a whole batch.

    Of a choice for each element JAX would compute both.  A batch of pairs is summed: XLA makes one
    convolution of them on a CPU, with zeros between the pairs, which are multiplied with the
    entries of other pairs, and which take a hundred times as long.
    """

    @custom_vmap
    def chosen(one: jax.Array, kernel: jax.Array) -> jax.Array:
        return choose(convolve, sums, one, kernel)

    @chosen.def_vmap
    def of_batch(
        size: int, batched: Sequence[bool], one: jax.Array, kernel: jax.Array
    ) -> tuple[jax.Array, bool]:
        axes = tuple(0 if each else None for each in batched)
        first, second = (jax.vmap(each, axes, axis_size=size) for each in (convolve, sums))
        function = second if all(batched) else _chosen(first, second, choose)
        return function(one, kernel), True

    return chosen


def _sum_of_products(one: jax.Array, kernel: jax.Array) -> jax.Array:
    """The sum of the array times each entry of a kernel, moved by the place of the entry.

    XLA's convolution takes as long on a CPU, and there is none of integers on GPUs.
    """
    shape = [n + k - 1 for n, k in zip(one.shape, kernel.shape, strict=True)]
    entries = kernel.ravel()

    def add(number: jax.Array, total: jax.Array) -> jax.Array:
        starts = jnp.unravel_index(number, kernel.shape)
        there = jax.lax.dynamic_slice(total, starts, one.shape)
        return jax.lax.dynamic_update_slice(total, there + entries[number] * one, starts)

    return jax.lax.fori_loop(0, entries.size, add, jnp.zeros(shape, one.dtype))


def _without(array: jax.Array, room: Sequence[int]) -> jax.Array:
    """An array without so many entries at both ends of each dimension."""
    return array[tuple(slice(n, k - n) for n, k in zip(room, array.shape, strict=True))]


@jax_rule_for("Convolve2d", where=(conv,))
def _convolve(op: Op, node: Apply, context: Context) -> JaxFunction:
    method = "fft" if getattr(op, "method", None) == "fft" else "direct"
    dtype = node.outputs[0].type.dtype

    def convolved(one: jax.Array, other: jax.Array, full: object) -> jax.Array:
        if method == "direct" and dtype in ("bool", "float16"):
            raise ValueError("SciPy sums no products of booleans and of half precision")
        if method == "fft" and 0 in (*one.shape, *other.shape):
            raise ValueError("SciPy transforms no array without entries")
        one, other = as_dtype(one, dtype), as_dtype(other, dtype)
        if method == "direct":
            return _convolved(one, other, full, convolve)
        one, other = as_inexact(one), as_inexact(other)
        found = convolve(one, other, mode="full" if full else "valid", method=method)
        return jnp.round(found) if jnp.issubdtype(dtype, jnp.integer) else found  # as SciPy does

    return convolved
