"""The minimum of a function of one variable: a bracket by growing steps, then Brent's method.

Press et al., Numerical Recipes (1992), sections 10.1 and 10.2; Brent, Algorithms for Minimization
without Derivatives (1973), chapter 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from pytensor_jaxlink.lowering.optimisation.search import (
    Evaluate,
    Numbers,
    Step,
    chosen_where,
    search,
)

# The constants of SciPy's implementation, on which its path depends.
_GOLDEN_GROWTH = 1.618034
_GOLDEN_SECTION = 0.3819660
_LONGEST_STEP = 110.0
_SMALLEST_DIVISOR = 1e-21
_BRACKET_STEPS = 1000
_SMALLEST_STEP = 1e-11

Bracket = tuple[Numbers, Numbers, jax.Array, jax.Array]
"""Three points, their values, whether they enclose a minimum, and whether conditions held."""


def brent(
    evaluate: Evaluate, bracket: Sequence[jax.Array], *, xtol: float = 1.48e-8, maxiter: int = 500
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A local minimum, from a bracket of two points (a first step) or of three."""
    points, values, found, bracket_holds = (
        _grown(evaluate, *bracket) if len(bracket) == 2 else _given(evaluate, *bracket)
    )
    low, best, high = points
    zero = jnp.zeros_like(best)
    ends = jnp.minimum(low, high), jnp.maximum(low, high)
    state = (*ends, best, best, best, values[1], values[1], values[1], zero, zero)

    def step(state: Numbers) -> Step:
        low, high, best, second, third, f_best, f_second, f_third, move, before = state
        least = xtol * jnp.abs(best) + _SMALLEST_STEP
        middle = 0.5 * (low + high)
        solved = jnp.abs(best - middle) < 2 * least - 0.5 * (high - low)
        side = jnp.where(best >= middle, low - best, high - best)
        move, before = _next_move(
            (low, high, best, second, third), (f_best, f_second, f_third), move, before, least
        )
        golden = jnp.isnan(move)
        move, before = chosen_where(golden, (_GOLDEN_SECTION * side, side), (move, before))
        smallest = jnp.where(move >= 0, least, -least)
        trial = best + jnp.where(jnp.abs(move) < least, smallest, move)
        (f_trial,), holds = evaluate(trial)
        after = _narrowed(
            (low, high, best, second, third), (f_best, f_second, f_third), trial, f_trial
        )
        reached = jnp.where(solved, best, after[2])
        solved_well = solved & ~jnp.isnan(f_best)
        return Step((*after, move, before), holds | solved, solved, solved_well, reached)

    # SciPy counts a search as failed that ends in its last step.
    solution, solved, holds = search(step, state, best, maxiter)
    return solution, solved & found, holds & bracket_holds


