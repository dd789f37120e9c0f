"""NumPy generators and JAX keys.

A region draws from a JAX key.  The key is taken from the state of a NumPy generator, and after the
call a generator with the new key as its state takes the old one's place: the generator stays the
one source of truth, so seeding it, copying it and sharing it between functions work as in PyTensor.

Making the state takes NumPy longer than a small model draws, and the next call only wants the key,
so the state is made when somebody else looks at the generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from threading import Lock
from typing import Any

import numpy as np

_WORD = (1 << 64) - 1
_lock = Lock()


class KeyGenerator(np.random.Generator):
    """A PCG64 generator whose state is a key, until it draws; it copies and pickles as NumPy's own.

    It is no generator yet when it is made: every look at one of its attributes makes it one.
    """

    _key: Any

    def __init__(self, key: object) -> None:
        self._key = key

    def __getattribute__(self, name: str) -> Any:
        """An attribute of NumPy's generator."""
        _complete(self)
        return super().__getattribute__(name)

    def __reduce__(self) -> Any:
        _complete(self)
        return super().__reduce__()

    def __str__(self) -> str:  # ``repr`` calls it
        _complete(self)
        return super().__str__()


def _complete(generator: KeyGenerator) -> None:
    """Make the state of a generator, after which its key may be an old one."""
    if held_key(generator) is None:
        return
    with _lock:
        key = held_key(generator)
        if key is None:
            return
        high, low = (int(word) for word in np.asarray(key))
        bits = np.random.PCG64(0)
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": high << 32 | low, "inc": _MARK},
            "has_uint32": 0,
            "uinteger": 0,
        }
        np.random.Generator.__init__(generator, bits)
        generator._key = None


def held_key(generator: np.random.Generator) -> Any:
    """The key of a generator that nobody has looked at, as it was given; otherwise None."""
    if type(generator) is not KeyGenerator:
        return None
    return object.__getattribute__(generator, "_key")


def key_of_generator(generator: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Two 32-bit words that depend on the whole state of a generator of any kind.

    For the PCG64 generators that `generator_of_key` makes they are the key that made them.
    """
    key = held_key(generator)
    if key is not None:
        return np.asarray(key)
    state = generator.bit_generator.state
    if state["bit_generator"] == "PCG64" and state["state"]["inc"] == _MARK:
        word = state["state"]["state"] & _WORD
    else:
        text = repr(sorted(_flat(state))).encode()
        word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return np.array([word >> 32, word & 0xFFFFFFFF], dtype=np.uint32)


def generator_of_key(key: Any) -> np.random.Generator:
    """A PCG64 generator whose state is the key, two 32-bit words of NumPy or JAX."""
    return KeyGenerator(key)


# The stream that marks a state as made from a key; PCG64 needs an odd number here.
_MARK = int.from_bytes(hashlib.blake2b(b"pytensor_jaxlink", digest_size=15).digest(), "little") | 1


def _flat(state: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """The entries of a nested generator state, arrays as lists of numbers."""
    entries: list[tuple[str, object]] = []
    for name, value in state.items():
        if isinstance(value, Mapping):
            entries += _flat(value, f"{prefix}{name}.")
        else:
            entries.append((prefix + name, np.asarray(value).tolist()))
    return entries
