"""Open dimensions: whether the shapes of a call belong to a family of shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOUND = re.compile(r"([A-Za-z_][A-Za-z0-9_]*) >= ([0-9]+)")

Dimensions = Sequence[int | str]


def why_not(
    families: Sequence[Dimensions], constraints: Sequence[str], arrays: Sequence[Any]
) -> str | None:
    """Why the shapes of some arrays do not belong to the families, or None if they may.

    What is more than a name or a number (``2*n + 1``) is left to JAX, which solves for it.
    """
    text = f"shapes {', '.join(map(shown, families)) or 'of nothing'}"
    if constraints:
        text += f" with {', '.join(constraints)}"
    found: dict[str, int] = {}
    for family, array in zip(families, arrays, strict=True):
        shape = np.shape(array)
        if len(shape) != len(family):
            return text
        for expected, length in zip(family, shape, strict=True):
            if isinstance(expected, str):
                matches = not _NAME.fullmatch(expected) or _binds(found, expected, length)
            else:
                matches = expected == length
            if not matches:
                return text
    for constraint in constraints:
        bound = _BOUND.fullmatch(constraint)
        if bound and bound[1] in found and found[bound[1]] < int(bound[2]):
            return text
    return None


def mismatch(
    families: Sequence[Dimensions], arrays: Sequence[Any], names: Sequence[str]
) -> str | None:
    """The defect of the shapes of some arrays beside each other, or None."""
    found: dict[str, tuple[int, str]] = {}
    for family, array, name in zip(families, arrays, names, strict=True):
        shape = np.shape(array)
        if len(shape) != len(family):
            return f"{name} has {len(shape)} dimensions and not {len(family)}"
        for axis, (expected, length) in enumerate(zip(family, shape, strict=True)):
            where = f"axis {axis} of {name}"
            if isinstance(expected, int) and expected != length:
                return f"{where} has length {length} and not {expected}"
            if not isinstance(expected, str) or not _NAME.fullmatch(expected):
                continue
            other, place = found.setdefault(expected, (length, where))
            if other != length:
                return f"{where} has length {length}, {place} has {other}, and they must be equal"
    return None


def _binds(found: dict[str, int], name: str, length: Any) -> bool:
    if isinstance(length, int) and length < 1:
        return False  # JAX takes it that open dimensions are not empty
    return found.setdefault(name, length) == length


def shown(family: Dimensions) -> str:
    """A family of shapes as text."""
    return f"({', '.join(map(str, family))}{',' if len(family) == 1 else ''})"
