"""The lines of nodes that rewrites insert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.features import Feature
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.graph import has_user_line


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
