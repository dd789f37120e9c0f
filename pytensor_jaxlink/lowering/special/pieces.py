"""Functions put together from pieces, and the sums of which the pieces are made.

Graphs stay small: XLA's time to compile a function grows with the number of operations, so sums of
many terms are loops, or reductions over an axis in front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Case = tuple[jax.Array, Callable[..., jax.Array], Sequence[tuple[jax.Array, float]]]


def pieces(*cases: Case) -> jax.Array:
    """The first piece of those that apply at each element; NaN where none does.

    A case is where it applies, the function, and pairs of an argument and a number on which the
    function is safe to evaluate where it does not apply.  A piece that no element needs is not
    computed.
    """
    taken = jnp.zeros_like(cases[0][0])
    result: Any = jnp.nan
    for applies, function, pairs in cases:
        here = applies & ~taken
        arguments = [
            jnp.where(here, value, jnp.asarray(safe, value.dtype)) for value, safe in pairs
        ]

        def nowhere(*values: jax.Array) -> jax.Array:
            return jnp.full_like(values[0], jnp.nan)

        found = jax.lax.cond(here.any(), function, nowhere, *arguments)
        result = jnp.where(here, found, result)
        taken = taken | here
    return result


def weighted_sum(
    function: Callable[[jax.Array], jax.Array],
    nodes: np.ndarray,
    weights: np.ndarray,
    like: jax.Array,
) -> jax.Array:
    """``sum(weights * function(nodes))``."""
    shape = (len(nodes), *[1] * like.ndim)
    places, factors = (jnp.asarray(np.reshape(v, shape), like.dtype) for v in (nodes, weights))
    return (factors * function(places)).sum(axis=0)


def sum_of_ratios(
    ratio: Callable[[jax.Array], jax.Array], count: int, like: jax.Array
) -> jax.Array:
    """``1 + ratio(1) + ratio(1) ratio(2) + ...``, with ``count`` ratios."""

    def add(k: jax.Array, loop: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        term, total = loop
        term = term * ratio(jnp.asarray(k, like.dtype))
        return term, total + term

    one = jnp.ones_like(like)
    return jax.lax.fori_loop(1, count + 1, add, (one, one))[1]


def polynomial(coefficients: Sequence[float] | np.ndarray, x: jax.Array) -> jax.Array:
    """A polynomial by rising powers."""
    table = jnp.asarray(coefficients, x.dtype)
    last = len(coefficients) - 1

    def add(k: jax.Array, total: jax.Array) -> jax.Array:
        return total * x + table[last - k]

    return jax.lax.fori_loop(1, last + 1, add, jnp.full_like(x, table[last]))
