"""Trees in files: the arguments and results of functions, with a mark in the place of each leaf.

In the JSON a tree is spelled as other values are (see `pytensor_jaxlink.artifact.values`), with
four tags more: ``leaf``, ``constant``, ``ordered`` (an `OrderedDict`) and ``named`` (a named tuple:
its class by name, its fields and its parts).
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Never

import jax
import numpy as np

from pytensor_jaxlink.artifact.documents import Json, Parsed, dump_document
from pytensor_jaxlink.artifact.names import Names
from pytensor_jaxlink.artifact.values import (
    BY_CLASS,
    Codec,
    DataReader,
    Members,
    ValueWriter,
    dict_of,
    several,
)
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.trees import a_class, fields_of, is_named, is_node

_DEEPEST = 50  # a dictionary is three levels of the document
_MOST_CLASSES, _MOST_FIELDS = 100, 250  # of named tuples: Python compiles each class


@dataclass(frozen=True)
class Leaf:
    """A value that is given or computed."""

    place: int  # of the input or output
    key: str | None = None  # of a typed key of random bits its implementation; its data are given


@dataclass(frozen=True)
class Constant:
    """A result that is the same in every call."""

    value: object


def implementation_of(value: Any) -> str | None:
    """The implementation of an array of typed keys, None for other arrays."""
    is_key = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
    return str(jax.random.key_impl(value)) if is_key else None


def key_data_of(value: jax.Array) -> jax.Array:
    """The data of an array of typed keys; other arrays as they are."""
    return value if implementation_of(value) is None else jax.random.key_data(value)


def with_implementation(value: jax.Array, implementation: str | None) -> jax.Array:
    """An array as `key_data_of` was given it."""
    if implementation is None:
        return value
    return jax.random.wrap_key_data(value, impl=implementation)


def is_mark(value: object) -> bool:
    """Return True for a leaf of a skeleton."""
    return isinstance(value, Leaf | Constant)


def marks_of(skeletons: Sequence[object]) -> list[Any]:
    """The leaves of some skeletons, in the order of JAX."""
    return jax.tree_util.tree_leaves(list(skeletons), is_leaf=is_mark)


# -- saving ----------------------------------------------------------------------------------------


class _PlainWriter(ValueWriter):
    """Describes plain data: no arrays, no objects with an identity, no classes above."""

    codecs, tuples = BY_CLASS, ()

    def codec(self, value: object) -> Codec:
        if type(value) in self.codecs or isinstance(value, np.generic | np.dtype):
            return super().codec(value)
        return self.data(value)

    def data(self, value: object, describe: object = None) -> Never:
        raise ArtifactError(f"{a_class(value)} is not plain data")


class _SkeletonWriter(_PlainWriter):
    """Describes skeletons."""

    def codec(self, value: object) -> Codec:
        if is_named(type(value)):
            return _NAMED
        return _OF_SKELETONS.get(type(value)) or super().codec(value)


def describe_skeleton(skeleton: object, where: str) -> Json:
    """A skeleton as JSON.

    Raises
    ------
    ArtifactError
        If a part cannot be kept; the message says where in the tree it is.
    """
    nodes, _ = jax.tree_util.tree_flatten_with_path(
        skeleton, is_leaf=lambda tree: not is_node(tree)
    )
    for path, node in nodes:
        place = where + jax.tree_util.keystr(path)
        if len(path) > _DEEPEST:
            raise ArtifactError(f"{where}: the tree is more than {_DEEPEST} levels deep")
        for step in path:
            key = getattr(step, "key", None)
            plain_value(key, f"the key {key!r:.80} of {where}")
        if isinstance(node, Constant):
            plain_value(node.value, place)
        elif not isinstance(node, Leaf):
            raise ArtifactError(
                f"{place} is {a_class(node)}, which a file cannot make again: "
                "trees of dictionaries, lists, tuples, named tuples and None can be saved"
            )
    return _SKELETONS.value(skeleton)


def plain_value(value: object, where: str) -> Json:
    """Plain data as JSON.

    Raises
    ------
    ArtifactError
        If it is anything else; the message says where it is.
    """
    try:
        return _PLAIN.value(value)
    except ArtifactError as error:
        raise ArtifactError(f"{where}: {value!r:.80} cannot be kept: {error.text}") from error


def plain_text(value: object, where: str) -> str:
    """Plain data as text, by which code is found: equal for the same value of the same type."""
    return dump_document(plain_value(value, where)).decode()


# -- loading ---------------------------------------------------------------------------------------


class SkeletonReader(DataReader):
    """Makes skeletons from JSON.

    ``names`` has the modules that the classes of named tuples may come from.  One of another module
    is a named tuple of the same name and fields that is made here.
    """

    def __init__(self, container: Members, names: Names) -> None:
        super().__init__(container, ())
        self._names = names
        self._classes: dict[tuple[str, ...], type] = {}
        own = (_NAMED, *_OF_SKELETONS.values())
        self.codecs = {**self.codecs, **{codec.tag: codec for codec in own}}

    def named(self, described: Parsed) -> object:
        """A named tuple."""
        key = described["class"], *described["fields"]
        if key not in self._classes:
            if len(key) > _MOST_FIELDS or len(self._classes) == _MOST_CLASSES:
                raise ValueError("too many named tuples, or too many fields")
            self._classes[key] = self._class(*key)
        return self._classes[key](*map(self.value, described["parts"]))

    def _class(self, name: str, *fields: str) -> type:
        if not self._names.allows(name):
            return _stand_in(name.rpartition(":")[2].rpartition(".")[2], fields)
        kind = self._names.of_class(name, (tuple,))
        if not is_named(kind) or fields_of(kind) != fields:
            raise ValueError(f"{name} is not a named tuple of {', '.join(fields)} here")
        return kind


@cache
def _stand_in(name: str, fields: tuple[str, ...]) -> type:
    """A class of named tuples.  Python checks that name and fields are identifiers."""
    return namedtuple(name, fields)


def _read_leaf(place: object, key: object) -> Leaf:
    if type(place) is not int or place < 0 or not isinstance(key, str | None):
        raise ValueError(f"{place!r} is not the number of a leaf")
    return Leaf(place, key)


def _write_named(value: Any, writer: ValueWriter) -> Json:
    kind, parts = type(value), [writer.value(part) for part in value]
    name = f"{kind.__module__}:{kind.__qualname__}"
    return {"class": name, "fields": list(fields_of(kind)), "parts": parts}


_NAMED = Codec("named", _write_named, SkeletonReader.named)
_OF_SKELETONS = {
    Leaf: Codec(
        "leaf", lambda leaf, _: [leaf.place, leaf.key], lambda _, content: _read_leaf(*content)
    ),
    Constant: Codec(
        "constant",
        lambda constant, _: _PLAIN.value(constant.value),
        lambda reader, content: Constant(reader.value(content)),
    ),
    OrderedDict: several("ordered", OrderedDict.items, lambda pairs: OrderedDict(dict_of(pairs))),
}
_PLAIN, _SKELETONS = _PlainWriter(), _SkeletonWriter()
