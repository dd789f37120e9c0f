"""How many comparisons a search made, by production and by option, and a graph in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pytensor.printing import debugprint

from tests.differential.compare import Found
from tests.differential.grammar import Graph


@dataclass
class Counts:
    """What a search has compared so far."""

    graphs: int = 0
    refused: int = 0
    rounded: int = 0
    different: int = 0
    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Calls of which values were compared, by production and option; in all under ``""``."""
    exceptions: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, graph: Graph, found: Found) -> None:
        """Count one graph."""
        self.graphs += 1
        self.refused += found.refused
        self.rounded += found.rounded
        self.different += bool(found.differences)
        for name in ("", *sorted({step.production for step in graph.steps})):
            for option, count in found.values.items():
                self.values[name, option] += count
            for option, count in found.exceptions.items():
                self.exceptions[name, option] += count

    def merge(self, other: Counts) -> None:
        """Add the counts of another part of the search."""
        self.graphs += other.graphs
        self.refused += other.refused
        self.rounded += other.rounded
        self.different += other.different
        self.values.update(other.values)
        self.exceptions.update(other.exceptions)

    def table(self, productions: list[str], options: list[str]) -> str:
        """A line for each production: values and exceptions compared under each option."""
        width = max(map(len, productions)) + 2
        lines = ["".join([" " * width, *[f"{option:>18}" for option in options]])]
        for name in ["", *productions]:
            cells = [
                f"{self.values[name, option]:>11}+{self.exceptions[name, option]:<6}"
                for option in options
            ]
            never = "" if name == "" or self._reached(name) else "  NEVER REACHED"
            lines.append(f"{name or 'all':<{width}}{''.join(cells)}{never}")
        return "\n".join(lines)

    def of_all(self, what: str) -> list[int]:
        """The numbers of comparisons under each option, of ``"values"`` or ``"exceptions"``."""
        return [count for (name, _), count in getattr(self, what).items() if name == ""]

    def _reached(self, name: str) -> bool:
        return any(key[0] == name for key in (*self.values, *self.exceptions))


def in_words(graph: Graph) -> str:
    """The graph, its productions and the arguments of its calls."""
    ends = [*graph.outputs, *(update for _, update in graph.updates)]
    lines = [
        f"floatX={graph.float_type}; steps: "
        + ", ".join(f"{step.number} {step.production}" for step in graph.steps),
        debugprint(ends, file="str", print_type=True),
    ]
    if graph.updates:
        lines.append("updates of " + ", ".join(str(state) for state, _ in graph.updates))
    given = [(f"call {number}", graph.inputs, v) for number, v in enumerate(graph.calls)]
    for name, variables, values in [*given, ("initial", graph.shared, graph.initial)]:
        pairs = zip(variables, map(_text, values), strict=True)
        lines.append(f"{name}: " + "; ".join(f"{v} = {text}" for v, text in pairs))
    return "\n".join(lines)


def _text(value: Any) -> str:
    with np.printoptions(threshold=20):
        return repr(value)
