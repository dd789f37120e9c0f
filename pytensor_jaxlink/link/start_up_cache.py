"""The interface of a start-up cache, and how the linker gets one.

The cache itself is part of `pytensor_jaxlink.artifact`, which is built on top of the linker, so it
is handed down when the package registers with PyTensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
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


class StartUpCache(Protocol):
    """A start-up cache."""

    def entry(
        self,
        given: FunctionGraph,
        updated: Mapping[int, int],
        mode: Mode,
        inputs: Sequence[object],
        outputs: Sequence[object],
    ) -> StartUpEntry:
        """The entry for a graph as the user gave it.

        Parameters
        ----------
        given
            The graph, which nobody changes.
        updated
            For each output that is an update the position of its input.
        mode
            What rewrites and compiles it.
        inputs, outputs
            What the function says of them (`In`, `Out`).
        """
        ...


OpenCache = Callable[[str | PathLike[str], int], StartUpCache]

_opener: list[OpenCache] = []


def provide(open_cache: OpenCache) -> None:
    """Say how a cache is opened, by its folder and the number of bytes that it may have."""
    _opener[:] = [open_cache]


def open_cache(folder: str | PathLike[str], limit: int) -> StartUpCache:
    """The cache in a folder."""
    [opened] = _opener
    return opened(folder, limit)


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
