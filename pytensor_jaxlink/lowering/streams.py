"""Random bits, uniform and normal numbers from a key, in few operations.

XLA compiles a sampler each time that it is drawn from, so what a draw consists of decides how long
the first call of a function takes, and how long each call.  So the bits are those of SplitMix64:
Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).  A draw is the
mixed terms of an arithmetic sequence, and its key gives the first term and the step, as `split`
does there.  These are 10 operations for 64 bits, which any entry computes without another one; the
20 rounds of Threefry, which `jax.random` draws with, are more than 100.  Keys are counted, so no
two draws have the same first term.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.lowering.coercion import canonical_dtype

# Odd multiples in [0, 2**64) of these three coincide only far out: they share no stream.
_NEXT = 0x9E3779B97F4A7C15
_ROUND = 0xD1342543DE82EF95
_FORK = 0xA0761D6478BD642F

_FORMATS = {"float64": ("uint64", 0x3FF, 52), "float32": ("uint32", 0x7F, 23)}
"""For each type the words of its bits, the exponent of 1, and how many digits a number has."""


def next_key(key: jax.Array) -> jax.Array:
    """The key that a draw leaves for the next one."""
    return _advance(key, _NEXT)


def next_round(key: jax.Array) -> jax.Array:
    """The key of the next round of a loop; a draw may make any number of rounds."""
    return _advance(key, _ROUND)


def fork(key: jax.Array) -> jax.Array:
    """The key of a second part of the same draw."""
    return _advance(key, _FORK)


def _advance(key: jax.Array, by: int) -> jax.Array:
    """The key as a number of 64 bits, plus another one."""
    high, low = jnp.asarray(key[0]), jnp.asarray(key[1])  # NumPy's numbers warn when they overflow
    advanced = low + np.uint32(by & 0xFFFFFFFF)
    carry = (advanced < low).astype("uint32")
    return jnp.stack([high + np.uint32(by >> 32) + carry, advanced])


def uniform(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Numbers between 0 and 1, which are neither.

    They are the odd multiples of 2**-53 (float64) or 2**-24 (float32), so that 1 minus one of them
    is exact, and one of them.
    """
    word, exponent, digits = _FORMATS[np.dtype(dtype).name]
    with jax.enable_x64(True):
        drawn = (_words(key, shape) >> np.uint64(64 - digits)).astype(word)
        bits = drawn | np.dtype(word).type(exponent << digits)
    whole = jax.lax.bitcast_convert_type(bits, dtype)  # from 1 to 2
    return whole - (1 - 2.0 ** -(digits + 1))


def uniforms(
    key: jax.Array, number: int, shape: tuple[int, ...], dtype: np.dtype
) -> list[jax.Array]:
    """Several of them for each entry.

    XLA would compute and compile all again in each operation that reads one: hence the barrier.
    """
    return list(jax.lax.optimization_barrier(uniform(key, (number, *shape), dtype)))


def normal(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Standard normal numbers."""
    return normal_of(*uniform(key, (2, *shape), dtype))


def normal_of(first: jax.Array, second: jax.Array) -> jax.Array:
    """Standard normal numbers, each of two uniform ones.

    Box & Muller, "A note on the generation of random normal deviates" (1958).  Inverting the
    distribution function takes four times as long.
    """
    return jnp.sqrt(-2 * jnp.log(first)) * _cosine_of_turn(second)


def _cosine_of_turn(part: jax.Array) -> jax.Array:
    """The cosine of a part of a turn, by its series around the middle."""
    square = (part - 0.5) ** 2
    total = jnp.full_like(square, _COSINE[0])
    for coefficient in _COSINE[1:]:
        total = total * square + coefficient
    return total


_COSINE = [
    -((-1) ** k) * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(13, -1, -1)
]


def exponential(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Numbers of the exponential distribution with mean 1."""
    return -jnp.log(uniform(key, shape, dtype))


def real_of(dtype: str) -> np.dtype:
    """The dtype in which to compute real draws."""
    return jnp.promote_types(canonical_dtype(dtype), "float32")


def wide() -> np.dtype:
    """The dtype in which counts are drawn: NumPy's, where JAX has it."""
    return canonical_dtype("float64")


def integers(key: jax.Array, shape: tuple[int, ...], low: jax.Array, high: jax.Array) -> jax.Array:
    """Integers from ``low`` to ``high``, without it, in the widest type of JAX's configuration.

    The width times a fraction of twice as many bits (Lemire, "Fast random integer generation in
    an interval", 2019, section 3): the bias is below one in as many numbers as the type has.
    """
    signed, kind = canonical_dtype("int64"), canonical_dtype("uint64")
    low, high = (jnp.asarray(jnp.asarray(bound, signed), kind) for bound in (low, high))
    width = high - low  # 0 where every number of the type may be drawn
    first, second = _bits(key, (2, *shape), kind)
    below = first * width + _high_half(second, width)
    carry = (below < first * width).astype(kind)
    drawn = jnp.where(width == 0, first, _high_half(first, width) + carry)
    return (low + drawn).astype(signed)


def _high_half(one: jax.Array, other: jax.Array) -> jax.Array:
    """The upper half of the bits of a product of unsigned integers."""
    half = np.asarray(4 * one.dtype.itemsize, one.dtype)
    (a, b), (c, d) = ((each >> half, each & ((1 << half) - 1)) for each in (one, other))
    upper = a * d + (b * d >> half)
    lower = b * c + (upper & ((1 << half) - 1))
    return a * c + (upper >> half) + (lower >> half)


def _bits(key: jax.Array, shape: tuple[int, ...], kind: np.dtype) -> jax.Array:
    with jax.enable_x64(True):
        return (_words(key, shape) >> np.uint64(64 - 8 * kind.itemsize)).astype(kind)


def _words(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """A word of 64 bits for each entry.  JAX has to know such types."""
    high, low = (jnp.asarray(key[part]).astype("uint64") for part in (0, 1))
    seed = (high << np.uint64(32)) | low
    places = jax.lax.broadcasted_iota("uint64", (math.prod(shape),), 0)
    return _mixed(_mixed(seed) + places * _step(seed)).reshape(shape)


def _mixed(word: jax.Array) -> jax.Array:
    """A word in whose place each word has another one, all bits of which look random."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def _step(word: jax.Array) -> jax.Array:
    """The step of a sequence: odd, and with changes between its bits (section 4.3 there)."""
    word = (word ^ (word >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    word = (word ^ (word >> np.uint64(33))) | np.uint64(1)
    few = jax.lax.population_count(word ^ (word >> np.uint64(1))) < 24
    return jnp.where(few, word ^ np.uint64(0xAAAAAAAAAAAAAAAA), word)
