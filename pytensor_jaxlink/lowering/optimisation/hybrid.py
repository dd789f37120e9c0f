"""Roots of systems of equations by Powell's hybrid method, as MINPACK's ``hybrj`` follows it.

Moré, Garbow and Hillstrom, User Guide for MINPACK-1 (1980).  The approximate Jacobian is kept as a
matrix where MINPACK keeps its QR factors: the steps depend on the matrix alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.lowering.optimisation.search import Evaluate, Step, search


class _State(NamedTuple):
    """The state between two trial steps.

    Attributes
    ----------
    point, residual
        The best point and the equations there.
    jacobian
        Its approximation, which each step corrects.
    fresh
        Whether the Jacobian is to be computed for the next step.
    scale, radius
        The trust region: the scaled length of a step is at most the radius.
    distance
        The scaled length of the point.
    failures, successes
        Trial steps in a row that did badly and well.
    slow_steps, slow_jacobians
        Steps and computed Jacobians without progress.
    accepted, evaluations
        Counts of accepted steps and of evaluations.
    """

    point: jax.Array
    residual: jax.Array
    jacobian: jax.Array
    fresh: jax.Array
    scale: jax.Array
    radius: jax.Array
    distance: jax.Array
    failures: jax.Array
    successes: jax.Array
    slow_steps: jax.Array
    slow_jacobians: jax.Array
    accepted: jax.Array
    evaluations: jax.Array


def hybrid(
    evaluate: Evaluate,
    start: jax.Array,
    *,
    xtol: float = 1.49012e-8,
    factor: float = 100.0,
    maxfev: int = 0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The root that Powell's method reaches from a vector of the equations' length.

    ``evaluate`` gives the equations and their Jacobian.
    """
    limit = maxfev or 100 * (start.shape[0] + 1)
    (residual, jacobian), start_holds = evaluate(start)
    zero, yes = jnp.asarray(0), jnp.asarray(True)
    nothing = jnp.zeros((), start.dtype)
    first = _State(
        start, residual, jacobian, yes, jnp.zeros_like(start), nothing, nothing,
        zero, zero, zero, zero, zero, jnp.asarray(1),
    )  # fmt: skip

    def step(values: tuple[jax.Array, ...]) -> Step:
        state = _State(*values)
        was_fresh = state.fresh
        jacobian, holds = jax.lax.cond(
            was_fresh,
            lambda: _jacobian(evaluate, state.point),
            lambda: (state.jacobian, jnp.asarray(True)),
        )
        state = state._replace(jacobian=jacobian)
        state = _rescaled(state, factor)
        move = _dogleg(state)
        (residual, _), residual_holds = evaluate(state.point + move)
        state, progress, length = _judged(state, move, residual, was_fresh)
        solved = (state.radius <= xtol * state.distance) | (_norm(state.residual) == 0)
        tiny = 0.1 * jnp.maximum(0.1 * state.radius, length) <= _EPSILON * state.distance
        stuck = tiny | (state.slow_jacobians == 5) | (state.slow_steps == 10)
        ended = solved | stuck | (state.evaluations >= limit) | ~jnp.isfinite(progress)
        return Step(tuple(state), holds & residual_holds, ended, solved, state.point)

    solution, solved, holds = search(step, tuple(first), start, limit)
    return solution, solved, holds & start_holds


_EPSILON = float(np.finfo("float64").eps)


def _jacobian(evaluate: Evaluate, point: jax.Array) -> tuple[jax.Array, jax.Array]:
    (_, jacobian), holds = evaluate(point)
    return jacobian, holds


def _norm(vector: jax.Array) -> jax.Array:
    return jnp.sqrt((vector * vector).sum())


