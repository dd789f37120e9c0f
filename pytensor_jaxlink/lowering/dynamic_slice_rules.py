"""Rules for windows: parts of constant length at a place that is computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import as_dtype, as_jax
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.ops import Realign, Window, WindowUpdate


@jax_rule.register(Window)
def _window(op: Window, node: Apply, context: Context) -> JaxFunction:
    def take(array: jax.Array, start: jax.Array, stop: jax.Array, length: int) -> jax.Array:
        begin = _begin(op, np.shape(array)[op.axis], start, int(length))
        return jax.lax.dynamic_slice_in_dim(as_jax(array), begin, int(length), op.axis)

    return take


@jax_rule.register(WindowUpdate)
def _window_update(op: WindowUpdate, node: Apply, context: Context) -> JaxFunction:
    def update(
        array: jax.Array, value: jax.Array, start: jax.Array, stop: jax.Array, length: int
    ) -> jax.Array:
        begin = _begin(op, np.shape(array)[op.axis], start, int(length))
        shape = list(np.shape(array))
        shape[op.axis] = int(length)
        new = jnp.broadcast_to(as_dtype(value, array.dtype), shape)
        if not op.set_instead_of_inc:
            new = new + jax.lax.dynamic_slice_in_dim(as_jax(array), begin, int(length), op.axis)
        return jax.lax.dynamic_update_slice_in_dim(as_jax(array), new, begin, op.axis)

    return update


@jax_rule.register(Realign)
def _realign(op: Realign, node: Apply, context: Context) -> JaxFunction:
    def realign(
        array: jax.Array,
        start: jax.Array,
        stop: jax.Array,
        place: jax.Array,
        end: jax.Array,
        length: int,
    ) -> jax.Array:
        whole = np.shape(array)[op.axis]
        if op.same_bounds and whole == int(length):
            return array
        part = jnp.maximum(stop - start, 0)
        one = (part == 1) & op.stretch
        if context.checks:
            require(one | (part == jnp.maximum(end - place, 0)))
        places = jnp.where(one, start, jnp.arange(int(length)) + (start - place))
        fill = as_jax(array) if whole else jnp.pad(array, _one_more(np.ndim(array), op.axis))
        return jnp.take(fill, places, axis=op.axis, mode="clip")

    return realign


def _one_more(ndim: int, axis: int) -> list[tuple[int, int]]:
    return [(0, int(place == axis)) for place in range(ndim)]


def _begin(op: Window, whole: int, start: jax.Array, length: int) -> jax.Array:
    """Where a window begins.  That it lies in the array is no check that could be dropped."""
    start = jnp.asarray(start)
    if not op.exact:
        from_front = (start >= 0) & (start <= whole - length)
        from_end = (start + length < 0) & (start + whole >= 0)
        require(from_front | from_end if length <= whole else np.array(False))
    return jnp.where(start < 0, start + whole, start)
