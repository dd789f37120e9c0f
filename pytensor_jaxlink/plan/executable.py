"""A plan with what it needs to run, in the form of the stage: lowered, read from a file, ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pytensor_jaxlink.plan.schema import HostBranch, HostLoop, Plan, Region

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class Executable:
    """A plan with its functions and constants.

    Attributes
    ----------
    plan
        The plan.
    functions
        The function of each step: of a region ``(static, *arrays) -> (results, conditions)``, of a
        host step ``(*values) -> results``, of a host-executed loop or branch `HostExecuted`, of
        others None.
    constants
        The data of the plan's constants.
    """

    plan: Plan
    functions: tuple[Any, ...]
    constants: Mapping[int, object]

    @property
    def regions(self) -> Iterator[tuple[Region, Any]]:
        """The regions with their functions, those of loops and branches included."""
        for step, function in zip(self.plan.steps, self.functions, strict=True):
            match step:
                case Region():
                    yield step, function
                case HostLoop() | HostBranch():
                    for part in function.parts:
                        yield from part.regions
                case _:
                    pass


@dataclass(frozen=True, eq=False)
class HostExecuted(Generic[Part]):
    """A loop or branch whose body has regions of its own: the host runs it step by step.

    Attributes
    ----------
    node
        The node of the graph, for errors.
    parts
        Its inner plans with what they need.
    """

    node: Any
    parts: tuple[Part, ...]
