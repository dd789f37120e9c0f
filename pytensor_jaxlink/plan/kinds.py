"""The types of values, as those know them who have no PyTensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ARRAYS = ("array", "number")
"""The kinds of what JAX has as an array."""


def fits(shape: Sequence[object], lengths: Sequence[int | None]) -> bool:
    """Return True if a shape has these lengths; of one that is open JAX knows only a name."""
    return len(shape) == len(lengths) and all(
        length is None or not isinstance(found, int) or found == length
        for found, length in zip(shape, lengths, strict=True)
    )


@dataclass(frozen=True)
class Kind:
    """The type of a value, without PyTensor."""

    kind: Literal["array", "number", "generator", "sparse", "other"]
    text: str  # PyTensor's text for the type
    # of arrays, numbers and sparse matrices; None where a length is open
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None
    format: str | None = None  # of sparse matrices

    @property
    def has_classes(self) -> bool:
        """True if JAX takes values of several classes as one: matrices, scalars."""
        return self.kind == "sparse" or self.shape == ()
