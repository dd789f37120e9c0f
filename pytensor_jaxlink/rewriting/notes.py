"""The common part of our rewrites: their start, and the notes that they leave on a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.analysis import BindingTime, binding_times
from pytensor_jaxlink.graph import GraphView, user_location


@dataclass(frozen=True)
class Avoided:
    """One graph break that a rewrite has removed.

    Attributes
    ----------
    what
        The change, in words: "boolean indexing became a mask".
    where
        ``file:line`` of the user's code.
    rewrite
        The name by which the rewrite is turned off.
    """

    what: str
    where: str
    rewrite: str

    def __str__(self) -> str:
        return f"{self.what}, {self.where}"


def note(fgraph: FunctionGraph, view: GraphView, node: Apply, rewrite: str, what: str) -> None:
    """Record that a rewrite has removed the break at a node of a view of the graph."""
    graph: Any = fgraph
    where = user_location(view, view.nodes.index(node))
    graph.jaxlink_notes = [*notes_of(fgraph), Avoided(what, where, rewrite)]


def notes_of(fgraph: Any) -> tuple[Avoided, ...]:
    """The notes on a graph."""
    return tuple(getattr(fgraph, "jaxlink_notes", ()))


def would_break(time: BindingTime) -> bool:
    """The rule of cost: whether a graph breaks where a value of this time is a size or a mask.

    Our rewrites replace selections by work on full arrays, and sizes by arithmetic.  That is worth
    it where it removes a break, which costs a copy to the host and back and ends a region, and
    nowhere else: what is known earlier costs nothing.
    """
    return time is BindingTime.DEVICE


def late_values(view: GraphView, input_times: Sequence[BindingTime]) -> set[Variable]:
    """The variables that are known only when a region has run."""
    times = zip(view.variables, binding_times(view, input_times), strict=True)
    return {variable for variable, time in times if would_break(time)}


def enable(fgraph: Any, rewrite: str) -> None:
    """Record that a mode includes a rewrite, for the inner graphs that are rewritten later."""
    fgraph.jaxlink_enabled = enabled_of(fgraph) | {rewrite}


def enabled_of(fgraph: Any) -> frozenset[str]:
    """The rewrites that the mode of a graph includes."""
    return getattr(fgraph, "jaxlink_enabled", frozenset())


def hand_on(fgraph: FunctionGraph, copy: Any) -> None:
    """Give a copy of a graph what the rewrites have recorded on it."""
    copy.jaxlink_notes, copy.jaxlink_enabled = notes_of(fgraph), enabled_of(fgraph)
