"""Values from JSON: plain Python data, arrays, generators and sparse matrices.

A value that is an object with an identity (an array, a generator) is an entry of a table, written
once however often it is referred to, and one object again after loading.  In the JSON

- ``null``, booleans, strings, integers and finite floats stand for themselves,
- an array stands for a tuple,
- an object has one key, which says what it is.

`pytensor_jaxlink.artifact.describing` writes what is read here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from pytensor_jaxlink.artifact.arrays import (
    array_of_document,
    array_of_member,
    extended_dtype,
    plain_dtype,
)

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

_LARGEST_REPEATED = 1 << 24  # bytes
_MOST_KEYS = 256
_MOST_WORDS = 64  # of a seed: what is longer, nobody has


class Members(Protocol):
    """Where the `.npy` members are."""

    def read(self, name: str) -> memoryview:
        """The bytes of a member."""
        ...


Tag = Callable[[Any, Any], Any]
"""Makes a value from what stands beside its key; the first argument is the reader."""


class DataReader:
    """Makes values from JSON.

    Parameters
    ----------
    container
        The file, whose `.npy` members are read.
    entries
        The table of its data.
    """

    tags: dict[str, Tag]

    def __init__(self, container: Members, entries: Iterable[Any]) -> None:
        self.container = container
        self.tags = dict(_TAGS)
        self.objects: list[Any] = []
        for entry in entries:
            self.objects.append(self._entry(entry))

    def value(self, described: Any) -> Any:
        """The value that some JSON stands for."""
        if isinstance(described, list):
            return tuple(map(self.value, described))
        if not isinstance(described, dict):
            return described
        [[tag, content]] = described.items()
        return self.tags[tag](self, content)

    def data(self, place: Any) -> Any:
        """An object of the table."""
        if type(place) is not int or not 0 <= place < len(self.objects):
            raise ValueError(f"a reference to {place!r}, which is no entry")
        return self.objects[place]

    def _entry(self, entry: Any) -> Any:
        [[kind, content]] = entry.items()
        return _ENTRIES[kind](self, content)

    def array(self, described: Any) -> np.ndarray[Any, Any]:
        """An array, from its member or from the document."""
        if isinstance(described, str):
            return array_of_member(self.container.read(described))
        return array_of_document(described)


def is_view(size: int, owner: np.ndarray[Any, Any]) -> bool:
    """Return True if an array of ``size`` bytes in another's memory is kept as a part of that.

    One that shows the same memory many times could be as large as one likes.
    """
    return size <= max(owner.nbytes, _LARGEST_REPEATED)


def _view(reader: DataReader, described: Any) -> Any:
    owner = reader.data(described["of"])
    memory = owner.reshape(-1, order="A")
    shape, strides = tuple(described["shape"]), tuple(described["strides"])
    dtype = plain_dtype(described["dtype"])
    if not is_view(math.prod(shape) * dtype.itemsize, owner):
        raise ValueError(f"an array of shape {shape} in memory of {owner.nbytes} bytes")
    return np.ndarray(shape, dtype, memory, described["offset"], strides)


def _read_generator(reader: DataReader, described: Any) -> np.random.Generator:
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


def _keys(keys: list[Any]) -> list[Any]:
    """Keys of a set or a dictionary.

    Python compares each two that have the same hash.  Strings and small integers have their own;
    of others, somebody can give thousands the same.
    """
    others = sum(type(key) is not str and not _is_small(key) for key in keys)
    if others > _MOST_KEYS:
        raise ValueError(f"{others} keys that are neither text nor small numbers")
    return keys


def _is_small(key: Any) -> bool:
    return type(key) is int and abs(key) < 1 << 32


def _read_sparse(reader: DataReader, described: Any) -> Any:
    # Imported where there is one: SciPy's package costs a tenth of what importing JAX does.
    from pytensor_jaxlink.artifact.sparse import read_sparse

    return read_sparse(reader, described)


def _extended(reader: DataReader, described: Any) -> np.ndarray[Any, Any]:
    [[kind, bits]] = described["bits"].items()
    return _ENTRIES[kind](reader, bits).view(extended_dtype(described["dtype"]))


_ENTRIES: dict[str, Tag] = {
    "array": DataReader.array,
    "extended": _extended,
    "view": _view,
    "generator": _read_generator,
    "sparse": _read_sparse,
}
_TAGS: dict[str, Tag] = {
    "data": lambda reader, place: reader.data(place),
    "float": lambda reader, text: float(text),
    "complex": lambda reader, parts: complex(*map(reader.value, parts)),
    "list": lambda reader, parts: list(map(reader.value, parts)),
    "dict": lambda reader, pairs: dict(
        zip(
            _keys([reader.value(key) for key, _ in pairs]),
            [reader.value(each) for _, each in pairs],
            strict=True,
        )
    ),
    "set": lambda reader, parts: set(_keys([reader.value(part) for part in parts])),
    "frozenset": lambda reader, parts: frozenset(_keys([reader.value(part) for part in parts])),
    "slice": lambda reader, parts: slice(*map(reader.value, parts)),
    "ellipsis": lambda reader, content: ...,
    "dtype": lambda reader, text: plain_dtype(text),
    "scalar": lambda reader, described: array_of_document(described)[()],
}
