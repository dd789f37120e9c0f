"""Random graphs of traced nodes, host nodes and sizes from data, and their exact optimum."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt

from tests.helpers import black_box, sort_down

sort = black_box(sort_down)


@dataclass(frozen=True)
class Node:
    """One node: ``kind`` is "traced", "host" or "sized"; a sized node demands its second cause."""

    kind: str
    causes: tuple[int, ...]


def random_nodes(generator: np.random.Generator, count: int) -> list[Node]:
    """Nodes 1, 2, ... over one input 0; causes come before."""
    nodes = []
    for position in range(1, count + 1):
        kind = str(generator.choice(["traced", "traced", "host", "sized"]))
        arity = 2 if kind != "host" else 1
        causes = tuple(int(generator.integers(0, position)) for _ in range(arity))
        nodes.append(Node(kind, causes))
    return nodes


def build(nodes: Sequence[Node]) -> tuple[Any, Any]:
    """The graph in PyTensor; all values are vectors of the length of the input."""
    x = pt.dvector("x")
    values = [x]
    for node in nodes:
        first = values[node.causes[0]]
        if node.kind == "traced":
            values.append(pt.tanh(first) + values[node.causes[1]])
        elif node.kind == "host":
            values.append(sort(first))
        else:
            size = values[node.causes[1]].argmax()
            values.append(pt.set_subtensor(first[:size], 0.5))
    return x, values[-1]


def fewest_regions(nodes: Sequence[Node]) -> int:
    """By exhaustive search over the region (or slot) of every node that the last node needs.

    From the definition alone: slot ``r`` runs before region ``r``.  A traced value is in its own
    region and the later ones, and on the host in later slots.  A size, an ``argmax``, is computed
    on the host where its input is, or by a region, and is then known one region later.
    """
    needed, stack = set(), [len(nodes)]
    while stack:
        number = stack.pop()
        if number and number not in needed:
            needed.add(number)
            stack += nodes[number - 1].causes
    order = sorted(needed)
    for regions in range(len(order) + 2):
        for stages in itertools.product(range(regions + 1), repeat=len(order)):
            if _valid(nodes, dict(zip(order, stages, strict=True)), regions):
                return regions
    raise AssertionError("no assignment is valid")


def _valid(nodes: Sequence[Node], stage: dict[int, int], regions: int) -> bool:
    def in_region(number: int) -> int:
        return stage.get(number, 0)  # the input and host values: from their slot on

    for number, place in stage.items():
        node = nodes[number - 1]
        if node.kind == "host":
            cause = node.causes[0]
            traced = cause in stage and nodes[cause - 1].kind != "host"
            if place < stage.get(cause, 0) + traced:
                return False
            continue
        if place >= regions or place < in_region(node.causes[0]):
            return False
        # A size of a host value is computed on the host.  Of others the argmax runs, at the
        # earliest, in the region where its input is, and is then fetched.
        size_of = node.causes[1]
        on_host = size_of in stage and nodes[size_of - 1].kind == "host"
        if place < in_region(size_of) + (node.kind == "sized" and not on_host):
            return False
    return True
