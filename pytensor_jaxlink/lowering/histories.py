"""Entries of a loop's states that its steps read again: rings and strips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

_FEW = 16  # entries of a state that are carried each by itself

History = tuple[jax.Array, ...] | jax.Array
"""The entries that a step sees of a state, as they are carried: few each by itself."""


@dataclass(frozen=True)
class Strip:
    """The part of a buffer that a step reads and writes, which moves by one entry a step.

    It is carried in registers, as people write such loops: what enters at one end is a sequence of
    the loop, and what leaves at the other a stacked output.  Nothing is scattered.

    Attributes
    ----------
    buffer
        All entries, before the loop.
    first
        The least place that a step touches.
    registers
        The entries that the first step touches and an earlier one would have, too.
    arriving
        The sequence of entries that arrive, one a step.
    summed
        Whether steps only add to an entry until it is at the first place.  Then the registers hold
        what steps have added, and the entry itself arrives there, as in JAX's gradient of a scan.
    """

    buffer: jax.Array
    first: int
    registers: tuple[jax.Array, ...]
    arriving: jax.Array
    summed: bool

    @classmethod
    def of(cls, buffer: jax.Array, places: Sequence[int], steps: int, *, summed: bool) -> Strip:
        """The strip of a buffer, of which a step touches the places, at distances from it."""
        first, last = min(places), max(places)
        if buffer.shape[0] < steps + last:
            raise ValueError("a buffer of the scan is shorter than its number of steps")
        if summed:
            registers = (_nothing_added(buffer.shape[1:], buffer.dtype),) * (last - first)
            return cls(buffer, first, registers, buffer[first : first + steps], summed)
        registers = tuple(buffer[place] for place in range(first, last))
        return cls(buffer, first, registers, buffer[last : last + steps], summed)

    def seen(self, registers: Sequence[jax.Array], arriving: jax.Array) -> list[jax.Array]:
        """The entries that a step touches."""
        if not self.summed:
            return [*registers, arriving]
        nothing = _nothing_added(arriving.shape, arriving.dtype)
        return [jax.lax.add(registers[0], arriving), *registers[1:], nothing]

    def at(self, values: Sequence[jax.Array], place: int) -> jax.Array:
        """The entry that a step reads at a place."""
        return values[place - self.first]

    def put(self, values: list[jax.Array], place: int, value: jax.Array) -> None:
        """Write the entry of a step at a place."""
        values[place - self.first] = jnp.asarray(value, self.buffer.dtype)

    def whole(self, left: jax.Array, kept: Sequence[jax.Array]) -> jax.Array:
        """The buffer after the loop."""
        rest = self.buffer[self.first + left.shape[0] :]
        last = [value[None] for value in kept]
        if self.summed:
            last = [rest[: len(kept)] + jnp.concatenate(last)]
        return jnp.concatenate([self.buffer[: self.first], left, *last, rest[len(kept) :]])


def _nothing_added(shape: Sequence[int], dtype: np.dtype) -> jax.Array:
    """-0.0, to which every number can be added and stays as it is."""
    return jax.lax.full(shape, -np.zeros((), dtype))


def split_history(history: jax.Array) -> History:
    """The entries that a step sees of a state, as they are carried."""
    return tuple(history) if history.shape[0] <= _FEW else history


def moved_history(history: History, entry: jax.Array) -> History:
    """The entries after one step: the oldest goes."""
    if isinstance(history, tuple):
        return (*history[1:], entry)
    return jnp.concatenate([history[1:], entry[None]])


def joined_history(history: History) -> jax.Array:
    """The entries as one array."""
    return jnp.stack(history) if isinstance(history, tuple) else history


def last_entries(array: jax.Array, length: int) -> jax.Array:
    """The last entries; where there are fewer the rest is zero, as in PyTensor's buffers."""
    missing = length - array.shape[0]
    if missing > 0:
        return jnp.concatenate([array, jnp.zeros((missing, *array.shape[1:]), array.dtype)])
    return array[array.shape[0] - length :]


def ring_of(initial: jax.Array, length: int) -> jax.Array:
    """A buffer that is written round and round, with the initial entries in it."""
    ring = jnp.zeros((length, *initial.shape[1:]), initial.dtype)
    return ring.at[: initial.shape[0]].set(initial)


def unrolled_ring(ring: jax.Array, filled: jax.Array) -> jax.Array:
    """The entries of a ring, oldest first."""
    length = ring.shape[0]
    if length <= 1:
        return ring
    shift = jnp.where(filled > length, filled % length, 0)
    return jnp.roll(ring, -shift, axis=0)
