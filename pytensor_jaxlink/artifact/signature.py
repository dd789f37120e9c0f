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
    # As in `pytensor.shared`: how a value that is put in is converted.
    strict: bool = False
    allow_downcast: bool | None = None


@dataclass(frozen=True)
class SavedTrees:
    """The trees that a function takes and gives.

    A tree is spelled as in `pytensor_jaxlink.artifact.skeletons`: its leaves are the numbers of
    inputs and outputs.
    """

    arguments: tuple[Parsed, ...]  # those given by position
    keywords: dict[str, Parsed]
    outputs: Parsed
    # the parameters of the Python function: name, kind, and whether there is a default
    parameters: tuple[tuple[str, int, bool], ...] | None
    names: tuple[str, ...]  # of the leaves of the arguments
    x64: bool  # whether 64-bit types were on
    pure: bool  # whether the caller gives the state and gets the new one, as with `jaxify`


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
    trees: SavedTrees | None = None  # None where arguments are values
