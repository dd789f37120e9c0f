"""The inputs, outputs and state of a saved function: what people read of the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.plan import Kind


@dataclass(frozen=True)
class Input:
    """An input of a function, given by the caller or kept between calls."""

    name: str | None
    type: Kind
    # the number of the cell of the file's state that it reads, for a shared variable; else None
    cell: int | None = None
    # its value where the caller gives none, as JSON (see `pytensor_jaxlink.artifact.values`)
    default: tuple[Parsed, ...] | None = None
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
    value: Parsed


@dataclass(frozen=True)
class Signature:
    """How a function is called."""

    inputs: tuple[Input, ...]  # those of the caller first, then the shared variables
    outputs: tuple[Output, ...]
    form: Literal["one", "list", "none"]  # "one" is a single output
    name: str | None
    trust_input: bool  # whether arguments are taken as they are
    # those of `JAXLinker` that say how it runs, and ``compiler_options`` to show them to people
    options: dict[str, Parsed]
    # the tags of the rewrites: those included, excluded and required
    rewrites: tuple[tuple[str, ...], ...]
    # how trees are given and returned, where they are: see
    # `pytensor_jaxlink.artifact.compiled.calling`.  None where arguments are values.
    trees: Parsed = None
