"""A plan with what every way of running it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytensor_jaxlink.plan import HostBranch, HostExecuted, HostLoop, HostStep, Plan, Region, Step
from pytensor_jaxlink.runtime.constants import Constants
from pytensor_jaxlink.runtime.specialisation import CompiledRegion, Policy, Resizing
from pytensor_jaxlink.runtime.stats import Stats


@dataclass(frozen=True, eq=False)
class Runnable:
    """A plan with its functions.

    Attributes
    ----------
    plan
        What to run.
    functions
        Those of its steps: of a region a `CompiledRegion`, or, where nothing is compiled, what was
        lowered; of a loop or branch `HostExecuted`; of a host step what was lowered; of a fetch
        None.
    constants
        Its constants.
    shared
        The inputs that several regions take as arrays, and the host does not read.  They are moved
        to the device once; where nothing is compiled, none are.
    stats, policy
        What is counted, and how regions are compiled.
    jit
        Whether they are, or run operation by operation.
    """

    plan: Plan
    functions: tuple[Any, ...]
    constants: Constants
    shared: tuple[int, ...]
    stats: Stats
    policy: Policy
    jit: bool

    @classmethod
    def of(
        cls,
        plan: Plan,
        functions: Sequence[Any],
        constants: Mapping[int, Any],
        stats: Stats,
        policy: Policy,
        *,
        jit: bool,
        resizing: Resizing | None = None,
    ) -> Runnable:
        """The plan with what was lowered for its steps; see `Executor`."""

        def ready(step: Step, function: Any) -> Any:
            match step:
                case Region() if jit:
                    return CompiledRegion(plan, step, function, policy, stats, resizing)
                case HostLoop() | HostBranch():
                    pairs = zip(step.inner, function.parts, strict=True)
                    return HostExecuted(
                        function.node,
                        tuple(
                            cls.of(inner, part.functions, part.constants, stats, policy, jit=jit)
                            for inner, part in pairs
                        ),
                    )
                case _:
                    return function

        steps = zip(plan.steps, functions, strict=True)
        return cls(
            plan,
            tuple(ready(step, function) for step, function in steps),
            Constants(plan, constants, on_device=jit),
            _taken_by_several_regions(plan) if jit else (),
            stats,
            policy,
            jit,
        )


def read_on_host(step: Step) -> tuple[int, ...]:
    """The values that a step needs on the host."""
    return step.static if isinstance(step, Region) else step.reads


def static_of(ready: Runnable) -> set[int]:
    """The values from which specialisations are selected, or the sizes that select them."""
    found = {number for region in ready.plan.own_regions for number in region.static}
    for step, function in zip(ready.plan.steps, ready.functions, strict=True):
        by_shape = getattr(function, "reads_shape_only", False)
        if isinstance(step, HostStep) and step.folded and not by_shape:
            found.update(step.arguments)
    return found


def _taken_by_several_regions(plan: Plan) -> tuple[int, ...]:
    on_host = {number for step in plan.steps for number in read_on_host(step)}
    taken = Counter(number for region in plan.own_regions for number in region.arguments)
    return tuple(
        number
        for number in plan.inputs
        if taken[number] > 1 and number not in on_host and number not in plan.generators
    )
