"""Rules for arrays in the shapes that masks and assignments ask for, and for their other entries.

Nothing is computed where the shapes agree.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim
from pytensor.graph.basic import Apply

from pytensor_jaxlink.lowering.coercion import as_jax
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.ops import Fitted, Indexable, Merged, NegativeZero, Stretched, overlap


@jax_rule.register(Fitted)
def _fitted(op: Fitted, node: Apply, context: Context) -> JaxFunction:
    def fit(array: jax.Array, mask: jax.Array) -> jax.Array:
        shape = op.shape(np.shape(array), np.shape(mask))
        if _agree(shape, np.shape(array)):
            return array
        both = overlap(np.shape(array), shape)
        if not op.by_places:
            op.check(np.shape(array), np.shape(mask))
        else:
            inside = both[op.axis : op.axis + np.ndim(mask)]
            context.check(~as_jax(mask).at[inside].set(False))
        more = [(0, max(new - old, 0)) for new, old in zip(shape, np.shape(array), strict=True)]
        return jnp.pad(as_jax(array)[both], more)

    return fit


@jax_rule.register(Indexable)
def _indexable(op: Indexable, node: Apply, context: Context) -> JaxFunction:
    def pad(array: jax.Array, mask: jax.Array) -> jax.Array:
        added = op.added(np.shape(array))
        if not any(map(any, added)):
            return array
        context.check(~as_jax(mask))
        return jnp.pad(as_jax(array), added)

    return pad


@jax_rule.register(Merged)
def _merged(op: Merged, node: Apply, context: Context) -> JaxFunction:
    def merge(part: jax.Array, array: jax.Array) -> jax.Array:
        if _agree(np.shape(part), np.shape(array)):
            return part
        both = overlap(np.shape(array), np.shape(part))
        return as_jax(array).at[both].set(as_jax(part)[both])

    return merge


@jax_rule.register(NegativeZero)
def _negative_zero(op: NegativeZero, node: Apply, context: Context) -> JaxFunction:
    return lambda: jnp.asarray(op.compute())


def _agree(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return True if shapes are equal; open lengths count as equal until arrays meet."""
    pairs = zip(one, other, strict=True)
    return all(a == b or is_symbolic_dim(a) or is_symbolic_dim(b) for a, b in pairs)


@jax_rule.register(Stretched)
def _stretched(op: Stretched, node: Apply, context: Context) -> JaxFunction:
    return lambda value, array: jnp.broadcast_to(value, np.shape(array))
