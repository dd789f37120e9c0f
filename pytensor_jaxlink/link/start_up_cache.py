"""The interface of a start-up cache, and how the linker gets one.

The cache itself is part of `pytensor_jaxlink.artifact`, which is built on top of the linker, so it
is handed down when the package registers with PyTensor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph

Compiled = tuple[Any, tuple[int, ...]]
"""A compiled graph, and the positions of the inputs that it overwrites."""


class StartUpEntry(Protocol):
    """A cache's entry for one graph."""

    @property
    def found(self) -> bool:
        """True where an earlier process compiled the graph, so that it need not be rewritten."""
        ...

    def compiled(self, fgraph: FunctionGraph, compile_now: Callable[[], Compiled]) -> Compiled:
        """The compiled graph, from the cache where it is there, else compiled and kept."""
        ...


FindEntry = Callable[
    [FunctionGraph, Mapping[int, int], Mode, Sequence[Any], Sequence[Any]], StartUpEntry
]
"""Finds the entry for a graph as the user gave it, which nobody changes.

It takes, for each output that is an update, the position of its input; the mode that rewrites and
compiles the graph; and what the function says of inputs and outputs (`In`, `Out`).
"""


def _start_of_process() -> float:
    """The time when this process started; where nobody tells, the time of this import.

    It may come out a fiftieth of a second late.  Python takes longer to start.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) + 2
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, LookupError, AttributeError):
        age = 0
    return time.time() - age


STARTED = _start_of_process()
"""Files that were changed later may hold other code than what this process has imported.

A process that is forked later has it from the one that imported this.
"""

_finder: list[FindEntry] = []


def provide(find: FindEntry) -> None:
    """Say how entries are found."""
    _finder[:] = [find]


def finder() -> FindEntry:
    """The function that finds entries."""
    return _finder[0]


class Postponed:
    """Something that is done once, when it is needed."""

    def __init__(self, action: Callable[[], object] | None = None) -> None:
        self._action, self._lock = action, RLock()

    def __call__(self) -> None:
        """Do it, unless it has been done."""
        with self._lock:
            action, self._action = self._action, None
            if action is not None:
                action()

    def __reduce__(self) -> Any:
        return Postponed, ()  # who pickles what it belongs to has it done before
