"""Roots of one equation: Newton, Halley and secant steps, and Brent's bracketing method.

Brent, Algorithms for Minimization without Derivatives (1973), chapter 4.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pytensor_jaxlink.lowering.optimisation.search import Evaluate, Step, chosen_where, search


def newton(
    evaluate: Evaluate,
    start: jax.Array,
    *,
    xtol: float = 1.48e-8,
    rtol: float = 0.0,
    maxiter: int = 50,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Newton's method; Halley's, if ``evaluate`` gives second derivatives too."""

    def step(values: tuple[jax.Array, ...]) -> Step:
        (point,) = values
        (value, slope, *curvature), holds = evaluate(point)
        move = value / slope
        for second in curvature:
            # Halley's correction would turn back where it is large.
            correction = move * second / slope / 2
            move = jnp.where(jnp.abs(correction) < 1, move / (1 - correction), move)
        at_root = value == 0
        reached = jnp.where(at_root, point, point - move)
        solved = at_root | (_close(reached, point, xtol, rtol) & (slope != 0))
        return Step((reached,), holds, solved | (slope == 0), solved, reached)

    return search(step, (start,), start, maxiter)


def secant(  # the options of SciPy's method
    evaluate: Evaluate,
    start: jax.Array,
    *,
    xtol: float = 1.48e-8,
    rtol: float = 0.0,
    maxiter: int = 50,
    x1: float | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The secant method, whose second point is near the first where none is given."""
    near = start * (1 + 1e-4)
    other = near + jnp.where(near >= 0, 1e-4, -1e-4) if x1 is None else jnp.asarray(x1, start.dtype)
    (first,), first_holds = evaluate(start)
    (second,), second_holds = evaluate(other)
    swapped = other, second, start, first
    values = chosen_where(jnp.abs(second) < jnp.abs(first), swapped, (start, first, other, second))

    def step(values: tuple[jax.Array, ...]) -> Step:
        before, value_before, point, value = values
        larger = jnp.abs(value) > jnp.abs(value_before)
        # The smaller value is divided by the larger one.
        ratio = jnp.where(larger, value_before / value, value / value_before)
        here, there = chosen_where(larger, (point, before), (before, point))
        reached = (there - ratio * here) / (1 - ratio)
        flat = value == value_before
        solved = _close(reached, point, xtol, rtol) & ~flat
        (next_value,), holds = evaluate(reached)
        return Step(
            (point, value, reached, next_value), holds | solved, solved | flat, solved, reached
        )

    solution, solved, holds = search(step, values, start, maxiter)
    return solution, solved, holds & first_holds & second_holds


def brentq(
    evaluate: Evaluate,
    bracket: tuple[jax.Array, ...],
    *,
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Brent's method: inverse quadratic steps inside a bracket, halved where they do not help."""
    left, right = bracket[0], bracket[1]
    (at_left,), left_holds = evaluate(left)
    (at_right,), right_holds = evaluate(right)
    zero = jnp.zeros_like(left)
    values = (left, at_left, right, at_right, zero, zero, zero, zero)

    def step(values: tuple[jax.Array, ...]) -> Step:
        old, f_old, new, f_new, far, f_far, last, size = values
        crossed = (f_old != 0) & (f_new != 0) & (jnp.signbit(f_old) != jnp.signbit(f_new))
        crossing = old, f_old, new - old, new - old
        far, f_far, last, size = chosen_where(crossed, crossing, (far, f_far, last, size))
        better = jnp.abs(f_far) < jnp.abs(f_new)
        old, new, far = chosen_where(better, (new, far, new), (old, new, far))
        f_old, f_new, f_far = chosen_where(better, (f_new, f_far, f_new), (f_old, f_new, f_far))
        least = (xtol + rtol * jnp.abs(new)) / 2
        half = (far - new) / 2
        solved = (f_new == 0) | (jnp.abs(half) < least)
        line = -f_new * (new - old) / (f_new - f_old)
        slope_old, slope_far = (f_old - f_new) / (old - new), (f_far - f_new) / (far - new)
        curve = -f_new * (f_far * slope_far - f_old * slope_old)
        curve = curve / (slope_far * slope_old * (f_far - f_old))
        trial = jnp.where(old == far, line, curve)
        useful = (jnp.abs(last) > least) & (jnp.abs(f_new) < jnp.abs(f_old))
        bound = jnp.minimum(jnp.abs(last), 3 * jnp.abs(half) - least)
        useful = useful & (2 * jnp.abs(trial) < bound)
        last, size = chosen_where(useful, (size, trial), (half, half))
        move = jnp.where(jnp.abs(size) > least, size, jnp.where(half > 0, least, -least))
        reached = new + move
        (value,), holds = evaluate(reached)
        found = jnp.where(solved, new, reached)
        values = (new, f_new, reached, value, far, f_far, last, size)
        return Step(values, (holds & ~jnp.isnan(value)) | solved, solved, solved, found)

    solution, solved, holds = search(step, values, left, maxiter)
    at_end = (at_left == 0) | (at_right == 0)
    solution = jnp.where(at_left == 0, left, jnp.where(at_right == 0, right, solution))
    brackets = jnp.signbit(at_left) != jnp.signbit(at_right)
    return solution, at_end | (solved & brackets), holds & left_holds & right_holds


def _close(one: jax.Array, other: jax.Array, xtol: float, rtol: float) -> jax.Array:
    """NumPy's closeness, of finite numbers."""
    return (jnp.abs(one - other) <= xtol + rtol * jnp.abs(other)) & jnp.isfinite(one)
