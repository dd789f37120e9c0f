"""The common part of our rewrites: how they start, and what they record on a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.features import Feature
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pytensor_jaxlink.analysis import BindingTime, binding_times
from pytensor_jaxlink.graph import GraphView, has_user_line, user_location


class Family(GraphRewriter):
    """Applies a rewrite to a whole graph, once.

    Parameters
    ----------
    name
        The one by which it is turned off.
    concerned
        The classes of Ops that it is about.  A graph without any of them is left as it is.
    rewrite
        Rewrites a graph in place, and notes on it which breaks are gone.  It takes the positions of
        inputs that are data whatever their type.
    """

    def __init__(
        self,
        name: str,
        concerned: tuple[type[Op], ...],
        rewrite: Callable[[FunctionGraph, Collection[int]], None],
    ) -> None:
        super().__init__()
        self.tag, self.concerned, self.rewrite_graph = name, concerned, rewrite

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        """Nothing: replacements are not undone."""

    def apply(self, fgraph: FunctionGraph) -> None:
        """Rewrite in place, and record that the mode includes the rewrite."""
        # For the inner graphs, which are rewritten later.
        _keep(fgraph, jaxlink_enabled=enabled_of(fgraph) | {self.tag})
        let_results_be_cut(fgraph, may=True)
        self.rewrite_in_place(fgraph)

    def rewrite_in_place(self, fgraph: FunctionGraph, changing: Collection[int] = ()) -> None:
        """Rewrite in place; the inputs at ``changing`` are data whatever their type.

        A rewrite that fails leaves a graph with the same values, and its breaks.  The failure is
        recorded on the graph.
        """
        for node in fgraph.apply_nodes:
            if isinstance(node.op, self.concerned):
                try:
                    self.rewrite_graph(fgraph, changing)
                except Exception as error:
                    text = f"the rewrite {self.tag} failed: {type(error).__name__}: {error}"
                    _keep(fgraph, jaxlink_failures=(*failures_of(fgraph), text))
                    raise
                return


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
    where = user_location(view, view.nodes.index(node))
    _keep(fgraph, jaxlink_notes=[*notes_of(fgraph), Avoided(what, where, rewrite)])


def _keep(fgraph: object, **records: object) -> None:
    vars(fgraph).update(records)


def notes_of(fgraph: Any) -> tuple[Avoided, ...]:
    """The notes on a graph."""
    return tuple(getattr(fgraph, "jaxlink_notes", ()))


def failures_of(fgraph: object) -> tuple[str, ...]:
    """The rewrites of a graph that failed, each with its error."""
    return getattr(fgraph, "jaxlink_failures", ())


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


def enabled_of(fgraph: Any) -> frozenset[str]:
    """The rewrites that the mode of a graph includes."""
    return getattr(fgraph, "jaxlink_enabled", frozenset())


def let_results_be_cut(fgraph: Any, *, may: bool) -> None:
    """Record whether results may be cut when they leave (`rewriting.cut_results`): not in loops."""
    fgraph.jaxlink_cuts = may


def may_cut_results(fgraph: Any) -> bool:
    """Return True if results may be cut when they leave."""
    return getattr(fgraph, "jaxlink_cuts", False)


def hand_on(fgraph: FunctionGraph, copy: Any) -> None:
    """Give a copy of a graph what the rewrites have recorded on it."""
    copy.jaxlink_notes, copy.jaxlink_enabled = notes_of(fgraph), enabled_of(fgraph)
    copy.jaxlink_failures, copy.jaxlink_rewrites = failures_of(fgraph), rewrites_of(fgraph)
    copy.jaxlink_excluded = excluded_of(fgraph)


def keep_given(fgraph: FunctionGraph, given: FunctionGraph) -> None:
    """Keep the graph that the user gave with the one that it is rewritten to."""
    _keep(fgraph, jaxlink_given=given)


def given_of(fgraph: Any) -> FunctionGraph | None:
    """The graph that the user gave, with the same inputs; None where it is not known."""
    return getattr(fgraph, "jaxlink_given", None)


def keep_rewrites(fgraph: FunctionGraph, query: RewriteDatabaseQuery) -> None:
    """Keep the names of the rewrites that a mode includes and excludes with a graph."""
    _keep(fgraph, jaxlink_rewrites=tuple(query.include), jaxlink_excluded=tuple(query.exclude))


def excluded_of(fgraph: object) -> tuple[str, ...]:
    """The names of the rewrites that the mode of a graph excludes."""
    return getattr(fgraph, "jaxlink_excluded", ())


def rewrites_of(fgraph: object) -> tuple[str, ...]:
    """The names of PyTensor's rewrites that the user's mode includes."""
    return getattr(fgraph, "jaxlink_rewrites", _USUAL)


_USUAL = ("fast_run",)
"""The rewrites of PyTensor's default mode."""


class KeepLines(Feature):
    """Gives a node that a rewrite inserts the user's line of the value that it replaces.

    Most rewrites of PyTensor do so themselves.  The ones that lower `xtensor` do not, and without
    this a model with named dimensions would have no line at all.  Costs a few microseconds for
    each replacement.
    """

    def __init__(self) -> None:
        self._inserted: list[Apply] = []

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        """Note a node that a replacement brings; the replacement itself follows."""
        self._inserted.append(node)

    def on_change_input(
        self,
        fgraph: FunctionGraph,
        node: Any,
        i: int,
        var: Variable,
        new_var: Variable,
        reason: Any = None,
    ) -> None:
        """Give the nodes of a replacement the lines of ``var``."""
        if not self._inserted:
            return
        if has_user_line(var):
            trace: Any = var.tag.trace
            for output in (output for node in self._inserted for output in node.outputs):
                if not has_user_line(output):
                    output.tag.trace = [*trace]
        self._inserted.clear()


@contextmanager
def keeping_lines(fgraph: FunctionGraph) -> Iterator[None]:
    """Keep the user's lines while a graph is rewritten."""
    feature = KeepLines()
    fgraph.attach_feature(feature)
    try:
        yield
    finally:
        fgraph.remove_feature(feature)
