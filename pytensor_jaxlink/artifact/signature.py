"""The inputs, outputs and state of a saved function: what people read of the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from pytensor_jaxlink.artifact.documents import Json, Parsed


@dataclass(frozen=True)
class Kind:
    """The type of a value, without PyTensor."""

    kind: str  # ``"array"``, ``"number"``, ``"generator"``, ``"sparse"`` or ``"other"``
    text: str  # PyTensor's text for the type
    # of arrays, numbers and sparse matrices; None where a length is open
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None
    format: str | None = None  # of sparse matrices


@dataclass(frozen=True)
class Input:
    """An input of a function, given by the caller or kept between calls."""

    name: str | None
    type: Kind
    # the number of the cell of the file's state that it reads, for a shared variable; else None
    cell: int | None = None
    # its value where the caller gives none, as JSON (see `pytensor_jaxlink.artifact.values`)
    default: Sequence[Json] | None = None
    updated: bool = False  # whether a call leaves a new value in it
    # As in `pytensor.In`: how its value is converted, and its memory used.
    strict: bool = False
    allow_downcast: bool | None = None
    borrow: bool = True
    mutable: bool = False


@dataclass(frozen=True)
class Output:
    """An output of a function."""

    name: str | None
    type: Kind
    borrow: bool = False


@dataclass(frozen=True)
class Cell:
    """A shared variable: a value that functions of the file read and update."""

    name: str | None
    type: Kind
    value: Json


@dataclass(frozen=True)
class Signature:
    """How a function is called."""

    inputs: tuple[Input, ...]  # those of the caller first, then the shared variables
    outputs: tuple[Output, ...]
    form: str  # ``"one"`` for a single output, ``"list"``, or ``"none"``
    name: str | None
    trust_input: bool  # whether arguments are taken as they are
    # those of `JAXLinker` that say how it runs, and ``compiler_options`` to show them to people
    options: dict[str, Json]
    # the tags of the rewrites: those included, excluded and required
    rewrites: tuple[tuple[str, ...], ...]
    # how trees are given and returned, where they are: see
    # `pytensor_jaxlink.artifact.compiled.calling`.  None where arguments are values.
    trees: Parsed = None


def to_document(record: Signature | Cell) -> dict[str, Json]:
    """A record as JSON."""
    return asdict(record)


def signature_of(document: Parsed) -> Signature:
    """The signature in a manifest."""
    return Signature(
        inputs=tuple(_record(Input, each) for each in document["inputs"]),
        outputs=tuple(_record(Output, each) for each in document["outputs"]),
        form=_one_of(document["form"], ("one", "list", "none")),
        name=document["name"],
        trust_input=document["trust_input"] is True,
        options=dict(document["options"]),
        rewrites=tuple(map(tuple, document["rewrites"])),
        trees=document.get("trees"),  # files of before do not have it
    )


def cell_of(document: object) -> Cell:
    """A cell in a manifest."""
    return _record(Cell, document)


def _record(record: type, document: Parsed) -> Any:
    names = {field.name for field in fields(record)}
    if set(document) != names:
        raise ValueError(f"a {record.__name__} has the fields {sorted(names)}")
    kind = dict(document["type"])
    kind["kind"] = _one_of(kind["kind"], ("array", "number", "generator", "sparse", "other"))
    shape = kind["shape"]
    kind["shape"] = None if shape is None else tuple(shape)
    return record(**{**document, "type": Kind(**kind)})


def _one_of(value: object, values: Sequence[str]) -> str:
    if value not in values:
        raise ValueError(f"{value!r} is not one of {', '.join(values)}")
    return str(value)
