"""The function of a host-executed loop or branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class HostExecuted(Generic[Part]):
    """A loop or branch whose body has regions of its own: the host runs it step by step.

    Attributes
    ----------
    node
        The node of the graph, for errors.
    parts
        Its inner plans with their functions, in the form of the stage: lowered, ready to run, or
        read from a file.
    """

    node: Any
    parts: tuple[Part, ...]
