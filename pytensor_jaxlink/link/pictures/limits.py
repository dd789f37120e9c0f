"""How much of a plan a picture shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from pytensor_jaxlink.plan import how_many

Item = TypeVar("Item")

STEPS = 40
"""Steps of a plan; fewer of a plan inside of another."""
NAMES = 6
"""Values and operations in one line."""
LETTERS = 80
"""Letters of one name."""
OPEN = 3
"""Breaks that are unfolded; a reader unfolds the others."""
DEPTH = 3
"""Plans inside of plans."""


def short(text: str) -> str:
    """A name that fits into a line."""
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}..."


def listed(names: Iterable[object]) -> str:
    """The first of several names, and how many there are more."""
    found = [short(str(name)) for name in names]
    rest = len(found) - NAMES
    return ", ".join(found[:NAMES]) + (f" and {rest} more" if rest > 0 else "")


def shown_and_hidden(
    items: Sequence[Item], depth: int = 1
) -> tuple[Sequence[Item], Sequence[Item]]:
    """The steps (or breaks) of a plan that are shown, and those that are not."""
    most = STEPS // depth**2
    return items[:most], items[most:]


def counted(hidden: Sequence[object], what: str = "step") -> str:
    """How many are not shown, in words."""
    return how_many(len(hidden), f"more {what}")
