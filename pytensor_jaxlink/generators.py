"""NumPy generators and JAX keys.

A region draws from a JAX key.  The key is taken from the state of a NumPy generator, and after the
call a generator with the new key as its state takes the old one's place: the generator stays the
one source of truth, so seeding it, copying it and sharing it between functions work as in PyTensor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_WORD = (1 << 64) - 1


def key_of_generator(generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Two 32-bit words that depend on the whole state of a generator of any kind.

    For the PCG64 generators that `generator_of_key` makes they are the key that made them.
    """
    state = generator.bit_generator.state
    if state["bit_generator"] == "PCG64" and state["state"]["inc"] == _MARK:
        word = state["state"]["state"] & _WORD
    else:
        text = repr(sorted(_flat(state))).encode()
        word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return np.array([word >> 32, word & 0xFFFFFFFF], dtype=np.uint32)


def generator_of_key(key: Any) -> np.random.Generator:
    """A PCG64 generator whose state is the key."""
    high, low = (int(word) for word in np.asarray(key))
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 32 | low, "inc": _MARK},
        "has_uint32": 0,
        "uinteger": 0,
    }
    return np.random.Generator(bits)


# The stream that marks a state as made from a key; PCG64 needs an odd number here.
_MARK = int.from_bytes(hashlib.blake2b(b"pytensor_jaxlink", digest_size=15).digest(), "little") | 1


def _flat(state: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The entries of a nested generator state, arrays as lists of numbers."""
    entries: list[tuple[str, Any]] = []
    for name, value in state.items():
        if isinstance(value, Mapping):
            entries += _flat(value, f"{prefix}{name}.")
        else:
            entries.append((prefix + name, np.asarray(value).tolist()))
    return entries
