"""Values as JSON, and back: plain Python data, arrays, generators and sparse matrices.

A value that is an object with an identity (an array, a generator) is an entry of a table, written
once however often it is referred to, and one object again after loading.  In the JSON

- ``null``, booleans, strings, integers and finite floats stand for themselves,
- an array stands for a tuple,
- an object has one key, which says what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import singledispatch
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from pytensor_jaxlink.artifact.arrays import (
    SMALL,
    array_member,
    array_of_document,
    array_of_member,
    check_dtype,
    extended_dtype,
    is_extended,
    plain_dtype,
    small_array,
)
from pytensor_jaxlink.artifact.container import Member, digest_of
from pytensor_jaxlink.artifact.documents import Json, Parsed, dump_document
from pytensor_jaxlink.errors import ArtifactError

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
    given
        Large arrays by their checksums, which the file does not hold.
    """

    tags: dict[str, Tag]

    def __init__(
        self,
        container: Members,
        entries: Iterable[Json],
        given: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        self.container, self.given = container, given
        self.tags = dict(_TAGS)
        self.objects: list[object] = []
        for entry in entries:
            self.objects.append(self._entry(entry))

    def value(self, described: object) -> Any:
        """The value that some JSON stands for."""
        if isinstance(described, list):
            return tuple(map(self.value, described))
        if not isinstance(described, dict):
            return described
        [[tag, content]] = described.items()
        return self.tags[tag](self, content)

    def data(self, place: object) -> Any:
        """An object of the table."""
        if type(place) is not int or not 0 <= place < len(self.objects):
            raise ValueError(f"a reference to {place!r}, which is no entry")
        return self.objects[place]

    def _entry(self, entry: Parsed) -> Any:
        [[kind, content]] = entry.items()
        return _ENTRIES[kind](self, content)

    def array(self, described: object) -> np.ndarray:
        """An array, from its member or from the document."""
        if isinstance(described, str):
            return array_of_member(self.container.read(described))
        return array_of_document(described)


def is_view(size: int, owner: np.ndarray) -> bool:
    """Return True if an array of ``size`` bytes in another's memory is kept as a part of that.

    One that shows the same memory many times could be as large as one likes.
    """
    return size <= max(owner.nbytes, _LARGEST_REPEATED)


def _view(reader: DataReader, described: Parsed) -> Any:
    owner = reader.data(described["of"])
    memory = owner.reshape(-1, order="A")
    shape, strides = tuple(described["shape"]), tuple(described["strides"])
    dtype = plain_dtype(described["dtype"])
    if not is_view(math.prod(shape) * dtype.itemsize, owner):
        raise ValueError(f"an array of shape {shape} in memory of {owner.nbytes} bytes")
    return np.ndarray(shape, dtype, memory, described["offset"], strides)


def _read_generator(reader: DataReader, described: Parsed) -> np.random.Generator:
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


def _is_small(key: object) -> bool:
    return type(key) is int and abs(key) < 1 << 32


def _read_sparse(reader: DataReader, described: Parsed) -> object:
    # Imported where there is one: SciPy's package costs a tenth of what importing JAX does.
    from pytensor_jaxlink.artifact.sparse import read_sparse

    return read_sparse(reader, described)


def _extended(reader: DataReader, described: Parsed) -> np.ndarray:
    [[kind, bits]] = described["bits"].items()
    return _ENTRIES[kind](reader, bits).view(extended_dtype(described["dtype"]))


_ENTRIES: dict[str, Tag] = {
    "array": DataReader.array,
    "given": lambda reader, checksum: reader.given[checksum],
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


# -- writing ---------------------------------------------------------------------------------------


class Table:
    """Objects by identity: the same object is the same entry."""

    def __init__(self) -> None:
        self.entries: list[Json] = []
        self._places: dict[int, tuple[object, int]] = {}

    @property
    def objects(self) -> Iterator[object]:
        """The objects that have an entry."""
        return (value for value, _ in self._places.values())

    def place(self, value: object, describe: Callable[[], Json]) -> int:
        """The entry of an object, made at the first time."""
        _, place = self._places.get(id(value), (None, None))
        if place is None:
            entry = describe()  # adds what the object refers to, so that it comes before
            place = len(self.entries)
            self.entries.append(entry)
            self._places[id(value)] = value, place  # the object lives as long as its id
        return place


class DataWriter:
    """Collects the data of a file.

    Parameters
    ----------
    given
        The checksums of large arrays that its readers have, and the file need not hold.

    Attributes
    ----------
    table
        Arrays, generators and sparse matrices.
    members
        The contents of the `.npy` members.
    """

    def __init__(self, given: Container[str] = ()) -> None:
        self.table, self._given = Table(), given
        self.members: dict[str, Member] = {}
        self._names: dict[str, str] = {}
        self._divided: dict[int, np.ndarray] = {}

    def value(self, value: object) -> Json:
        """A value as JSON."""
        return rule_for(describe_value, type(value))(value, self)

    def data(self, value: object, describe: Callable[[], Json]) -> dict[str, int]:
        """A reference to an object of the table."""
        return {"data": self.table.place(value, describe)}

    def keep_overlaps(self, values: Iterable[object]) -> None:
        """Note which arrays are parts of the same memory, so that they still are after loading."""
        parts: dict[int, list[np.ndarray]] = {}
        for value in {id(v): v for v in values if isinstance(v, np.ndarray)}.values():
            parts.setdefault(id(_owner(value)), []).append(value)
        for arrays in parts.values():
            owner = _owner(arrays[0])
            if len(arrays) > 1 and (owner.flags.c_contiguous or owner.flags.f_contiguous):
                self._divided[id(owner)] = owner

    def file(self) -> dict[str, Member]:
        """The members of a file that hold the data."""
        return {"data.json": [dump_document(self.table.entries)], **self.members}

    def read(self, name: str) -> memoryview:
        """The bytes of a member, as they will be in the file."""
        return memoryview(b"".join(self.members[name]))

    def array(self, array: np.ndarray) -> Json:
        """The entry of an array."""
        if is_extended(array.dtype):
            bits = array.view(np.dtype(f"u{array.dtype.itemsize}"))
            return {"extended": {"dtype": array.dtype.name, "bits": self.array(bits)}}
        check_dtype(array.dtype, "an array")
        owner = self._divided.get(id(_owner(array)))
        if owner is not None and owner is not array and is_view(array.nbytes, owner):
            start = owner.__array_interface__["data"][0]
            return {
                "view": {
                    "of": self.table.place(owner, lambda: self.array(owner)),
                    "offset": array.__array_interface__["data"][0] - start,
                    "strides": list(array.strides),
                    "shape": list(array.shape),
                    "dtype": array.dtype.str,
                }
            }
        if array.nbytes <= SMALL:
            return {"array": small_array(array)}
        return self.large(array)

    def large(self, array: np.ndarray) -> Json:
        """The entry of an array that is a member of its own."""
        member = array_member(array)
        checksum = digest_of(member)
        if checksum in self._given:
            return {"given": checksum}
        name = self._names.setdefault(checksum, f"arrays/{len(self._names)}.npy")
        self.members[name] = member
        return {"array": name}


def _owner(array: np.ndarray) -> np.ndarray:
    base = array.base
    while base is not None:  # `as_strided` puts an object between an array and its owner
        array = base if isinstance(base, np.ndarray) else array
        base = getattr(base, "base", None)
    return array


def rule_for(table: Any, kind: type) -> Callable[..., Any]:
    """The entry of a table for a class, or for the nearest class that it is derived from.

    `singledispatch` looks also for abstract classes that a class is not derived from.  PyTensor's
    Ops and Types are such, and a question to one of them goes through all that are derived from it:
    a tenth of a second for the classes of a model.
    """
    registered = table.registry
    return next(registered[each] for each in kind.__mro__ if each in registered)


@singledispatch
def describe_value(value: object, writer: DataWriter) -> Json:
    """A value as JSON.  Other parts of the library add their own kinds of values.

    Raises
    ------
    ArtifactError
        If it is of a kind that cannot be saved.
    """
    if hasattr(value, "__jax_array__") or type(value).__module__.startswith("jax"):
        return writer.data(value, lambda: writer.array(np.asarray(value)))
    kind = type(value)
    raise ArtifactError(
        f"a value of type {kind.__module__}.{kind.__qualname__} cannot be saved: {value!r:.200}"
    )


@describe_value.register(type(None))
@describe_value.register(bool)
@describe_value.register(str)
@describe_value.register(int)
def _plain(value: str | int | None, writer: DataWriter) -> Json:
    if type(value) not in (type(None), bool, str, int):
        raise ArtifactError(f"a value of type {type(value)} cannot be saved: {value!r:.200}")
    return value


@describe_value.register(float)
def _float(value: float, writer: DataWriter) -> Json:
    if isinstance(value, np.generic):
        return _scalar(value, writer)  # NumPy's float64 is also a Python float
    return float(value) if np.isfinite(value) else {"float": float.__str__(value)}


@describe_value.register(complex)
def _complex(value: complex, writer: DataWriter) -> Json:
    if isinstance(value, np.generic):
        return _scalar(value, writer)
    return {"complex": [writer.value(value.real), writer.value(value.imag)]}


@describe_value.register(tuple)
def _tuple(value: tuple, writer: DataWriter) -> Json:
    return [writer.value(each) for each in value]


@describe_value.register(list)
def _list(value: list, writer: DataWriter) -> Json:
    return {"list": [writer.value(each) for each in value]}


@describe_value.register(dict)
def _dict(value: dict, writer: DataWriter) -> Json:
    return {"dict": [[writer.value(key), writer.value(each)] for key, each in value.items()]}


@describe_value.register(set)
def _set(value: set, writer: DataWriter) -> Json:
    return {"set": [writer.value(each) for each in sorted(value, key=repr)]}


@describe_value.register(frozenset)
def _frozenset(value: frozenset, writer: DataWriter) -> Json:
    return {"frozenset": [writer.value(each) for each in sorted(value, key=repr)]}


@describe_value.register(slice)
def _slice(value: slice, writer: DataWriter) -> Json:
    return {"slice": [writer.value(each) for each in (value.start, value.stop, value.step)]}


@describe_value.register(type(Ellipsis))
def _ellipsis(value: object, writer: DataWriter) -> Json:
    return {"ellipsis": True}


@describe_value.register(np.dtype)
def _dtype(value: np.dtype, writer: DataWriter) -> Json:
    check_dtype(value, "a property")
    return {"dtype": value.str}


@describe_value.register(np.generic)
def _scalar(value: np.generic, writer: DataWriter) -> Json:
    check_dtype(value.dtype, "a number")
    return {"scalar": small_array(np.asarray(value))}


@describe_value.register(np.ndarray)
def _array(value: np.ndarray, writer: DataWriter) -> Json:
    return writer.data(value, lambda: writer.array(value))


@describe_value.register(np.random.Generator)
def _generator(value: np.random.Generator, writer: DataWriter) -> Json:
    return writer.data(value, lambda: _describe_generator(value, writer))


def _describe_generator(generator: np.random.Generator, writer: DataWriter) -> Json:
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
