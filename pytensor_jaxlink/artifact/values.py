"""Values as JSON, and back: plain Python data, arrays, generators and sparse matrices.

A value that is an object with an identity (an array, a generator) is an entry of a table, written
once however often it is referred to, and one object again after loading.  In the JSON

- ``null``, booleans, strings, integers and finite floats stand for themselves,
- an array stands for a tuple,
- an object has one key, which says what it is: the tag of a `Codec`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

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
from pytensor_jaxlink.artifact.documents import Json, Parsed, dump_document, entry_at
from pytensor_jaxlink.artifact.generator_states import read_generator, write_generator
from pytensor_jaxlink.artifact.sparse_matrices import read_sparse, write_sparse
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.trees import a_class

Content = TypeVar("Content")

_LARGEST_REPEATED = 1 << 24  # bytes
_MOST_KEYS = 256
_ITSELF = (type(None), bool, int, str)
_NESTED = (list, dict)


@dataclass(frozen=True)
class Codec:
    """One kind of value, both ways."""

    tag: str
    write: Callable[..., Json]  # from a value and the writer
    read: Callable[..., object]  # from the reader and what stands beside the tag


class Members(Protocol):
    """Where the `.npy` members are."""

    def read(self, name: str) -> memoryview:
        """The bytes of a member."""
        ...


class DataReader:
    """Makes values from JSON and the table of entries of a file.

    ``given`` has large arrays by their checksums, which the file does not hold.
    """

    codecs: Mapping[str, Codec]

    def __init__(
        self,
        container: Members,
        entries: Iterable[Json],
        given: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        self.container, self.given, self.codecs = container, given, CODECS
        self.objects: list[object] = []
        for entry in entries:
            self.objects.append(self.entry(entry))

    def value(self, described: Any) -> Any:
        """The value that some JSON stands for."""
        if type(described) is list:
            value = self.value
            return tuple([value(each) if type(each) in _NESTED else each for each in described])
        if type(described) is not dict:
            return described
        [[tag, content]] = described.items()
        return self.codecs[tag].read(self, content)

    def data(self, place: object) -> Any:
        """An object of the table."""
        return entry_at(self.objects, place, "entry")

    def entry(self, described: Parsed) -> Parsed:
        """The object of an entry."""
        [[kind, content]] = described.items()
        return _ENTRIES[kind](self, content)


class Table(Generic[Content]):
    """Objects by identity: the same object is the same entry."""

    def __init__(self) -> None:
        self.entries: list[Content] = []
        self._places: dict[int, tuple[object, int]] = {}

    @property
    def objects(self) -> Iterator[object]:
        """The objects that have an entry."""
        return (value for value, _ in self._places.values())

    def place(self, value: object, describe: Callable[[], Content]) -> int:
        """The entry of an object, made at the first time."""
        _, place = self._places.get(id(value), (None, None))
        if place is None:
            entry = describe()  # adds what the object refers to, so that it comes before
            place = len(self.entries)
            self.entries.append(entry)
            self._places[id(value)] = value, place  # the object lives as long as its id
        return place


class ValueWriter:
    """Describes values by the codecs of their classes, or of the nearest class above."""

    codecs: Mapping[type, Codec]
    tuples: type | tuple[()] = tuple  # the class whose subclasses are written as tuples too

    def value(self, value: Any) -> Json:
        """A value as JSON.

        Raises
        ------
        ArtifactError
            If it is of a kind that cannot be saved.
        """
        kind = type(value)
        if kind in _ITSELF or (kind is float and math.isfinite(value)):
            return value
        if kind is tuple or isinstance(value, self.tuples):
            return [self.value(each) for each in value]
        codec = self.codec(value)
        return {codec.tag: codec.write(value, self)}

    def codec(self, value: object) -> Codec:
        """The codec of a value."""
        kind = type(value)
        for each in kind.__mro__:
            if each in self.codecs:
                return self.codecs[each]
        # Classes of packages that need not be there, or be imported.
        if hasattr(value, "__jax_array__") or kind.__module__.startswith("jax"):
            return _JAX_ARRAY
        if any(each.__module__.startswith("scipy.sparse") for each in kind.__mro__):
            return _SPARSE
        raise ArtifactError(f"{a_class(value)} cannot be saved: {value!r:.200}")


class DataWriter(ValueWriter):
    """Collects the data of a file: a table of entries, and `.npy` members.

    ``given`` has the checksums of large arrays that its readers have, and the file need not hold.
    """

    def __init__(self, given: Container[str] = ()) -> None:
        self.codecs, self.table, self._given = BY_CLASS, Table[Json](), given
        self.arrays: dict[str, np.ndarray] = {}  # the large ones, by their members
        self._names: dict[str, str] = {}
        self._divided: dict[int, np.ndarray] = {}

    def data(self, value: object, describe: Callable[..., Json]) -> int:
        """The entry of an object; ``describe(value, writer)`` makes it."""
        return self.table.place(value, lambda: describe(value, self))

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
        members = {name: array_member(array) for name, array in self.arrays.items()}
        return {"data.json": [dump_document(self.table.entries)], **members}

    def read(self, name: str) -> memoryview:
        """The bytes of a member, as they will be in the file."""
        return memoryview(b"".join(array_member(self.arrays[name])))

    def array(self, array: np.ndarray) -> Json:
        """The entry of an array."""
        if is_extended(array.dtype):
            bits = array.view(np.dtype(f"u{array.dtype.itemsize}"))
            return {"extended": {"dtype": array.dtype.name, "bits": self.array(bits)}}
        check_dtype(array.dtype, "an array")
        owner = self._divided.get(id(_owner(array)))
        if owner is not None and owner is not array and _is_view(array.nbytes, owner):
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
        return {"array": small_array(array)} if array.nbytes <= SMALL else self._large(array)

    def _large(self, array: np.ndarray) -> Json:
        """The entry of an array that is a member of its own."""
        checksum = digest_of(array_member(array))
        if checksum in self._given:
            return {"given": checksum}
        name = self._name(checksum)
        self.arrays[name] = array
        return {"array": name}

    def _name(self, checksum: str) -> str:
        """The member with a checksum."""
        return self._names.setdefault(checksum, f"arrays/{len(self._names)}.npy")


class Checksums(DataWriter):
    """Describes large arrays by their checksums alone."""

    def _name(self, checksum: str) -> str:
        return checksum


# -- arrays ----------------------------------------------------------------------------------------


def _owner(array: np.ndarray) -> np.ndarray:
    base = array.base
    while base is not None:  # `as_strided` puts an object between an array and its owner
        array = base if isinstance(base, np.ndarray) else array
        base = getattr(base, "base", None)
    return array


def _is_view(size: int, owner: np.ndarray) -> bool:
    """Return True if an array of ``size`` bytes in another's memory is kept as a part of that.

    One that shows the same memory many times could be as large as one likes.
    """
    return size <= max(owner.nbytes, _LARGEST_REPEATED)


def _read_view(reader: DataReader, described: Parsed) -> np.ndarray:
    owner = reader.data(described["of"])
    memory = owner.reshape(-1, order="A")
    shape, strides = tuple(described["shape"]), tuple(described["strides"])
    dtype = plain_dtype(described["dtype"])
    if not _is_view(math.prod(shape) * dtype.itemsize, owner):
        raise ValueError(f"an array of shape {shape} in memory of {owner.nbytes} bytes")
    return np.ndarray(shape, dtype, memory, described["offset"], strides)


def _read_array(reader: DataReader, described: Parsed) -> np.ndarray:
    if isinstance(described, str):
        return array_of_member(reader.container.read(described))
    return array_of_document(described)


_ENTRIES: dict[str, Callable[[DataReader, Parsed], object]] = {
    "array": _read_array,
    "given": lambda reader, checksum: reader.given[checksum],
    "extended": lambda reader, described: reader.entry(described["bits"]).view(
        extended_dtype(described["dtype"])
    ),
    "view": _read_view,
    "generator": read_generator,
    "sparse": read_sparse,
}


# -- the table -------------------------------------------------------------------------------------


def several(tag: str, parts: Callable[..., Iterable[object]], make: Callable[..., object]) -> Codec:
    """The codec of a kind of value that is made of other values."""
    return Codec(
        tag,
        lambda value, writer: [writer.value(part) for part in parts(value)],
        lambda reader, parts: make([reader.value(part) for part in parts]),
    )


def _keys(keys: Iterable[Hashable]) -> list[Hashable]:
    """Keys of a set or a dictionary.

    Python compares each two that have the same hash.  Strings and small integers have their own;
    of others, somebody can give thousands the same.
    """
    keys = list(keys)
    others = sum(type(key) is not str and not _is_small(key) for key in keys)
    if others > _MOST_KEYS:
        raise ValueError(f"{others} keys that are neither text nor small numbers")
    return keys


def _is_small(key: object) -> bool:
    return type(key) is int and abs(key) < 1 << 32


def _in_order(value: Iterable[object]) -> list[object]:
    return sorted(value, key=repr)


def dict_of(pairs: list[tuple[Hashable, object]]) -> dict[Hashable, object]:
    """A dictionary of a file."""
    return dict(zip(_keys(key for key, _ in pairs), [each for _, each in pairs], strict=True))


def _write_scalar(value: np.generic, writer: DataWriter) -> Json:
    check_dtype(value.dtype, "a number")
    return small_array(np.asarray(value))


def _write_dtype(value: np.dtype, writer: DataWriter) -> Json:
    check_dtype(value, "a property")
    return value.str


def _entry(describe: Callable[..., Json]) -> Codec:
    """The codec of objects with an identity: the place of their entry."""
    return Codec(
        "data",
        lambda value, writer: writer.data(value, describe),
        lambda reader, place: reader.data(place),
    )


_JAX_ARRAY = _entry(lambda value, writer: writer.array(np.asarray(value)))
_SPARSE = _entry(write_sparse)

BY_CLASS: Mapping[type, Codec] = {
    float: Codec("float", lambda value, _: float.__str__(value), lambda _, text: float(text)),
    complex: several("complex", lambda each: (each.real, each.imag), lambda two: complex(*two)),
    list: several("list", iter, list),
    dict: several("dict", dict.items, dict_of),
    set: several("set", _in_order, lambda parts: set(_keys(parts))),
    frozenset: several("frozenset", _in_order, lambda parts: frozenset(_keys(parts))),
    slice: several("slice", lambda s: (s.start, s.stop, s.step), lambda parts: slice(*parts)),
    type(...): Codec("ellipsis", lambda *_: True, lambda *_: ...),
    np.dtype: Codec("dtype", _write_dtype, lambda _, text: plain_dtype(text)),
    np.generic: Codec("scalar", _write_scalar, lambda _, parts: array_of_document(parts)[()]),
    np.ndarray: _entry(lambda array, writer: writer.array(array)),
    np.random.Generator: _entry(write_generator),
}
"""How values of each class are written and read."""

CODECS: Mapping[str, Codec] = {codec.tag: codec for codec in BY_CLASS.values()}
