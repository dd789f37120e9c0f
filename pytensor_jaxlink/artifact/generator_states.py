"""Random generators as JSON: the words of their states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.errors import ArtifactError

if TYPE_CHECKING:
    from pytensor_jaxlink.artifact.values import DataReader, DataWriter

BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    )
}
"""The sources of random bits that can be saved."""
_MOST_WORDS = 64  # of a seed: what is longer, nobody has


def write_generator(generator: np.random.Generator, writer: DataWriter) -> Json:
    """A generator as the entry of a table."""
    bits = generator.bit_generator
    if type(bits).__name__ not in BIT_GENERATORS:
        raise ArtifactError(f"a generator over {type(bits).__name__} cannot be saved")
    seed = bits.seed_seq
    known = isinstance(seed, np.random.SeedSequence)
    words = (seed.entropy, seed.spawn_key, seed.pool_size, seed.n_children_spawned) if known else ()
    return {
        "generator": {
            "kind": type(bits).__name__,
            "state": writer.value(_plain_state(bits.state)),
            "seed": writer.value(_plain_state(words)),
        }
    }


def _plain_state(state: object) -> object:
    """A state without NumPy's integers; its arrays are copied, so that the table has them once."""
    match state:
        case dict():
            return {key: _plain_state(each) for key, each in state.items()}
        case list() | tuple():
            return tuple(map(_plain_state, state))
        case np.integer():
            return int(state)
    return state


def read_generator(reader: DataReader, described: Parsed) -> np.random.Generator:
    """The generator of an entry."""
    seed = reader.value(described["seed"])
    sequence = None
    if seed:
        entropy, spawn_key, pool_size, spawned = seed
        lengths = [len(words) for words in (entropy, spawn_key) if isinstance(words, tuple)]
        if max([*lengths, pool_size]) > _MOST_WORDS:
            raise ValueError("the seed of a generator is too long")
        sequence = np.random.SeedSequence(
            entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=spawned
        )
    bits: Any = BIT_GENERATORS[described["kind"]](0 if sequence is None else sequence)
    bits.state = reader.value(described["state"])
    return np.random.Generator(bits)
