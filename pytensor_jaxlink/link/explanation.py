"""What was cut, where and why: `f.explain()`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from pytensor.graph.basic import Constant

from pytensor_jaxlink.analysis import NodeFacts, ObstacleKind
from pytensor_jaxlink.graph import GraphView, user_location
from pytensor_jaxlink.link.pictures.dot import as_dot
from pytensor_jaxlink.link.pictures.page import as_html
from pytensor_jaxlink.link.pictures.terminal import as_rich
from pytensor_jaxlink.link.sketch import GATHERED, Sketch, Value, sketch_of
from pytensor_jaxlink.lowering import Lowered
from pytensor_jaxlink.partition import Break as Cut
from pytensor_jaxlink.plan import Plan


@dataclass(frozen=True)
class Break:
    """One graph break.

    Attributes
    ----------
    op
        The Op that cannot be part of a region, or that demands the value.
    kind
        One of the values of `ObstacleKind`.
    reason, remedy
        Why, and what would remove the break.
    where
        ``file:line`` of the user's code, or ``"<unknown>"``.
    value
        The variable that is copied to the host for JAX to know it, or None for a host step.
    copies
        What the break copies to the host: gathers, where it is spread over several devices.
    """

    op: str
    kind: str
    reason: str
    where: str
    remedy: str
    value: str | None = None
    copies: tuple[Value, ...] = ()


@dataclass(frozen=True)
class CallbackSummary:
    """One operation that JAX calls on the host, from inside a region.

    Attributes
    ----------
    op
        The Op.
    reason
        Why JAX cannot run it.
    where
        ``file:line`` of the user's code, or ``"<unknown>"``.
    takes, gives
        What is copied to the host, and back to the device, each time it runs.
    """

    op: str
    reason: str
    where: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]


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
    learned: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    callbacks: tuple[CallbackSummary, ...] = ()

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
        lines = [
            f"{_count(self.graph_count, 'region')}, {_count(self.graph_break_count, 'graph break')}"
        ]
        if self.static_inputs:
            lines.append(f"static inputs: {', '.join(self.static_inputs)}")
        for number, region in enumerate(self.regions):
            static = f"; compiled for each value of {', '.join(region.static)}"
            lines.append(
                f"region {number}: {_count(len(region.operations), 'operation')}"
                + (static if region.static else "")
            )
        for number, cut in enumerate(self.breaks, start=1):
            lines += [
                f"break {number}: {cut.op} ({cut.kind})",
                f"  where:  {cut.where}",
                f"  why:    {cut.reason}",
                f"  remedy: {cut.remedy}",
                *[f"  copied: {value} {GATHERED}" for value in cut.copies],
            ]
        for number, called in enumerate(self.callbacks, start=1):
            lines += [
                f"callback {number}: {called.op}",
                f"  where:  {called.where}",
                f"  why:    {called.reason}",
                f"  cost:   each time it runs, {', '.join(called.takes) or 'nothing'} is copied to "
                f"the host and {', '.join(called.gives)} to the device",
            ]
        lines += [f"no break: {note}" for note in self.rewritten]
        lines += [f"learned: {lesson}" for lesson in self.learned]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: one piece of HTML, without scripts or anything from the network."""
        return as_html(self)

    def to_dot(self) -> str:
        """The plan as a Graphviz digraph, an arrow for each value."""
        return as_dot(self.sketch)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """For `rich.print`."""
        yield from as_rich(self)

    def show(self) -> None:
        """Write a page to the terminal: by rich where it is installed, as plain text otherwise."""
        if find_spec("rich") is None:
            sys.stdout.write(f"{self}\n")
            return
        from rich.console import Console  # in the extra `demo`

        Console().print(self)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def explain_plan(
    lowered: Lowered,
    cuts: Sequence[Cut],
    static_inputs: Sequence[int],
    learned: Sequence[str],
    rewritten: Sequence[str] = (),
    callbacks: Sequence[CallbackSummary] = (),
) -> Explanation:
    """Put a plan and its breaks into words."""
    view, plan, sketch = lowered.view, lowered.plan, sketch_of(lowered)
    return Explanation(
        tuple(
            RegionSummary(
                region.operations,
                # The values of an inner plan are numbered in a graph of its own.
                tuple(map(view.expression_of, region.static))
                if inner is plan
                else tuple(inner.names[number] for number in region.static),
            )
            for inner, region in plan.located_regions()
        ),
        tuple(describe_break(view, cut, sketch) for cut in cuts),
        tuple(plan.names[number] for number in static_inputs),
        plan,
        sketch,
        tuple(learned),
        tuple(rewritten),
        tuple(callbacks),
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
                    fact.callback.obstacle.reason,
                    user_location(view, node),
                    tuple(_typed(v) for v in apply.inputs if not isinstance(v, Constant)),
                    tuple(map(_typed, apply.outputs)),
                )
            )
    return found


def _typed(variable: Any) -> str:
    return f"{variable.name or 'a value'} ({variable.type})"


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
        cut.obstacle.kind.value,
        cut.obstacle.reason,
        user_location(view, cut.node),
        cut.obstacle.remedy,
        None if cut.fetched is None else view.expression_of(cut.fetched),
        sketch.named(copied),
    )


def list_blockers(breaks: Sequence[Break], headline: str) -> str:
    """The text of an error that names every break."""
    lines = [headline]
    for number, cut in enumerate(breaks, start=1):
        lines += [
            f"  {number}. {cut.op} at {cut.where}",
            f"     {cut.kind}: {cut.reason}",
            f"     remedy: {cut.remedy}",
        ]
    return "\n".join(lines)


def is_untranspilable(cut: Break) -> bool:
    """Whether a break is there because an Op has no JAX implementation."""
    return cut.kind == ObstacleKind.UNTRANSPILABLE.value
