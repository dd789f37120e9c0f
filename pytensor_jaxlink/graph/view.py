"""The graph as arrays of integers: what every analysis reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytensor.graph.basic import Constant
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.scalar.basic import ScalarType
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType

from pytensor_jaxlink.graph.expressions import expression
from pytensor_jaxlink.graph.types import ArrayType, GraphNode, GraphType, GraphVariable
from pytensor_jaxlink.plan import Kind


def updates_of(fgraph: object) -> dict[int, int]:
    """For each output of a function that goes into a shared variable, by place, its input."""
    return getattr(fgraph, "update_mapping", None) or {}


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
    within
        The user's line of the node that has this graph inside it: nodes of inner graphs have often
        no line of their own.
    updates
        The numbers of the outputs that go into shared variables.

    Notes
    -----
    Building a view costs one pass over the graph.  Analyses keep their results in lists indexed
    by these numbers, so nothing depends on hashes or object identity.
    """

    nodes: tuple[GraphNode, ...]
    variables: tuple[GraphVariable, ...]
    node_inputs: tuple[tuple[int, ...], ...]
    node_outputs: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    producer: tuple[int, ...]
    within: str | None = None
    updates: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        fgraph: AbstractFunctionGraph,
        within: str | None = None,
        updates: Collection[int] = (),
    ) -> GraphView:
        """Number the variables of ``fgraph``, of whose outputs some are updates, by place."""
        nodes = tuple(fgraph.toposort())
        variables: list[GraphVariable] = []
        number: dict[GraphVariable, int] = {}
        producer: list[int] = []

        def add(variable: GraphVariable, node: int = -1) -> int:
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
            within,
            frozenset(outputs[place] for place in updates),
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

    @cached_property
    def positions(self) -> dict[GraphVariable, int]:
        """The position of each input."""
        return {self.variables[number]: place for place, number in enumerate(self.inputs)}

    def expression_of(self, variable: int) -> str:
        """How messages call a variable: by its name, or a short expression (``(n // 2)``)."""
        return expression(self.variables[variable], self.positions)

    def operation_of(self, node: int) -> str:
        """How messages call a node: by a short expression, whatever the name of its result."""
        return expression(self.nodes[node].outputs[0], self.positions, named=False)


def as_kind(kind: GraphType) -> Kind:
    """A type, for those who do not have PyTensor."""
    text = str(kind)
    if isinstance(kind, SparseTensorType):
        return Kind("sparse", text, kind.dtype, tuple(kind.shape), kind.format)
    if isinstance(kind, ArrayType):
        return Kind("array", text, kind.dtype, tuple(kind.shape))
    if isinstance(kind, ScalarType):
        return Kind("number", text, kind.dtype, ())
    return Kind("generator" if isinstance(kind, RandomType) else "other", text)
