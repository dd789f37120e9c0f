"""The graph as arrays of integers: what every analysis reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.printing import pp
from pytensor.tensor.elemwise import Elemwise

_LARGEST_EXPRESSION, _LONGEST_EXPRESSION = 12, 40  # in variables, in characters


@dataclass(frozen=True, eq=False)
class GraphView:
    """One graph, its variables numbered in topological order.

    Attributes
    ----------
    nodes
        The Apply nodes, producers before consumers.
    variables
        Inputs first, then constants and node outputs as the nodes meet them.
    node_inputs, node_outputs
        For each node, the numbers of its variables.
    inputs, outputs
        The numbers of the graph's inputs and outputs.
    producer
        For each variable the number of the node that computes it, or -1.

    Notes
    -----
    Building a view costs one pass over the graph.  Analyses keep their results in lists indexed
    by these numbers, so nothing depends on hashes or object identity.
    """

    nodes: tuple[Apply, ...]
    variables: tuple[Variable, ...]
    node_inputs: tuple[tuple[int, ...], ...]
    node_outputs: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    producer: tuple[int, ...]

    @classmethod
    def of(cls, fgraph: AbstractFunctionGraph) -> GraphView:
        """Number the variables of ``fgraph``."""
        nodes = tuple(fgraph.toposort())
        variables: list[Variable] = []
        number: dict[Variable, int] = {}
        producer: list[int] = []

        def add(variable: Variable, node: int = -1) -> int:
            position = number.get(variable)
            if position is None:
                position = number[variable] = len(variables)
                variables.append(variable)
                producer.append(node)
            return position

        inputs = tuple(add(variable) for variable in fgraph.inputs)
        node_inputs, node_outputs = [], []
        for position, node in enumerate(nodes):
            node_inputs.append(tuple(add(variable) for variable in node.inputs))
            node_outputs.append(tuple(add(variable, position) for variable in node.outputs))
        outputs = tuple(add(variable) for variable in fgraph.outputs)
        return cls(
            nodes,
            tuple(variables),
            tuple(node_inputs),
            tuple(node_outputs),
            inputs,
            outputs,
            tuple(producer),
        )

    @cached_property
    def constants(self) -> dict[int, Any]:
        """The data of each constant variable, by number."""
        return {
            number: variable.data
            for number, variable in enumerate(self.variables)
            if isinstance(variable, Constant)
        }

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each variable, the nodes that read it, in order."""
        readers: list[list[int]] = [[] for _ in self.variables]
        for node, inputs in enumerate(self.node_inputs):
            for variable in inputs:
                if not readers[variable] or readers[variable][-1] != node:
                    readers[variable].append(node)
        return tuple(map(tuple, readers))

    def expression_of(self, variable: int) -> str:
        """A short expression for a size, such as ``(n // 2)`` or ``(1 + argmax)``.

        Where the whole expression is long, arithmetic on scalars is shown and the rest is named;
        where that is long too, the variable is.
        """
        for cut in (self._nowhere, self._at_arrays):
            text = self._printed(variable, cut)
            if text is not None and len(text) <= _LONGEST_EXPRESSION:
                return text
        return self.name_of(variable)

    @staticmethod
    def _nowhere(node: Apply) -> bool:
        return False

    @staticmethod
    def _at_arrays(node: Apply) -> bool:
        return not isinstance(node.op, Elemwise) or node.outputs[0].type.ndim > 0

    def _printed(self, variable: int, cut: Callable[[Apply], bool]) -> str | None:
        """PyTensor's text for a variable, with names where ``cut`` says so."""
        queue, named = [variable], {}  # printing repeats what is shared: its cost is bounded here
        for current in queue:
            node = self.producer[current]
            if node >= 0 and cut(self.nodes[node]):
                found = self.variables[current]
                named[found] = found.type(name=found.name or f"{self.nodes[node].op}(...)")
            elif node >= 0:
                queue += self.node_inputs[node]
            if len(queue) > _LARGEST_EXPRESSION:
                return None
        found = self.variables[variable]
        return pp(clone_replace(found, named) if named else found)

    def name_of(self, variable: int) -> str:
        """How messages call a variable: its name, or the node it comes from."""
        found = self.variables[variable]
        if found.name:
            return str(found.name)
        if self.producer[variable] < 0:
            return str(found)
        op = self.nodes[self.producer[variable]].op
        return f"the output of {op}"
