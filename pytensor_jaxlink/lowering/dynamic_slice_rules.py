"""Rules for dynamic slices: parts of constant length at a place that is computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply

from pytensor_jaxlink.lowering.checks import collect, refute, unknown_size
from pytensor_jaxlink.lowering.coercion import as_dtype, as_jax, with_positive_zeros
from pytensor_jaxlink.lowering.overlaps import kept_apart
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.ops import DynamicSlice, DynamicUpdateSlice, Realign, adds_to_zeros
from pytensor_jaxlink.size_functions import at_least, is_open


@jax_rule.register(DynamicSlice)
def _dynamic_slice(op: DynamicSlice, node: Apply, context: Context) -> JaxFunction:
    def take(array: jax.Array, start: jax.Array, stop: jax.Array, length: int) -> jax.Array:
        array, length = as_jax(array), int(length)
        if _cannot_be(op, array, length):
            return jnp.zeros(_with_length(op, array, length), array.dtype)
        begin = _begin(op, array.shape[op.axis], start, stop, length)
        return jax.lax.dynamic_slice_in_dim(array, begin, length, op.axis)

    return take


@jax_rule.register(DynamicUpdateSlice)
def _dynamic_update_slice(op: DynamicUpdateSlice, node: Apply, context: Context) -> JaxFunction:
    def update(
        array: jax.Array, value: jax.Array, start: jax.Array, stop: jax.Array, length: int
    ) -> jax.Array:
        array, length = as_jax(array), int(length)
        if _cannot_be(op, array, length, value):
            return array
        begin = _begin(op, array.shape[op.axis], start, stop, length)
        new = jnp.broadcast_to(as_dtype(value, array.dtype), _with_length(op, array, length))
        if not op.set_instead_of_inc:
            new = new + jax.lax.dynamic_slice_in_dim(array, begin, length, op.axis)
        return jax.lax.dynamic_update_slice_in_dim(array, new, begin, op.axis)

    if op.set_instead_of_inc:
        return kept_apart(node, update)
    return kept_apart(node, with_positive_zeros(update, adds_to_zeros(node)))


@jax_rule.register(Realign)
def _realign(op: Realign, node: Apply, context: Context) -> JaxFunction:
    def realign(array: jax.Array, *bounds: jax.Array) -> jax.Array:
        start, stop, place, end, length = bounds
        whole = np.shape(array)[op.axis]
        if op.same_bounds and whole == int(length):
            return array
        part = jnp.maximum(stop - start, 0)
        one = (part == 1) & op.stretch
        context.check(one | (part == jnp.maximum(end - place, 0)))
        if _is_zero(start) and _is_zero(place) and whole == int(length):
            if not (op.stretch and whole):
                return array
            return jnp.where(one, jax.lax.slice_in_dim(as_jax(array), 0, 1, axis=op.axis), array)
        if op.stretch:
            places = jnp.where(one, start, jnp.arange(int(length)) + (start - place))
            fill = as_jax(array) if whole else jnp.pad(array, _padding(op, array, (0, 1)))
            return jnp.take(fill, places, axis=op.axis, mode="clip")
        room = jnp.pad(as_jax(array), _padding(op, array, (int(length), int(length))))
        first = start - place + int(length)
        return jax.lax.dynamic_slice_in_dim(room, first, int(length), op.axis)

    return realign


def _is_zero(bound: object) -> bool:
    """Return True for a bound that is 0 whatever the arguments are."""
    return not isinstance(bound, jax.Array) and bound == 0


def _padding(op: Realign, array: jax.Array, more: tuple[int, int]) -> list[tuple[int, int]]:
    return [more if place == op.axis else (0, 0) for place in range(np.ndim(array))]


def _cannot_be(op: DynamicSlice, array: jax.Array, length: int, value: ArrayLike = 0) -> bool:
    """Return True if no slice of such a length lies in an array, and state that one has to.

    The same for a value of another length that is written into it: it fits a shorter slice.
    """
    if op.exact:
        return False
    given = (*[1] * (array.ndim - np.ndim(value)), *np.shape(value))[op.axis]
    fits = is_open(given) or given in (1, length)
    if fits and at_least(array.shape[op.axis], length):
        return False
    whole = array.shape[op.axis]
    refute(unknown_size(f"no slice of length {length} lies in an array of {whole}"))
    return True


def _with_length(op: DynamicSlice, array: jax.Array, length: int) -> tuple[int, ...]:
    return (*array.shape[: op.axis], length, *array.shape[op.axis + 1 :])


def _begin(
    op: DynamicSlice,
    whole: int,
    start: jax.Array,
    stop: jax.Array,
    length: int,
) -> jax.Array:
    """Where a slice begins.  That it lies in the array is an assumption: NumPy's is shorter."""
    start, stop = jnp.asarray(start), jnp.asarray(stop)
    if not op.exact:
        from_front = (start >= 0) & (stop <= whole)
        from_end = (stop < 0) & (start + whole >= 0)
        collect((from_front | from_end) & (stop - start == length))
    return jnp.where(start < 0, start + whole, start)