def _rescaled(state: _State, factor: float) -> _State:
    """The scale follows the columns of each computed Jacobian, and never shrinks.

    Until a step has been accepted the search starts anew with each Jacobian.
    """
    columns = jnp.sqrt((state.jacobian**2).sum(axis=0))
    starts = state.accepted == 0
    first = jnp.where(columns == 0, 1.0, columns)
    scale = jnp.where(starts, first, jnp.maximum(state.scale, columns))
    distance = _norm(scale * state.point)
    radius = jnp.where(distance == 0, factor, factor * distance)
    starts = starts & state.fresh
    return state._replace(
        scale=jnp.where(state.fresh, scale, state.scale),
        radius=jnp.where(starts, radius, state.radius),
        distance=jnp.where(starts, distance, state.distance),
    )


def _dogleg(state: _State) -> jax.Array:
    """The step: Newton's, or the end of a bent path toward it that stays in the trust region."""
    scale, radius, residual = state.scale, state.radius, state.residual
    newton = jnp.linalg.solve(state.jacobian, residual)
    newton_length = _norm(scale * newton)
    gradient = (state.jacobian.T @ residual) / scale
    gradient_length = _norm(gradient)
    descent = gradient / gradient_length / scale
    curvature = _norm(state.jacobian @ descent)
    to_lowest = gradient_length / curvature / curvature  # the length of the steepest descent
    reach, share = to_lowest / radius, radius / newton_length
    bend = (_norm(residual) / gradient_length) * (_norm(residual) / newton_length) * reach
    bend = bend - share * reach**2 + jnp.sqrt((bend - share) ** 2 + (1 - share**2) * (1 - reach**2))
    weight = jnp.where(to_lowest < radius, share * (1 - reach**2) / bend, 0.0)
    bent = (1 - weight) * jnp.minimum(to_lowest, radius) * descent + weight * newton
    bent = jnp.where(gradient_length == 0, share * newton, bent)
    return -jnp.where(newton_length <= radius, newton, bent)


def _judged(
    state: _State, move: jax.Array, residual: jax.Array, was_fresh: jax.Array
) -> tuple[_State, jax.Array, jax.Array]:
    """The state after a trial step, the size of its residual, and the length of the step."""
    length = _norm(state.scale * move)
    radius = jnp.where(state.accepted == 0, jnp.minimum(state.radius, length), state.radius)
    before, after = _norm(state.residual), _norm(residual)
    expected = state.residual + state.jacobian @ move
    predicted = jnp.where(_norm(expected) < before, 1 - (_norm(expected) / before) ** 2, 0.0)
    actual = jnp.where(after < before, 1 - (after / before) ** 2, -1.0)
    ratio = jnp.where(predicted > 0, actual / predicted, 0.0)
    bad = ratio < 0.1
    successes = jnp.where(bad, 0, state.successes + 1)
    failures = jnp.where(bad, state.failures + 1, 0)
    wide = jnp.where((ratio >= 0.5) | (successes > 1), jnp.maximum(radius, length / 0.5), radius)
    wide = jnp.where(jnp.abs(ratio - 1) <= 0.1, length / 0.5, wide)
    accepted = ratio >= 1e-4
    slow_jacobians = state.slow_jacobians + jnp.where(was_fresh, 1, 0)
    # Broyden's correction, so that the Jacobian explains this step.
    correction = jnp.outer(residual - expected, state.scale**2 * move) / length**2
    point = jnp.where(accepted, state.point + move, state.point)
    following = _State(
        point=point,
        residual=jnp.where(accepted, residual, state.residual),
        jacobian=state.jacobian + correction,
        fresh=failures == 2,
        scale=state.scale,
        radius=jnp.where(bad, 0.5 * radius, wide),
        distance=jnp.where(accepted, _norm(state.scale * point), state.distance),
        failures=failures,
        successes=successes,
        slow_steps=jnp.where(actual >= 0.001, 0, state.slow_steps + 1),
        slow_jacobians=jnp.where(actual >= 0.1, 0, slow_jacobians),
        accepted=state.accepted + jnp.where(accepted, 1, 0),
        evaluations=state.evaluations + 1,
    )
    return following, after, length
