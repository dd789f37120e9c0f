"""A plan with what it needs to run, in the form of the stage: lowered, read from a file, ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pytensor_jaxlink.plan.schema import Plan

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
