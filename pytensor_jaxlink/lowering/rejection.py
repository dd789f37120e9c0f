"""Draws by rejection: entries of an array together, until each of them is accepted.

`jax.random` draws gamma variables one by one on a CPU, each in a loop of its own: 200,000 of them
took 1.2 s, here 0.01 s.

A loop ends whatever the parameters are: values outside of the domain, infinite ones and NaN are
accepted before it starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.lowering.streams import fork, next_round, normal_of, uniform, uniforms, wide

Shape = tuple[int, ...]


_TOGETHER = 32
"""Entries.  Rounds for all entries go on for the few that are rejected again and again: 20,000
gamma variables took 1.4 ms in such rounds, and take 0.7 in rounds for so many at a time."""


def accepted(
    key: jax.Array,
    shape: Shape,
    start: jax.Array,
    done: jax.Array,
    parameters: tuple[jax.Array, ...],
    propose: Callable[..., tuple[jax.Array, jax.Array]],
    *,
    in_parts: bool = True,
) -> jax.Array:
    """The first proposal for each entry that is accepted.

    ``start``, ``done`` and each parameter are one number for all entries, or one for each.

    Parameters
    ----------
    key
        Not used itself; each round has a key after it.
    start, done
        Values of the entries that are accepted before the first round, and which these are.
    parameters
        Of the distribution.
    propose
        From a key, a shape and the parameters to proposals, and which of them to accept.
    in_parts
        Whether the entries may be drawn in parts, on a CPU.
    """
    count = math.prod(shape)
    values = jnp.broadcast_to(start, shape).reshape(count)
    given = [
        each.reshape(()) if each.size == 1 else jnp.broadcast_to(each, shape).reshape(count)
        for each in map(jnp.asarray, (done, *parameters))
    ]
    if not (in_parts and _in_parts(count)):
        return _rounds(key, values, given, propose)[1].reshape(shape)

    def part(number: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, values = state
        first = jnp.minimum(number * _TOGETHER, count - _TOGETHER)  # the last draws some again

        def of_part(array: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice(array, (first,), (_TOGETHER,)) if array.ndim else array

        key, drawn = _rounds(key, of_part(values), [*map(of_part, given)], propose)
        return key, jax.lax.dynamic_update_slice(values, drawn, (first,))

    return jax.lax.fori_loop(0, -(-count // _TOGETHER), part, (key, values))[1].reshape(shape)


def _in_parts(count: int) -> bool:
    """Return True where a part after the other takes less time than all entries at once."""
    return isinstance(count, int) and count > _TOGETHER and jax.default_backend() == "cpu"


def _rounds(
    key: jax.Array,
    values: jax.Array,
    given: list[jax.Array],
    propose: Callable[..., tuple[jax.Array, jax.Array]],
) -> tuple[jax.Array, jax.Array]:
    """The key after the last round, and what was accepted."""

    def body(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        value, done, key, *parameters = state
        proposal, accept = propose(key, value.shape, *parameters)
        value = jnp.where(done, value, proposal)
        return value, done | accept, next_round(key), *map(_the_same, parameters)

    done, *parameters = given
    state = (values, jnp.broadcast_to(done, values.shape), next_round(key), *parameters)
    values, _, key, *_ = jax.lax.while_loop(lambda state: ~state[1].all(), body, state)
    return key, values


def _the_same(parameter: jax.Array) -> jax.Array:
    """The parameter in the next round.

    XLA on a CPU makes one kernel of a loop, and one of each number that it can compute before the
    loop.  It runs kernels that do not depend on each other in several threads, and to wake one
    takes longer than all draws.  So what follows from a parameter that all entries share is
    computed in each round: XLA does not see that it stays the same.
    """
    return jax.lax.optimization_barrier(parameter) if parameter.size == 1 else parameter


# -- gamma -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gammas:
    """Gamma variables with scale 1: ``part * exp(log_rest)``.

    Those of small concentrations are too small for numbers, but their logarithms are not.

    Attributes
    ----------
    part
        A variable whose concentration is at least 1.
    log_rest
        What it lacks where the concentration is smaller, as a logarithm; 0 elsewhere.
    """

    part: jax.Array
    log_rest: jax.Array

    @classmethod
    def drawn(cls, key: jax.Array, shape: Shape, alpha: jax.Array, dtype: np.dtype) -> Gammas:
        """Marsaglia & Tsang, "A simple method for generating gamma variables" (2000).

        Concentrations below 1 are drawn as in its section 6.
        """
        above_1 = isinstance(alpha, np.ndarray | np.generic | float | int) and np.all(
            np.asarray(alpha) >= 1
        )
        alpha = jnp.asarray(alpha, dtype)
        small = alpha < 1

        def propose(key: jax.Array, shape: Shape, alpha: jax.Array) -> tuple[jax.Array, jax.Array]:
            d = (alpha if above_1 else jnp.where(alpha < 1, alpha + 1, alpha)) - 1 / 3
            first, turn, second = uniform(key, (3, *shape), dtype)
            x = jax.lax.optimization_barrier(normal_of(first, turn))  # several read it
            root = 1 + x / jnp.sqrt(9 * d)
            cube = jnp.where(root > 0, root * root * root, 1)
            # An exponential function takes half the time of a logarithm.
            limit = jnp.exp(x * x / 2 + d * (1 - cube + jnp.log(cube)))
            return d * cube, (root > 0) & (second < limit)

        done = ~((alpha >= 0) & (alpha < jnp.inf))
        part = accepted(key, shape, alpha, done, (alpha,), propose)
        if above_1:
            return cls(part, jnp.zeros((), dtype))
        return cls(part, jnp.where(small, jnp.log(uniform(key, shape, dtype)) / alpha, 0))

    def logarithms(self) -> jax.Array:
        """The logarithms of the variables."""
        return jnp.log(self.part) + self.log_rest

    def values(self) -> jax.Array:
        """The variables."""
        return self.part * jnp.exp(self.log_rest)


# -- counts ----------------------------------------------------------------------------------------


def poisson(key: jax.Array, shape: Shape, rate: jax.Array) -> jax.Array:
    """Poisson variables, as real numbers.

    Large rates by Hörmann, "The transformed rejection method for generating Poisson random
    variables" (1993), algorithm PTRS.
    """
    rate = jnp.asarray(rate, wide())
    large = (rate >= _LARGE) & (rate < jnp.inf)

    def propose(key: jax.Array, shape: Shape, rate: jax.Array) -> tuple[jax.Array, jax.Array]:
        safe = jnp.where((rate >= _LARGE) & (rate < jnp.inf), rate, _LARGE)
        b = 0.931 + 2.53 * jnp.sqrt(safe)
        hat = _Hat(
            a=-0.059 + 0.02483 * b,
            b=b,
            centre=safe + 0.43,
            squeeze=0.9277 - 3.6224 / (b - 2),
            scale=1.1239 + 1.1328 / (b - 3.4),
        )
        log_rate = jnp.log(safe)
        return _transformed(
            key, shape, hat, jnp.inf, lambda k: k * log_rate - safe - _log_factorial(k)
        )

    few = _by_inversion(key, shape, jnp.where(large, 1, jnp.exp(-rate)), rate, 0)
    return accepted(fork(key), shape, few, ~large, (rate,), propose)


def binomial(
    key: jax.Array, shape: Shape, count: jax.Array, chance: jax.Array, *, in_parts: bool = True
) -> jax.Array:
    """Binomial variables, as real numbers.

    Large means by Hörmann, "The generation of binomial random variates" (1993), algorithm BTRS.
    """
    kind = wide()
    count, chance = jnp.asarray(count, kind), jnp.asarray(chance, kind)
    mirrored = chance > 0.5
    p = jnp.where(mirrored, 1 - chance, chance)
    large = (p > 0) & (count * p >= _LARGE) & (count < jnp.inf)
    n, r = jnp.where(large, count, 4 * _LARGE), jnp.where(large, p, 0.5)
    mode = jnp.floor((n + 1) * r)
    log_odds = jnp.log(r) - jnp.log1p(-r)
    log_mode = _log_factorial(mode) + _log_factorial(n - mode)

    def propose(key: jax.Array, shape: Shape, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
        n, r, mode, log_odds, log_mode = given
        spread = jnp.sqrt(n * r * (1 - r))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * r
        scale = (2.83 + 5.1 / b) * spread
        hat = _Hat(a=a, b=b, centre=n * r + 0.5, squeeze=0.92 - 4.2 / b, scale=scale)

        def log_chance(k: jax.Array) -> jax.Array:
            """The logarithm of the chance, relative to that of the mode."""
            ways = log_mode - _log_factorial(k) - _log_factorial(jnp.maximum(n - k, 0))
            return ways + (k - mode) * log_odds

        return _transformed(key, shape, hat, n, log_chance)

    odds = p / (1 - p)
    none = jnp.where(large, 1, jnp.exp(count * jnp.log1p(-p)))
    few = _by_inversion(key, shape, none, count * odds, odds)
    given = n, r, mode, log_odds, log_mode
    drawn = accepted(fork(key), shape, few, ~large, given, propose, in_parts=in_parts)
    return jnp.where(mirrored, count - drawn, drawn)


def hypergeometric(
    key: jax.Array, shape: Shape, good: jax.Array, bad: jax.Array, drawn: jax.Array
) -> jax.Array:
    """Counts of the good ones among those that are drawn without replacement, as real numbers.

    A few are drawn one by one, and all where JAX has no 64-bit types: logarithms of chances are
    differences of large numbers.  Others by the ratio of uniforms: Stadlober, "The ratio of
    uniforms approach for generating discrete random variates" (1990).
    """
    kind = wide()
    good, bad, drawn = (jnp.asarray(count, kind) for count in (good, bad, drawn))
    rarer, other, total = jnp.minimum(good, bad), jnp.maximum(good, bad), good + bad
    left = jnp.minimum(drawn, total - drawn)  # what is drawn, or what is left behind
    large = left > (_FEW if kind == np.float64 else jnp.inf)

    def propose(key: jax.Array, shape: Shape, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
        rarer, other, left = given
        share, total = rarer / (rarer + other), rarer + other
        variance = (total - left) / (total - 1) * left * share * (1 - share)
        width = 2 * math.sqrt(2 / math.e) * jnp.sqrt(variance + 0.5) + 3 - 2 * math.sqrt(3 / math.e)

        def log_ways(k: jax.Array) -> jax.Array:
            """The logarithm of the chance, but for what all counts share."""
            ways = _log_factorial(k) + _log_factorial(rarer - k)
            return -ways - _log_factorial(left - k) - _log_factorial(other - left + k)

        mode = jnp.floor((left + 1) * (rarer + 1) / (total + 2))
        first, second = uniforms(key, 2, shape, kind)
        k = jnp.floor(left * share + 0.5 + width * (second - 0.5) / first)
        possible = (k >= 0) & (k <= jnp.minimum(left, rarer))
        k = jnp.where(possible, k, 0)
        return k, possible & (2 * jnp.log(first) <= log_ways(k) - log_ways(mode))

    def step(made: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        found, key = state
        hit = uniform(key, shape, kind) * (total - made) < rarer - found
        return jnp.where((made < left) & hit, found + 1, found), next_round(key)

    steps = jnp.max(jnp.where(large, 0, left), initial=0).astype("int32")
    few, _ = jax.lax.fori_loop(0, steps, step, (jnp.zeros(shape, kind), key))
    given = (jnp.where(large, count, 2 * _FEW) for count in (rarer, other, left))
    found = accepted(fork(key), shape, few, ~large, tuple(given), propose)
    found = jnp.where(good > bad, left - found, found)
    return jnp.where(left == drawn, found, good - found)


_FEW = 10  # for so many a loop that draws one by one takes less time than a proposal
_LARGE = 10.0  # the mean from which on the hats hold
_AT_ONCE = 4  # counts; XLA takes a microsecond to ask whether to go on
_MOST = 152  # no count with a smaller mean comes near this


def _by_inversion(
    key: jax.Array, shape: Shape, chance: jax.Array, first: jax.Array, step: jax.Array | int
) -> jax.Array:
    """Counts with small means, by adding up chances from 0 on.

    The chance of k + 1 is that of k times ``(first - step * k) / (k + 1)``; where the chance of 0
    is 1, nothing is added up.
    """
    drawn = uniform(key, shape, wide())

    def body(state: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        k, found, chance, total = state
        for _ in range(_AT_ONCE):
            found = found + (drawn > total)
            chance = chance * (first - step * k) / (k + 1)
            k, total = k + 1, total + chance
        return k, found, chance, total

    def more(state: tuple[jax.Array, ...]) -> jax.Array:
        k, _, _, total = state
        return (k < _MOST) & (drawn > total).any()

    zero = jnp.zeros((), wide())
    start = zero, jnp.broadcast_to(zero, shape), chance, chance
    return jax.lax.while_loop(more, body, start)[1]


@dataclass(frozen=True)
class _Hat:
    """The hat and the squeeze of a transformed rejection, in the names of Hörmann's papers.

    Attributes
    ----------
    a, b, centre
        A proposal is ``floor((2 a / (0.5 - |u|) + b) u + centre)``.
    squeeze
        Below it the second uniform number is accepted near the centre.
    scale
        What the second uniform number is multiplied by.
    """

    a: jax.Array
    b: jax.Array
    centre: jax.Array
    squeeze: jax.Array
    scale: jax.Array


def _transformed(
    key: jax.Array,
    shape: Shape,
    hat: _Hat,
    largest: jax.Array | float,
    log_chance: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Proposals of a transformed rejection, and which of them to accept."""
    first, second = uniforms(key, 2, shape, wide())
    first = first - 0.5
    left = 0.5 - jnp.abs(first)
    k = jnp.floor((2 * hat.a / left + hat.b) * first + hat.centre)
    possible = (k >= 0) & (k <= largest)
    k = jnp.where(possible, k, 0)
    scaled = second * hat.scale / (hat.a / (left * left) + hat.b)
    squeezed = (left >= 0.07) & (second <= hat.squeeze)
    return k, possible & (squeezed | (scaled <= jnp.exp(log_chance(k))))


def _log_factorial(k: jax.Array) -> jax.Array:
    """``log(k!)`` by Stirling's series; `lax.lgamma` takes any sign and is three times as long."""
    next_one = k + 1
    series = (1 / 12 - (1 / 360 - 1 / 1260 / next_one**2) / next_one**2) / next_one
    rest = jnp.where(k < len(_REST), jnp.asarray(_REST)[jnp.clip(k, 0, 9).astype("int32")], series)
    return (k + 0.5) * jnp.log(next_one) - next_one + 0.5 * math.log(2 * math.pi) + rest


# What Stirling's formula without its series lacks for 0! to 9!.
_REST = [
    math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + k + 1 - 0.5 * math.log(2 * math.pi)
    for k in range(10)
]
