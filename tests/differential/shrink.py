"""A failing graph made smaller: without the steps that its difference can do without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.differential.compare import compare
from tests.differential.grammar import Graph, random_graph


def shrunk(seed: int, options: Sequence[str], **selection: Any) -> tuple[Graph, list[str]]:
    """The smallest graph that still differs, and its differences.

    Parameters
    ----------
    seed
        Of a graph that differs.
    options
        The ways in which it is run.
    **selection
        As `random_graph` takes it.
    """
    graph = random_graph(seed, **selection)
    first = compare(graph, options)
    found = first.differences
    fewer = sorted({option for names in first.by_text.values() for option in names})
    keep = {step.number for step in graph.steps}
    for number in sorted(keep):
        smaller = random_graph(seed, keep=keep - {number}, **selection)
        differences = compare(smaller, fewer).differences if smaller.steps else []
        if differences:
            keep, graph, found = keep - {number}, smaller, differences
    return graph, found
