"""JSON, strictly: what the writer can write and nothing else, within bounds on size and depth."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A value that a document may hold."""

Parsed: TypeAlias = Any
"""A part of a document of a file: who reads it finds out whether it is what it is to be."""

_LARGEST = 32 << 20  # bytes
_DEEPEST = 200  # a loop executed by the host that is inside of another one adds six
_MOST_PARTS = 1_000_000  # arrays and objects; each costs up to 25 times the bytes that spell it
_STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\xff\xff")  # as 8-bit integers: 1 and -1
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")


Entry = TypeVar("Entry")


def entry_at(entries: Sequence[Entry], place: object, name: str) -> Entry:
    """The entry that a document refers to by its number; raises `ValueError` if there is none."""
    if type(place) is not int or not 0 <= place < len(entries):
        raise ValueError(f"a reference to {place!r}, which is no {name}")
    return entries[place]


def dump_document(document: object) -> bytes:
    """A document as bytes, the same for the same document."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode()


def parse_document(content: bytes) -> Parsed:
    """The document in some bytes."""
    parts = content.count(b"[") + content.count(b"{")
    if len(content) > _LARGEST or parts > _MOST_PARTS:
        raise ArtifactError(
            f"a document of {len(content)} bytes, which is more than this version of "
            "pytensor_jaxlink reads",
            code=Code.DAMAGED,
        )
    # Python's own bound depends on its version and settings.
    if parts > _DEEPEST and _depth(content) > _DEEPEST:
        raise ArtifactError("the document is nested too deeply", code=Code.DAMAGED)
    try:
        text = content.decode()
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except ValueError as error:
        raise ArtifactError(f"not a document: {error}", code=Code.DAMAGED) from error


def _depth(content: bytes) -> int:
    brackets = _STRING.sub(b"", content).translate(_STEPS, _NO_BRACKETS)
    return np.frombuffer(brackets, np.int8).cumsum(dtype=np.int32).max(initial=0)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
