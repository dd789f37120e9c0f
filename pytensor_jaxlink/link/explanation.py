"""Regions, graph breaks and their remedies: `f.explain()`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

from pytensor_jaxlink.analysis import NodeFacts
from pytensor_jaxlink.catalogue import Code, ObstacleKind
from pytensor_jaxlink.graph import GraphView, serves, user_location
from pytensor_jaxlink.link.pictures.dot import as_dot
from pytensor_jaxlink.link.pictures.page import as_html
from pytensor_jaxlink.link.pictures.terminal import as_rich
from pytensor_jaxlink.link.sketch import Sketch, Value, sketch_of, value_of
from pytensor_jaxlink.lowering import Lowered
from pytensor_jaxlink.partition import Cut, Partition
from pytensor_jaxlink.plan import Plan, how_many
from pytensor_jaxlink.remedies import split
from pytensor_jaxlink.rewriting import Avoided
from pytensor_jaxlink.runtime import Stats

TO_HOST, TO_DEVICE = "transfer to host", "transfer to device"


@dataclass(frozen=True)
class Break:
    """One graph break.

    Attributes
    ----------
    op
        The Op that cannot be part of a region, or that needs the value.
    operation
        The same as a short expression.
    kind
        One of the values of `ObstacleKind`.
    code
        The code of the reason: ``python -m pytensor_jaxlink explain PJL111`` shows its page.
    reason
        Why.
    remedy
        Changes of which each would remove the break; empty where none is known.
    where
        ``file:line`` of the user's code, or ``"<unknown>"``.
    part_of
        The name of the nearest variable that the operation is computed for, or None.
    value
        The variable that is transferred to the host for JAX to know it, or None for a host step.
    transfers
        What the break transfers to the host: gathers, where it is spread over several devices.
    """

    op: str
    operation: str
    kind: str
    code: str
    reason: str
    where: str
    remedy: str
    part_of: str | None = None
    value: str | None = None
    transfers: tuple[Value, ...] = ()

    @property
    def remedies(self) -> tuple[str, ...]:
        """The remedies, one by one; two breaks of one inner graph may have the same."""
        return tuple(dict.fromkeys(split(self.remedy)))

    @property
    def label(self) -> str:
        """The kind and the code, which stand behind the operation."""
        return f"({self.kind}) [{self.code}]"

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The break as labels and texts, which every form of the explanation shows."""
        return (
            ("where", _place(self.where, self.part_of)),
            ("why", self.reason),
            *zip(("remedy", *["or"] * len(self.remedies)), self.remedies, strict=False),
            *((TO_HOST, str(value)) for value in self.transfers),
        )

    def __str__(self) -> str:
        lines = [f"  {label}: {text}" for label, text in self.lines]
        return "\n".join([f"{self.operation} {self.label}", *lines])


