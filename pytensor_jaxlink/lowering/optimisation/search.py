"""The part that the methods share: a search goes on until it ends, with the conditions it met.

A method is followed step by step, because its path decides which solution it finds.  A search that
does not end well (no convergence, a value that is not finite) fails; SciPy then finishes the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

# The outputs of the inner graph at a point, and whether its conditions hold there.
Evaluate = Callable[[jax.Array], tuple[list[jax.Array], jax.Array]]

Numbers = tuple[jax.Array, ...]


class Search(NamedTuple):
    """The state of a search.

    Attributes
    ----------
    values
        What the method carries from step to step.
    holds
        Whether the conditions of the graph have held at every point so far.
    steps
        The steps made.
    ended
        Whether the search is over.
    solved
        Whether it has ended at a solution.
    solution
        The best point so far.
    """

    values: tuple[jax.Array, ...]
    holds: jax.Array
    steps: jax.Array
    ended: jax.Array
    solved: jax.Array
    solution: jax.Array


class Step(NamedTuple):
    """The outcome of one step; the attributes are those of `Search`."""

    values: tuple[jax.Array, ...]
    holds: jax.Array
    ended: jax.Array
    solved: jax.Array
    solution: jax.Array


def chosen_where(condition: jax.Array, these: Numbers, those: Numbers) -> Numbers:
    """The numbers at the left where a condition holds, and those at the right elsewhere."""
    return tuple(jnp.where(condition, one, other) for one, other in zip(these, those, strict=True))


def search(
    step: Callable[[tuple[jax.Array, ...]], Step],
    values: tuple[jax.Array, ...],
    start: jax.Array,
    limit: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Step until the method ends or has made ``limit`` steps.

    Returns the solution, whether it is one, and whether the conditions of the graph held.
    """

    def goes_on(state: Search) -> jax.Array:
        return ~state.ended & (state.steps < limit)

    def body(state: Search) -> Search:
        made = step(state.values)
        values = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), made.values, values_)
        holds = state.holds & made.holds
        # Where a condition is false another implementation raises; nothing more is of use.
        return Search(
            values, holds, state.steps + 1, made.ended | ~holds, made.solved, made.solution
        )

    values_ = jax.tree.map(jnp.asarray, values)
    no, yes = jnp.asarray(False), jnp.asarray(True)
    first = Search(values_, yes, jnp.asarray(0), no, no, jnp.asarray(start))
    last = jax.lax.while_loop(goes_on, body, first)
    return last.solution, last.solved & jnp.isfinite(last.solution).all(), last.holds
