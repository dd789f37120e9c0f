"""Records as JSON, and back: the fields of dataclasses, each of the type that it declares.

Fields that comparisons leave out are not written.  Where a field may hold records of several
classes, the name of the class is the one key of what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from pytensor_jaxlink.artifact.documents import Json, Parsed

Type = Parsed
"""A class, or a form of `typing`."""

Read = Callable[[Parsed], Parsed]


def describe(record: object) -> dict[str, Json]:
    """A record as JSON."""
    types = _types_of(type(record))
    return {name: _described(getattr(record, name), kind) for name, kind in types.items()}


def _described(value: Parsed, kind: Type) -> Json:
    if is_dataclass(value):
        document = describe(value)
        return {type(value).__name__: document} if _classes(kind) else document
    if isinstance(value, tuple):
        return [_described(each, get_args(kind)[0]) for each in value]
    return sorted(value) if isinstance(value, frozenset) else value


@cache
def _types_of(kind: Type) -> Mapping[str, Type]:
    """The types of the fields that are written."""
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind) if field.compare}


def _classes(kind: Type) -> dict[str, Type]:
    """The classes of records among several types; none where there is no choice."""
    parts: tuple[Type, ...] = get_args(kind)
    found = {part.__name__: part for part in parts if hasattr(part, "__dataclass_fields__")}
    return found if len(found) > 1 else {}


# -- reading ---------------------------------------------------------------------------------------


@cache
def reader(kind: Type) -> Read:
    """The function that makes values of a type from JSON.

    It raises `KeyError`, `TypeError` or `ValueError` where a value is of another type, or a field
    is missing or unknown.
    """
    if is_dataclass(kind):
        return partial(_record, kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _of_union(kind)
    if origin in (tuple, frozenset):
        return _of_entries(kind)
    if origin is Literal:
        return _of_one(kind, lambda document: document in parts)
    return _of_one(kind, lambda document: kind is Parsed or type(document) is (origin or kind))


def _record(kind: Type, document: Parsed) -> Parsed:
    types = _types_of(kind)
    return kind(**{name: reader(types[name])(each) for name, each in document.items()})


def _of_union(kind: Type) -> Read:
    classes, parts = _classes(kind), get_args(kind)
    if classes:
        return partial(_of_class, classes)
    compound = [reader(part) for part in parts if get_origin(part) or is_dataclass(part)]
    if not compound:
        return _of_one(kind, lambda document: type(document) in parts)
    [read] = compound
    return lambda document: None if document is None else read(document)


def _of_class(classes: Mapping[str, Type], document: Parsed) -> Parsed:
    [[name, content]] = document.items()
    return _record(classes[name], content)


def _of_entries(kind: Type) -> Read:
    """The reader of tuples and sets, whose entries have one type, or each a type of its own."""
    several, (first, *others) = get_origin(kind), get_args(kind)
    every = reader(first) if others in ([], [...]) else None
    each = () if every else [*map(reader, (first, *others))]

    def read(document: Parsed) -> Parsed:
        if type(document) is not list:
            raise ValueError(f"{document!r:.80} is no {kind}")
        if every is not None:
            return several(map(every, document))
        return several(one(part) for one, part in zip(each, document, strict=True))

    return read


def _of_one(kind: Type, accepts: Callable[[Parsed], bool]) -> Read:
    def read(document: Parsed) -> Parsed:
        if not accepts(document):
            raise ValueError(f"{document!r:.80} is no {kind}")
        return document

    return read