@dataclass(frozen=True)
class CallbackSummary:
    """One operation that JAX calls on the host, from inside a region.

    Attributes
    ----------
    op
        The Op.
    operation
        The same as a short expression.
    code
        The code of callbacks: ``python -m pytensor_jaxlink explain PJL504`` shows its page.
    reason
        Why JAX cannot run it.
    where
        ``file:line`` of the user's code, or ``"<unknown>"``.
    part_of
        The name of the nearest variable that the operation is computed for, or None.
    takes, gives
        What is transferred to the host, and back to the device, each time it runs.
    """

    op: str
    operation: str
    code: str
    reason: str
    where: str
    part_of: str | None
    takes: tuple[Value, ...]
    gives: tuple[Value, ...]

    @property
    def label(self) -> str:
        """The code, which stands behind the operation."""
        return f"[{self.code}]"

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The callback as labels and texts, which every form of the explanation shows."""
        return (
            ("where", _place(self.where, self.part_of)),
            ("why", self.reason),
            *((TO_HOST, f"{value}, each time it runs") for value in self.takes),
            *((TO_DEVICE, f"{value}, each time it runs") for value in self.gives),
        )


@dataclass(frozen=True)
class RegionSummary:
    """One JIT region: its operations, and the values that select a specialisation of it."""

    operations: tuple[str, ...]
    static: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """How a function runs on JAX, for people and for programs (`to_dict`).

    ``print`` gives text, a notebook shows a picture of the plan, `show` and `rich.print` a page in
    the terminal, `to_dot` what Graphviz draws.  `sketch` is what the pictures are made from.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> from pytensor_jaxlink import explain
    >>> x = pt.vector("x")
    >>> explanation = explain([pt.exp(x).sum()])
    >>> explanation.graph_count, explanation.graph_break_count
    (1, 0)
    """

    regions: tuple[RegionSummary, ...]
    breaks: tuple[Break, ...]
    static_inputs: tuple[str, ...]
    plan: Plan
    sketch: Sketch
    failures: tuple[str, ...] = ()
    rewritten: tuple[Avoided, ...] = ()
    callbacks: tuple[CallbackSummary, ...] = ()
    fallbacks: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    @property
    def graph_count(self) -> int:
        """The number of regions."""
        return len(self.regions)

    @property
    def graph_break_count(self) -> int:
        """The number of graph breaks."""
        return len(self.breaks)

    def to_dict(self) -> dict[str, Any]:
        """The whole explanation as plain lists, dicts and strings."""
        return {
            "graph_count": self.graph_count,
            "graph_break_count": self.graph_break_count,
            **asdict(self),
            "plan": str(self.plan),
        }

    def __str__(self) -> str:
        breaks = how_many(self.graph_break_count, "graph break")
        lines = [f"{how_many(self.graph_count, 'region')}, {breaks}"]
        if self.static_inputs:
            lines.append(f"static inputs: {', '.join(self.static_inputs)}")
        for number, region in enumerate(self.regions):
            static = f"; compiled for each value of {', '.join(region.static)}"
            lines.append(
                f"region {number}: {how_many(len(region.operations), 'operation')}"
                + (static if region.static else "")
            )
        for number, cut in enumerate(self.breaks, start=1):
            lines.append(f"break {number}: {cut}")
        for number, called in enumerate(self.callbacks, start=1):
            lines.append(f"callback {number}: {called.operation} {called.label}")
            lines += [f"  {label}: {text}" for label, text in called.lines]
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> tuple[str, ...]:
        """Avoided breaks, failures that changed the plan, and calls that ran elsewhere."""
        names = ", ".join(dict.fromkeys(f'"{avoided.rewrite}"' for avoided in self.rewritten))
        return (
            *(f"avoided: {avoided}" for avoided in self.rewritten),
            *([f"  to keep the break: mode.excluding({names})"] if names else []),
            *(f"recorded failure: {failure}" for failure in self.failures),
            *(f"fallback: {text}" for text in self.fallbacks),
            *(f"size: {text}" for text in self.sizes),
            *(f"result: {text}" for text in self.results),
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: one piece of HTML, without scripts or anything from the network."""
        return as_html(self)

    def to_dot(self) -> str:
        """The plan as a Graphviz digraph, an arrow for each value."""
        return as_dot(self.sketch)

    def __rich_console__(self, console: object, options: object) -> Iterator[Any]:
        """For `rich.print`."""
        yield from as_rich(self)

    def show(self) -> None:
        """Write a page to the terminal: by rich where it is installed, as plain text otherwise."""
        if find_spec("rich") is None:
            sys.stdout.write(f"{self}\n")
            return
        from rich.console import Console  # in the extra `demo`

        Console().print(self)


