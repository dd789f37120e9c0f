"""JSON, strictly: what the writer can write and nothing else, within bounds on size and depth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A value that a document may hold."""

Parsed: TypeAlias = Any
"""A part of a document of a file: who reads it finds out whether it is what it is to be."""

_LARGEST = 32 << 20  # bytes
_DEEPEST = 200  # a loop executed by the host that is inside of another one adds six
_MOST_PARTS = 1_000_000  # arrays and objects; each costs up to 25 times the bytes that spell it


def dump_document(document: object) -> bytes:
    """A document as bytes, the same for the same document."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode()


def parse_document(content: bytes) -> Parsed:
    """The document in some bytes."""
    if len(content) > _LARGEST or content.count(b"[") + content.count(b"{") > _MOST_PARTS:
        raise ArtifactError(
            f"a document of {len(content)} bytes, which is more than this version of "
            "pytensor_jaxlink reads",
            code=Code.DAMAGED,
        )
    try:
        found = json.loads(content, parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ArtifactError("the document is nested too deeply", code=Code.DAMAGED) from error
    except ValueError as error:
        raise ArtifactError(f"not a document: {error}", code=Code.DAMAGED) from error
    if _is_deep(found):  # how deep Python itself goes depends on its version and settings
        raise ArtifactError("the document is nested too deeply", code=Code.DAMAGED)
    return found


def _is_deep(document: object) -> bool:
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(_DEEPEST):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            return False
    return True


def _parts(document: dict[str, object] | list[object]) -> list[dict[str, object] | list[object]]:
    parts = document.values() if isinstance(document, dict) else document
    return [part for part in parts if isinstance(part, dict | list)]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
