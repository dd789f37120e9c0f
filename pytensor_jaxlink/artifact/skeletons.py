"""Trees in files: the arguments and results of functions, with a mark in the place of each leaf.

In the JSON a tree is spelled as other values are (see `pytensor_jaxlink.artifact.values`), with
four tags more: ``leaf``, ``constant``, ``ordered`` (an `OrderedDict`) and ``named`` (a named tuple:
its class by name, its fields and its parts).
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.artifact.names import Names
from pytensor_jaxlink.artifact.values import DataReader, DataWriter, Members
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.trees import a_class, fields_of, is_named, parts_of

_DEEPEST = 50  # a dictionary is three levels of the document
_MOST_CLASSES, _MOST_FIELDS = 100, 250  # of named tuples: Python compiles each class


@dataclass(frozen=True)
class Leaf:
    """A value that is given or computed.

    Attributes
    ----------
    place
        Which input or output it is.
    key
        Of a typed key of random bits its implementation; its data are the input or output.
    """

    place: int
    key: str | None = None


@dataclass(frozen=True)
class Constant:
    """A result that is the same in every call."""

    value: object


def is_mark(value: object) -> bool:
    """Return True for a leaf of a skeleton."""
    return isinstance(value, Leaf | Constant)


# -- saving ----------------------------------------------------------------------------------------


def describe_skeleton(skeleton: Any, where: str, depth: int = 0) -> Json:
    """A skeleton as JSON.

    Raises
    ------
    ArtifactError
        If a part cannot be kept; the message says where in the tree it is.
    """
    if depth > _DEEPEST:
        raise ArtifactError(f"{where}: the tree is more than {_DEEPEST} levels deep")
    kind = type(skeleton)
    if kind is Leaf:
        return {"leaf": [skeleton.place, skeleton.key]}
    if kind is Constant:
        return {"constant": plain_value(skeleton.value, where)}
    if skeleton is None:
        return None
    parts = [
        describe_skeleton(part, f"{where}{step}", depth + 1) for step, part in parts_of(skeleton)
    ]
    if kind in (list, tuple):
        return parts if kind is tuple else {"list": parts}
    if kind in (dict, OrderedDict):
        keys = [plain_value(key, f"the key {key!r:.80} of {where}") for key in skeleton]
        pairs = [list(pair) for pair in zip(keys, parts, strict=True)]
        return {"dict" if kind is dict else "ordered": pairs}
    if is_named(kind):
        name = f"{kind.__module__}:{kind.__qualname__}"
        return {"named": {"class": name, "fields": list(fields_of(kind)), "parts": parts}}
    raise ArtifactError(
        f"{where} is {a_class(skeleton)}, which a file cannot make again: "
        "trees of dictionaries, lists, tuples, named tuples and None can be saved"
    )


def plain_value(value: object, where: str) -> Json:
    """Plain data as JSON: no arrays, no objects with an identity.

    Raises
    ------
    ArtifactError
        If it is anything else; the message says where it is.
    """
    others = list(_not_plain(value))
    if others:
        text = f"{where}: {value!r:.80} cannot be kept: {a_class(others[0])} is not plain data"
        raise ArtifactError(text)
    try:
        return _WRITER.value(value)
    except ArtifactError as error:
        raise ArtifactError(f"{where}: {error.text}") from error


_WRITER = DataWriter()
_SINGLE = (type(None), bool, int, float, complex, str, type(...))
_SEVERAL = (tuple, list, set, frozenset)


def _not_plain(value: Any) -> Iterator[object]:
    """The parts that are not plain data."""
    kind = type(value)
    if kind in _SINGLE or isinstance(value, np.generic | np.dtype):
        return
    if kind is slice:
        value = value.start, value.stop, value.step
    elif kind is dict:
        value = *value.keys(), *value.values()
    elif kind not in _SEVERAL:
        yield value
        return
    for part in value:
        yield from _not_plain(part)


# -- loading ---------------------------------------------------------------------------------------


class SkeletonReader(DataReader):
    """Makes skeletons from JSON.

    Parameters
    ----------
    container
        The file.
    names
        The modules that the classes of named tuples may come from.  One of another module is a
        named tuple of the same name and fields that is made here.
    """

    def __init__(self, container: Members, names: Names) -> None:
        super().__init__(container, ())
        self._names = names
        self._classes: dict[tuple[str, ...], type] = {}
        self.tags |= {
            "leaf": lambda reader, content: _leaf(*content),
            "constant": lambda reader, content: Constant(reader.value(content)),
            "ordered": lambda reader, pairs: OrderedDict(reader.value({"dict": pairs})),
            "named": SkeletonReader._named,
        }

    def _named(self, described: Parsed) -> object:
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


def _leaf(place: object, key: object) -> Leaf:
    if type(place) is not int or place < 0 or not isinstance(key, str | None):
        raise ValueError(f"{place!r} is not the number of a leaf")
    return Leaf(place, key)


@cache
def _stand_in(name: str, fields: tuple[str, ...]) -> type:
    """A class of named tuples.  Python checks that name and fields are identifiers."""
    return namedtuple(name, fields)


def marks_of(skeletons: Sequence[object]) -> list[Any]:
    """The leaves of some skeletons, in the order of JAX."""
    return jax.tree_util.tree_leaves(list(skeletons), is_leaf=is_mark)