def with_fallbacks(explanation: Explanation, stats: Stats, limit: int) -> Explanation:
    """The explanation with the calls that did not run as the plan says."""
    counted = [(f"reached its recompile_limit of {limit}", stats)]
    if stats.padded is not None:
        counted.append(("of padded arguments reached its recompile_limit", stats.padded))
    found = [
        f"region {region} {reached} and ran on the host {how_many(count, 'time')}"
        for reached, each in counted
        for region, count in enumerate(each.host_region_calls)
        if count
    ]
    if stats.fallbacks:
        calls = how_many(stats.fallbacks, "call")
        found.append(f"PyTensor's own implementation finished {calls}, or raised its exception")
    if stats.slow_calls:
        calls = how_many(stats.slow_calls, "call")
        found.append(f"the fast path failed in {calls} ({stats.slow_call_error})")
    return replace(explanation, fallbacks=tuple(found))


def explain_plan(
    lowered: Lowered,
    partition: Partition,
    failures: Sequence[str],
    rewritten: Sequence[Avoided] = (),
    callbacks: Sequence[CallbackSummary] = (),
    sizes: Sequence[str] = (),
) -> Explanation:
    """Put a plan and its breaks into words."""
    view, plan, sketch = lowered.view, lowered.plan, sketch_of(lowered)
    return Explanation(
        tuple(
            RegionSummary(
                region.operations,
                tuple(inner.names[number] for number in region.static),
            )
            for inner, region in plan.located_regions()
        ),
        tuple(describe_break(view, cut, sketch) for cut in partition.breaks),
        tuple(plan.names[number] for number in partition.static_inputs),
        plan,
        sketch,
        tuple(failures),
        tuple(rewritten),
        tuple(callbacks),
        sizes=tuple(sizes),
        results=tuple(
            f"{view.operation_of(cut.node)} is cut when it leaves, {user_location(view, cut.node)}"
            for cut in partition.cuts
        ),
    )


def describe_callbacks(view: GraphView, facts: Sequence[NodeFacts]) -> list[CallbackSummary]:
    """The nodes that JAX calls, those in inner graphs included."""
    found = []
    for node, fact in enumerate(facts):
        for inner in fact.inner:
            found += describe_callbacks(inner.view, inner.facts)
        if fact.callback is not None:
            apply = view.nodes[node]
            found.append(
                CallbackSummary(
                    str(apply.op),
                    view.operation_of(node),
                    Code.CALLED_BACK.text,
                    fact.callback.obstacle.reason,
                    user_location(view, node),
                    serves(view, node),
                    _values(view, view.node_inputs[node]),
                    _values(view, view.node_outputs[node]),
                )
            )
    return found


def _values(view: GraphView, numbers: Sequence[int]) -> tuple[Value, ...]:
    return tuple(
        value_of(view.expression_of(number), view.variables[number].type)
        for number in numbers
        if number not in view.constants
    )


def _place(where: str, part_of: str | None) -> str:
    return where if part_of is None else f"{where}, part of {part_of}"


def describe_break(view: GraphView, cut: Cut, sketch: Sketch) -> Break:
    """One break in words."""
    made = set(view.node_outputs[cut.node])
    copied = dict.fromkeys(
        number
        for box in sketch.boxes
        for number in box.to_host
        if number == cut.fetched or (cut.fetched is None and made & {*box.writes})
    )
    return Break(
        str(view.nodes[cut.node].op),
        view.operation_of(cut.node),
        cut.obstacle.kind.value,
        cut.obstacle.code.text,
        cut.obstacle.reason,
        user_location(view, cut.node),
        cut.obstacle.remedy,
        serves(view, cut.node),
        None if cut.fetched is None else view.expression_of(cut.fetched),
        sketch.named(copied),
    )


def list_blockers(breaks: Sequence[Break], headline: str) -> str:
    """The text of an error that names every break."""
    lines = [headline]
    for number, cut in enumerate(breaks, start=1):
        lines += [
            f"  {number}. {cut.operation} at {_place(cut.where, cut.part_of)}",
            f"     {cut.kind} [{cut.code}]: {cut.reason}",
            *([f"     remedy: {cut.remedy}"] if cut.remedy else []),
        ]
    return "\n".join(lines)


def is_untranspilable(found: Break) -> bool:
    """Return True if a break is there because an Op has no JAX implementation."""
    return found.kind == ObstacleKind.UNTRANSPILABLE.value
