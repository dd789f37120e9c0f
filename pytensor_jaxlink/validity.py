"""Results that do not count, because a condition is false, where nobody can raise: NaN."""

from __future__ import annotations

from typing import TypeVar, cast

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

_Tree = TypeVar("_Tree")


def only_where(holds: ArrayLike, values: _Tree) -> _Tree:
    """Results, arrays or trees of them; NaN where a condition is false, and their derivatives, too.

    Of integers and booleans no entry says so.
    """

    def valid(value: object) -> object:
        if not isinstance(value, jax.Array) or not jnp.issubdtype(value.dtype, jnp.inexact):
            return value
        return nan_unless(holds, value)

    return cast("_Tree", jax.tree.map(valid, values))


def nan_unless(holds: ArrayLike, value: jax.Array) -> jax.Array:
    """Real or complex numbers; NaN where a condition is false, and their derivatives, too."""
    if jnp.iscomplexobj(value):  # a product of complex numbers makes NaN of infinities
        return jax.lax.complex(nan_unless(holds, value.real), nan_unless(holds, value.imag))
    return value * jnp.where(holds, 1.0, jnp.nan).astype(value.dtype)
