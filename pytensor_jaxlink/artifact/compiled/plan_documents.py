"""Plans as JSON, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.plan import (
    CutOff,
    Fetch,
    HostBranch,
    HostLoop,
    HostStep,
    LoopLayout,
    Plan,
    Region,
    Step,
    check_plan,
)

_STEPS = {kind.__name__: kind for kind in (CutOff, Fetch, HostStep, Region, HostLoop, HostBranch)}


def describe_plan(plan: Plan) -> dict[str, Json]:
    """A plan as JSON."""
    return {
        "inputs": plan.inputs,
        "outputs": plan.outputs,
        "constants": plan.constants,
        "steps": [_describe_step(step) for step in plan.steps],
        "names": plan.names,
        "generators": sorted(plan.generators),
        "sparse": sorted(plan.sparse),
    }


def _describe_step(step: Step) -> Json:
    described = {
        field.name: getattr(step, field.name)
        for field in fields(step)
        if field.name not in ("body", "inner", "layout", "operations")
    }
    match step:
        case HostLoop():
            described["inner"] = [describe_plan(step.body)]
            described["layout"] = vars(step.layout)
        case HostBranch():
            described["inner"] = [describe_plan(plan) for plan in step.inner]
        case Region():
            described["operations"] = step.operations
    return {type(step).__name__: described}


def plan_of(document: object) -> Plan:
    """The plan that `describe_plan` described, checked.

    Raises
    ------
    AssertionError, KeyError, TypeError, ValueError
        If it is no plan, or one that cannot be run.
    """
    plan = _plan(document)
    check_plan(plan)
    return plan


def _plan(document: Parsed) -> Plan:
    count = len(document["names"])
    return Plan(
        inputs=_numbers(document["inputs"], count),
        outputs=_numbers(document["outputs"], count),
        constants=_numbers(document["constants"], count),
        steps=tuple(_step(step, count) for step in document["steps"]),
        names=tuple(map(str, document["names"])),
        generators=frozenset(_numbers(document["generators"], count)),
        sparse=frozenset(_numbers(document["sparse"], count)),
    )


def _step(document: Parsed, count: int) -> Step:
    [[kind, described]] = document.items()
    described = dict(described)
    for name in ("arguments", "results", "static"):
        if name in described:
            described[name] = _numbers(described[name], count)
    match kind:
        case "Fetch":
            [described["value"]] = _numbers([described["value"]], count)
        case "CutOff":
            described["index"] = tuple(map(str, described["index"]))
        case "HostLoop":
            [body] = described.pop("inner")
            layout = {name: _tuples(value) for name, value in described["layout"].items()}
            described |= {"body": _plan(body), "layout": LoopLayout(**layout)}
            described["measured"] = tuple(described["measured"])
        case "HostBranch":
            first, second = described["inner"]
            described["inner"] = (_plan(first), _plan(second))
        case "Region":
            described["operations"] = tuple(map(str, described["operations"]))
    return _STEPS[kind](**described)


def _numbers(values: Sequence[int], count: int) -> tuple[int, ...]:
    if not all(type(value) is int and 0 <= value < count for value in values):
        raise ValueError(f"{values!r:.100} are not numbers of values")
    return tuple(values)


def _tuples(value: object) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
