"""A rewrite of ours as PyTensor's database holds it."""

from __future__ import annotations

from collections.abc import Callable

from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter

from pytensor_jaxlink.rewriting.notes import enable


class Family(GraphRewriter):
    """Applies a rewrite to a whole graph, once.

    Parameters
    ----------
    name
        The one by which it is turned off.
    rewrite
        Rewrites a graph in place, and notes on it which breaks are gone.  It takes the positions of
        inputs that are data whatever their type.
    """

    def __init__(self, name: str, rewrite: Callable[..., None]) -> None:
        super().__init__()
        self.tag, self.rewrite_in_place = name, rewrite

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        """Nothing: replacements are not undone."""

    def apply(self, fgraph: FunctionGraph) -> None:
        """Rewrite in place, and record that the mode includes the rewrite."""
        enable(fgraph, self.tag)
        self.rewrite_in_place(fgraph)
