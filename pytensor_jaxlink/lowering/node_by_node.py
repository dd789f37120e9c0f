"""A graph as a function of values, which goes from node to node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import AbstractFunctionGraph

Function = Callable[..., Sequence[Any]]


def node_by_node(
    fgraph: AbstractFunctionGraph, function_of: Callable[[Apply], Function]
) -> Function:
    """The function of a graph, from the functions of its nodes.

    Parameters
    ----------
    fgraph
        The graph.
    function_of
        From a node to a function of the values of its inputs, which gives all its outputs.
    """
    functions = [(node, function_of(node)) for node in fgraph.toposort()]

    def function(*values: object) -> Sequence[object]:
        known = dict(zip(fgraph.inputs, values, strict=True))

        def value_of(variable: Variable) -> object:
            return variable.data if isinstance(variable, Constant) else known[variable]

        for node, function in functions:
            known.update(zip(node.outputs, function(*map(value_of, node.inputs)), strict=True))
        return list(map(value_of, fgraph.outputs))

    return function
