"""Random bits, uniform and normal numbers from a key, in few operations.

XLA compiles a sampler each time that it is drawn from, so what a draw consists of decides how long
the first call of a function takes.  Measured on a CPU, seconds of compiling 20 normal numbers and
the next key: 0.31 with `jax.random` (a split, then bits from a loop), 0.12 with these.

The bits are those of Threefry-2x32 with 20 rounds: Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3" (2011).  Its rounds are written out, because XLA compiles and runs straight code
faster than a loop.  Keys are counted instead of hashed: that paper says in section 2 that any
distinct keys give independent streams.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.lowering.coercion import canonical_dtype

# Odd multiples in [0, 2**64) of these three coincide only far out: they share no stream.
_NEXT = 0x9E3779B97F4A7C15
_ROUND = 0xD1342543DE82EF95
_FORK = 0xA0761D6478BD642F

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


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
    high, low = _words(key, shape)
    if np.dtype(dtype) == np.dtype("float64"):
        whole = high.astype(dtype) * 2.0**20 + (low >> np.uint32(12)).astype(dtype)
        return (whole + 0.5) * 2.0**-52
    return ((high >> np.uint32(9)).astype(dtype) + 0.5) * 2.0**-23


def uniforms(
    key: jax.Array, number: int, shape: tuple[int, ...], dtype: np.dtype
) -> list[jax.Array]:
    """Several of them for each entry.

    XLA would compute and compile all again in each operation that reads one: hence the barrier.
    """
    return list(jax.lax.optimization_barrier(uniform(key, (number, *shape), dtype)))


def normal(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Standard normal numbers."""
    return normal_of(uniform(key, shape, dtype))


def normal_of(uniform: jax.Array) -> jax.Array:
    """The standard normal numbers with these values of the distribution function."""
    return math.sqrt(2) * jax.lax.erf_inv(2 * uniform - 1)


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

    A number of twice as many bits, modulo the width: the bias is below 2**-32.
    """
    signed, kind = canonical_dtype("int64"), canonical_dtype("uint64")
    low, high = (jnp.asarray(jnp.asarray(bound, signed), kind) for bound in (low, high))
    width = jnp.maximum(high - low, 1)
    half = 4 * kind.itemsize  # bits
    scale = (jnp.asarray(1 << half, kind) % width) ** 2 % width
    first, second = _bits(key, (2, *shape), kind)
    return (low + (first % width * scale + second % width) % width).astype(signed)


def _bits(key: jax.Array, shape: tuple[int, ...], kind: np.dtype) -> jax.Array:
    high, low = _words(key, shape)
    return high if kind.itemsize == 4 else (high.astype(kind) << kind.type(32)) | low.astype(kind)


def _words(key: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Two words of 32 bits for each entry."""
    # One word counts along the first axis, the other one along the rest: both stay below 2**32.
    first, rest = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
    counters = (jax.lax.broadcasted_iota("uint32", (first, rest), axis) for axis in (0, 1))
    high, low = _threefry(key, *counters)
    return high.reshape(shape), low.reshape(shape)


@partial(jax.jit, inline=True)  # so JAX traces these 20 rounds once for each shape in a process
def _threefry(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    keys = key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY)
    high, low = high + keys[0], low + keys[1]
    for injection in range(5):
        for rotation in _ROTATIONS[injection % 2]:
            high = high + low
            low = ((low << np.uint32(rotation)) | (low >> np.uint32(32 - rotation))) ^ high
        high = high + keys[(injection + 1) % 3]
        low = low + keys[(injection + 2) % 3] + np.uint32(injection + 1)
    return high, low
