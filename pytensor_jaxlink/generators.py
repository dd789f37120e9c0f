"""NumPy generators and JAX keys.

A region draws from a JAX key.  The key is taken from the state of a NumPy generator, and after the
call a generator with the new key as its state takes the old one's place: the generator stays the
one source of truth, so seeding it, copying it and sharing it between functions work as in PyTensor.

Making the state takes NumPy longer than a small model draws, and the next call only wants the key,
so the state is made when somebody else looks at the generator.

Nobody waits for a key that JAX is computing, because the next call can begin without it.  As long
as it is not there, a generator holds on to the one whose place it takes: should the computation
fail, the generator is still where that one was.
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
    _before: np.random.Generator | None
    _age: int

    def __init__(self, key: object) -> None:
        self._key, self._before, self._age = key, None, 0

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
        key = _settled(generator)
        if key is None:
            return
        high, low = (int(word) for word in np.asarray(key))
        bits = np.random.PCG64(np.random.SeedSequence([high, low]))  # of which `spawn` makes others
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": high << 32 | low, "inc": _MARK},
            "has_uint32": 0,
            "uinteger": 0,
        }
        np.random.Generator.__init__(generator, bits)
        generator._key = None


def held_key(generator: np.random.Generator) -> Any:
    """The key of a generator that nobody has looked at, as it was given; otherwise None.

    JAX may still be computing it.
    """
    if type(generator) is not KeyGenerator:
        return None
    key = _get(generator, "_key")
    if _get(generator, "_before") is not None and key.is_ready():
        return _settled(generator)
    return key


def take_place(old: object, new: object) -> None:
    """Have a generator, whose key JAX may be computing, take the place of another one."""
    if type(new) is not KeyGenerator or not isinstance(old, np.random.Generator):
        return
    if new is old or not hasattr(_get(new, "_key"), "is_ready"):
        return  # JAX is not computing it
    new._before = old
    if type(old) is KeyGenerator:
        age = _get(old, "_age")
        if age < _PENDING:
            new._age = age + 1
        else:
            _settled(old)


def _settled(generator: KeyGenerator) -> Any:
    """The key of a generator when it is there, or that of the one before if computing it fails."""
    key, before = _get(generator, "_key"), _get(generator, "_before")
    if before is None:
        return key
    try:
        key.block_until_ready()
    except Exception:  # the outputs of that call raise it where they are read
        key = key_of_generator(before)
    generator._key, generator._before = key, None
    return key


_get = object.__getattribute__

_PENDING = 64
"""Calls; after as many somebody waits, so that few generators hold on to others."""


def key_of_generator(generator: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Two 32-bit words that depend on the whole state of a generator of any kind.

    For the PCG64 generators that `generator_of_key` makes they are the key that made them.
    """
    key = _settled(generator) if type(generator) is KeyGenerator else None
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
