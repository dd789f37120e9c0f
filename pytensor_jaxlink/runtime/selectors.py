"""The values and shapes that select a compilation of a region, in the words of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytensor_jaxlink.frames import running_line
from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.remedies import Remedy

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.specialisation import Policy

_SHOWN = 4  # values in a warning

Signature = tuple[object, ...]
"""The static values, then the shapes of the arguments."""


def compiled_once_more(
    plan: Plan, region: Region, seen: Sequence[Signature], signature: Signature
) -> str:
    """The text of the log for one more compilation than those that have been seen."""
    changes = [
        f"{name} was {old}, now {new}"
        for name, old, new in zip(_names(plan, region), seen[-1], signature, strict=True)
        if old != new
    ]
    return (
        f"region {region.index} is compiled for the {len(seen) + 1}. time, called "
        f"at {running_line()}: {'; '.join(changes)}"
    )


def limit_reached(
    plan: Plan, region: Region, seen: Sequence[Signature], signature: Signature, policy: Policy
) -> str:
    """The text of the warning where a region is not compiled for another one."""
    history = zip(*seen, strict=True), signature
    values_of = [list(dict.fromkeys([*old, new])) for old, new in zip(*history, strict=True)]
    changing = [
        f"{name} was {', '.join(map(str, values[:_SHOWN]))}, ..."
        for name, values in zip(_names(plan, region), values_of, strict=True)
        if len(values) > 1
    ]
    then = {
        "host": "From now on new ones run on the host, by PyTensor's own implementation.",
        "compile": f"Of further ones the last {policy.limit} used are kept.",
        "error": "",
    }[policy.beyond]
    return (
        f"region {region.index} was compiled {policy.limit} times, which is its "
        f"recompile_limit: {'; '.join(changing)}. {then} {Remedy.PAD.text()}, "
        f"{Remedy.FEWER_SIZES.text()}, or {Remedy.RAISE_LIMIT.text()}."
    ).replace("  ", " ")


def _names(plan: Plan, region: Region) -> list[str]:
    names, lines = plan.names, plan.lines
    return [
        *(f"the value of {names[n]}{_written(lines.get(n))}" for n in region.static),
        *(f"the shape of {names[n]}{_written(lines.get(n))}" for n in region.arguments),
    ]


def _written(line: str | None) -> str:
    return "" if line is None else f" ({line})"
