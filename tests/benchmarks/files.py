"""``python -m tests.benchmarks.files``: how many of our files does a small function cross?"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

import pytensor_jaxlink

PACKAGE = str(Path(pytensor_jaxlink.__file__).parent)
X = np.arange(3.0)


@dataclass
class Crossing:
    """The calls of functions of ours.

    Attributes
    ----------
    files
        How many calls enter each file.
    changes
        How often the next call is in another file than the last.
    """

    files: Counter[str] = field(default_factory=Counter)
    changes: int = 0

    def __str__(self) -> str:
        return f"{len(self.files)} files, {self.files.total()} calls, {self.changes} changes"


@contextmanager
def counting() -> Iterator[Crossing]:
    """Count the calls inside the block.  The bodies of modules and classes are no calls."""
    found, last = Crossing(), ""

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal last
        code = frame.f_code
        path = code.co_filename
        if event != "call" or not path.startswith(PACKAGE) or code.co_name == "<module>":
            return
        file = path.removeprefix(PACKAGE)[1:]
        found.files[file] += 1
        found.changes += file != last
        last = file

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def build() -> Any:
    """The function."""
    x = pt.dvector("x")
    return pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")


def save_load_and_call(function: Any, folder: Path) -> None:
    """Save it, and call what is loaded."""
    pytensor_jaxlink.save(function, folder / "f.jaxlink")
    pytensor_jaxlink.load(folder / "f.jaxlink")(X)


def measured() -> dict[str, Crossing]:
    """The figures of a process in which everything has been imported."""
    with tempfile.TemporaryDirectory() as path:
        folder, function = Path(path), build()
        function(X)
        tasks: dict[str, Callable[[], Any]] = {
            "build": build,
            "save, load and call": lambda: save_load_and_call(function, folder),
            "warm call": lambda: function(X),
        }
        figures = {}
        for name, task in tasks.items():
            task()  # what is found out once a process
            with counting() as figures[name]:
                task()
    return figures


def main() -> None:
    """Print the figures, and the files with their calls."""
    for name, crossing in measured().items():
        print(f"{name}: {crossing}")  # noqa: T201
        if "--files" in sys.argv:
            for file, calls in sorted(crossing.files.items()):
                print(f"    {calls:5} {file}")  # noqa: T201


if __name__ == "__main__":
    main()