def _next_move(
    points: Numbers, values: Numbers, move: jax.Array, before: jax.Array, least: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The step to the minimum of a parabola and the step before it; NaN where it is no use."""
    low, high, best, second, third = points
    f_best, f_second, f_third = values
    by_second = (best - second) * (f_best - f_third)
    by_third = (best - third) * (f_best - f_second)
    numerator = (best - third) * by_third - (best - second) * by_second
    divisor = 2 * (by_third - by_second)
    numerator = jnp.where(divisor > 0, -numerator, numerator)
    divisor = jnp.abs(divisor)
    inside = (numerator > divisor * (low - best)) & (numerator < divisor * (high - best))
    shrinks = jnp.abs(numerator) < jnp.abs(0.5 * divisor * before)
    useful = (jnp.abs(before) > least) & inside & shrinks
    parabolic = numerator / divisor
    trial = best + parabolic
    at_end = (trial - low < 2 * least) | (high - trial < 2 * least)
    inward = jnp.where(0.5 * (low + high) - best >= 0, least, -least)
    parabolic = jnp.where(at_end, inward, parabolic)
    return jnp.where(useful, parabolic, jnp.nan), move


def _narrowed(points: Numbers, values: Numbers, trial: jax.Array, f_trial: jax.Array) -> Numbers:
    """The interval and the three best points after a trial."""
    low, high, best, second, third = points
    f_best, f_second, f_third = values
    worse = f_trial > f_best
    left = trial < best
    # The worse of the trial and the best point becomes an end of the interval.
    ends = chosen_where(
        worse,
        chosen_where(left, (trial, high), (low, trial)),
        chosen_where(left, (low, best), (best, high)),
    )
    to_second = worse & ((f_trial <= f_second) | (second == best))
    to_third = worse & ~to_second
    to_third = to_third & ((f_trial <= f_third) | (third == best) | (third == second))
    one, two, three = (best, f_best), (second, f_second), (third, f_third)
    new = trial, f_trial
    after_third = chosen_where(~worse | to_second, two, chosen_where(to_third, new, three))
    after_second = chosen_where(~worse, one, chosen_where(to_second, new, two))
    points, values = zip(chosen_where(worse, one, new), after_second, after_third, strict=True)
    return (*ends, *points, *values)


def _given(evaluate: Evaluate, low: jax.Array, middle: jax.Array, high: jax.Array) -> Bracket:
    """Three points of the user, which must enclose a minimum."""
    low, high = jnp.minimum(low, high), jnp.maximum(low, high)
    values, conditions = zip(*(evaluate(point) for point in (low, middle, high)), strict=True)
    (f_low,), (f_middle,), (f_high,) = values
    encloses = (low < middle) & (middle < high) & (f_middle < f_low) & (f_middle < f_high)
    # SciPy raises where they do not.
    holds = conditions[0] & conditions[1] & conditions[2] & encloses
    return (low, middle, high), (f_low, f_middle, f_high), encloses, holds


def _grown(evaluate: Evaluate, first: jax.Array, second: jax.Array) -> Bracket:
    """Downhill from two points, by parabolas and growing steps, until the function rises."""
    (f_first,), first_holds = evaluate(first)
    (f_second,), second_holds = evaluate(second)
    ordered = first, second, f_first, f_second
    swapped = second, first, f_second, f_first
    first, second, f_first, f_second = chosen_where(f_first < f_second, swapped, ordered)
    third = second + _GOLDEN_GROWTH * (second - first)
    (f_third,), third_holds = evaluate(third)

    def step(state: Numbers) -> Step:
        a, b, c, fa, fb, fc = state
        ended = ~(fc < fb)
        point = _parabola(*state)
        bound = b + _LONGEST_STEP * (c - b)
        inside = (point - c) * (b - point) > 0
        beyond = ~inside & ((point - bound) * (bound - c) >= 0)
        between = ~inside & ~beyond & ((point - bound) * (c - point) > 0)
        grown = c + _GOLDEN_GROWTH * (c - b)
        trial = jnp.where(beyond, bound, jnp.where(inside | between, point, grown))
        (value,), holds = evaluate(trial)
        # A minimum between b and c, or between a and the trial.
        after_b, before_trial = inside & (value < fc), inside & (value > fb)
        again = (inside & ~after_b & ~before_trial) | (between & (value < fc))
        shifted = between & (value < fc)
        b_, c_, fb_, fc_ = chosen_where(shifted, (c, trial, fc, value), (b, c, fb, fc))
        grown = c_ + _GOLDEN_GROWTH * (c_ - b_)
        (f_grown,), grown_holds = evaluate(jnp.where(again, grown, trial))
        last, f_last = chosen_where(again, (grown, f_grown), (trial, value))
        settled = after_b | before_trial
        moved = (b_, c_, last, fb_, fc_, f_last)
        inner = (b, trial, c, fb, value, fc)
        outer = (a, b, trial, fa, fb, value)
        reached = chosen_where(after_b, inner, chosen_where(before_trial, outer, moved))
        reached = chosen_where(ended, state, reached)
        return Step(
            reached,
            (holds & grown_holds) | ended,
            ended | settled,
            ended | settled,
            state_of(reached),
        )

    def state_of(values: Numbers) -> jax.Array:
        return jnp.stack(values)

    start = tuple(map(jnp.asarray, (first, second, third, f_first, f_second, f_third)))
    # The check that ends a search takes a step of its own.
    found, solved, holds = search(step, start, state_of(start), _BRACKET_STEPS + 1)
    a, b, c, fa, fb, fc = found
    valley = ((fb < fc) & (fb <= fa)) | ((fb < fa) & (fb <= fc))
    ordered = ((a < b) & (b < c)) | ((c < b) & (b < a))
    solved = solved & valley & ordered
    return (a, b, c), (fa, fb, fc), solved, holds & first_holds & second_holds & third_holds


def _parabola(*state: jax.Array) -> jax.Array:
    """The minimum of the parabola through three points, which their values follow."""
    a, b, c, fa, fb, fc = state
    one, other = (b - a) * (fb - fc), (b - c) * (fb - fa)
    divisor = other - one
    divisor = 2 * jnp.where(jnp.abs(divisor) < _SMALLEST_DIVISOR, _SMALLEST_DIVISOR, divisor)
    return b - ((b - c) * other - (b - a) * one) / divisor
