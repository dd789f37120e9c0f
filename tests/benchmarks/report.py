"""Tables, in Markdown, and the page they are written to."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parents[2] / "docs"
PACKAGES = ("pytensor", "jax", "numba", "numpy")


@dataclass(frozen=True)
class Table:
    """A title, what is measured, and cells."""

    title: str
    about: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as it is printed and written: columns aligned, numbers to the right."""
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = [_line(self.head, widths), _rule(widths)]
        lines += [_line(row, widths) for row in self.rows]
        return f"## {self.title}\n\n{self.about}\n\n" + "\n".join(lines) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1])] + [cell.rjust(width) for cell, width in others]
    return f"| {' | '.join(padded)} |"


def _rule(widths: Sequence[int]) -> str:
    first, *others = widths
    return f"| {' | '.join(['-' * first] + ['-' * (width - 1) + ':' for width in others])} |"


def times(ratio: float) -> str:
    """A ratio, for a cell."""
    return f"{ratio:.2f}"


def duration(seconds: float) -> str:
    """A time with three digits, for a cell."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def geometric_mean(ratios: Iterable[float]) -> float:
    """The mean that does not depend on which candidate is the reference; NaN is left out."""
    return float(np.exp(np.nanmean(np.log(list(ratios)))))


def machine() -> str:
    """The machine, the versions and the date, in a sentence."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}; "
        f"{time.strftime('%d %B %Y').lstrip('0')}."
    )


def _processor() -> str:
    models = Path("/proc/cpuinfo")
    if models.exists():
        for line in models.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
