"""A plan as a picture shows it: its steps, and the values that cross between host and device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from pytensor.graph.type import Type

from pytensor_jaxlink.graph import UNKNOWN, user_location
from pytensor_jaxlink.lowering import Lowered
from pytensor_jaxlink.plan import (
    CutOff,
    Fetch,
    HostBranch,
    HostLoop,
    HostStep,
    Region,
    Step,
    how_many,
)
from pytensor_jaxlink.runtime.profile_table import shown_bytes

Kind = Literal["region", "host step", "fetch", "cut", "loop", "branch", "sizes"]


@dataclass(frozen=True)
class Value:
    """A value that steps exchange.

    Attributes
    ----------
    name
        Its name, or a short expression.
    kind
        Its type, as ``float64[?, 3]``; the dtype alone where no length is known.
    size
        Its bytes; those of an element where the graph leaves a length open.
    """

    name: str
    kind: str
    size: str

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.name, self.kind, self.size)))

    @property
    def brief(self) -> str:
        """The value as an entry of a list."""
        return f"{self.name} ({self.size or self.kind})"


@dataclass(frozen=True)
class Box:
    """One step.

    Attributes
    ----------
    kind, title
        What it is, and a line about it.
    operations, static
        Of a region: what it runs, and what selects a specialisation.
    where
        ``file:line`` of the user's code, of what runs on the host.
    reads, writes
        The numbers of its values.
    to_host, to_device
        Those that are copied to the host for it, and those that go from there to the device.
    inner
        Of a loop: its body.  Of a branch: what runs if the condition holds, and if not.
    """

    kind: Kind
    title: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    operations: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    where: str = ""
    to_host: tuple[int, ...] = ()
    to_device: tuple[int, ...] = ()
    inner: tuple[Sketch, ...] = ()


@dataclass(frozen=True)
class Sketch:
    """The steps of a plan, in the order in which they run, with the values that they exchange.

    Arithmetic on sizes is one box, `sizes`, however many steps it has.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    boxes: tuple[Box, ...]
    values: dict[int, Value]

    def named(self, numbers: Iterable[int]) -> tuple[Value, ...]:
        """The values with these numbers."""
        return tuple(self.values[number] for number in numbers)


def sketch_of(lowered: Lowered) -> Sketch:
    """The picture of a plan, with those of the loops and branches in it."""
    plan, view = lowered.plan, lowered.view
    on_host = {*plan.constants}
    from_host: set[int] = set()
    boxes: list[Box] = []
    for step, function in zip(plan.steps, lowered.functions, strict=True):
        if isinstance(step, HostStep) and step.folded:
            on_host.update(step.writes)
            _add_sizes(boxes, step)
            continue
        inner = tuple(map(sketch_of, getattr(function, "parts", ())))
        boxes.append(
            Box(
                step.kind,
                _title(step, lowered),
                step.reads,
                step.writes,
                step.operations if isinstance(step, Region) else (),
                tuple(map(view.expression_of, step.static)) if isinstance(step, Region) else (),
                "" if isinstance(step, Region) else _where(lowered, step),
                tuple(number for number in _needed_on_host(step) if number not in on_host),
                tuple(n for n in step.reads if n in from_host and isinstance(step, Region)),
                inner,
            )
        )
        if not isinstance(step, Region):
            on_host.update(step.writes, _needed_on_host(step))
            from_host.update(() if isinstance(step, Fetch) else step.writes)
    used = {*plan.inputs, *plan.outputs}
    used.update(*((*box.reads, *box.writes) for box in boxes))
    return Sketch(
        plan.inputs,
        plan.outputs,
        tuple(boxes),
        {n: value_of(plan.names[n], view.variables[n].type) for n in sorted(used)},
    )


def _add_sizes(boxes: list[Box], step: HostStep) -> None:
    """Add arithmetic on sizes to the box of the arithmetic before it, or begin one."""
    reads, writes, count = step.reads, step.writes, 1
    if boxes and boxes[-1].kind == "sizes":
        last = boxes.pop()
        reads = (*last.reads, *(n for n in reads if n not in {*last.reads, *last.writes}))
        writes, count = (*last.writes, *writes), len(last.operations) + 1
        operations = (*last.operations, step.operation)
    else:
        operations = (step.operation,)
    title = f"{how_many(count, 'operation')} on sizes"
    boxes.append(Box("sizes", title, reads, writes, operations))


def _title(step: Step, lowered: Lowered) -> str:
    if isinstance(step, Fetch):
        return lowered.plan.names[step.value]
    if isinstance(step, CutOff | HostStep) and step.writes:
        return lowered.view.operation_of(lowered.view.producer[step.writes[0]])
    return step.title


def _where(lowered: Lowered, step: Step) -> str:
    """The user's line; of a region the first line of the values that it gives."""
    view = lowered.view
    made_by = [view.producer[number] for number in step.writes]
    lines = dict.fromkeys(user_location(view, node) for node in made_by if node >= 0)
    found = [line for line in lines if line != UNKNOWN]
    return f"{found[0]} and {len(found) - 1} more" if len(found) > 1 else "".join(found)


def titles_of(lowered: Lowered) -> dict[int, tuple[str, str]]:
    """The titles and lines of steps by their `id`, those inside of loops and branches too."""
    found: dict[int, tuple[str, str]] = {}
    for step, function in zip(lowered.plan.steps, lowered.functions, strict=True):
        found[id(step)] = _title(step, lowered), _where(lowered, step)
        for part in getattr(function, "parts", ()):
            found |= titles_of(part)
    return found


def _needed_on_host(step: Step) -> tuple[int, ...]:
    """The values that a step needs as NumPy arrays."""
    match step:
        case Region():
            return ()  # sizes: they are there
        case HostLoop():
            parts = step.layout.sort_inputs(step.arguments)
            found = [parts.steps, *parts.sequences, *parts.scattered, *parts.buffers, *parts.kept]
            return tuple(dict.fromkeys(found))
        case HostBranch():
            return step.arguments[:1]
    return tuple(dict.fromkeys(step.reads))


def value_of(name: str, kind: Type) -> Value:
    """A value of a type."""
    shape, dtype = getattr(kind, "shape", None), getattr(kind, "dtype", None)
    if not isinstance(dtype, str):  # a list has the type of its entries there
        return Value(name, type(kind).__name__.removesuffix("Type").lower(), "")
    lengths = ["?" if length is None else str(length) for length in shape or ()]
    known = f"[{', '.join(lengths)}]" if {*lengths} - {"?"} else ""
    text = f"{getattr(kind, 'format', '')} {dtype}{known}".strip()
    return Value(name, text, "" if hasattr(kind, "format") else _size(shape or (), dtype))


def _size(shape: tuple[int | None, ...], dtype: Any) -> str:
    """The bytes of an array, or of an element where a length is open."""
    each = np.dtype(dtype).itemsize
    if None in shape:
        return f"{shown_bytes(each)} an element"
    return shown_bytes(prod(length for length in shape if length is not None) * each)
