"""The table of remedies: for each, programs that print it, and that it mends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytensor_jaxlink.remedies import Remedy

Case = Callable[[], Iterator[str]]
"""Yields what a program prints, in which the remedy stands, and then runs the mended program."""

CASES: dict[Remedy, list[tuple[Case, dict[str, str]]]] = {}


def case(remedy: Remedy, **names: str) -> Callable[[Case], Case]:
    """Put a case into the table; ``names`` are those that the text is filled with."""

    def register(function: Case) -> Case:
        CASES.setdefault(remedy, []).append((function, names))
        return function

    return register


def error_of(run: Callable[[], Any], kind: Any = Exception) -> str:
    """The text of an error, with its notes."""
    with pytest.raises(kind) as caught:
        run()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
