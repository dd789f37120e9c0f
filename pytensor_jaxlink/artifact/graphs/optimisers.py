"""PyTensor's optimisers: Ops whose constructors take the outer variables of their inner graph."""

from __future__ import annotations

import inspect

from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.optimize import ScipyWrapperOp

from pytensor_jaxlink.artifact.graphs.properties import (
    InnerGraph,
    Properties,
    build_part,
    properties_of,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError

_GRAPH = {"x", "variables", "args", "objective", "equation", "equations"}
"""The parameters of the constructors that are parts of the inner graph."""

_DERIVATIVES = {"jac", "hess"}
"""Those by which a constructor adds derivatives to the graph."""


def parameters(kind: type) -> list[str]:
    """The names of the parameters of an optimiser that are no part of its graph."""
    return [name for name in inspect.signature(kind).parameters if name not in _GRAPH]


@properties_of.register(ScipyWrapperOp)
def _optimiser(op: ScipyWrapperOp) -> Properties:
    return {
        "graph": InnerGraph.of(op),
        "own": {name: getattr(op, name) for name in parameters(type(op))},
    }


@build_part.register(ScipyWrapperOp)
def _build_optimiser(kind: type[ScipyWrapperOp], properties: Properties) -> ScipyWrapperOp:
    """The Op with the graph as it was saved, with its derivatives, which have been rewritten."""
    graph, own = properties["graph"], dict(properties["own"])
    known = parameters(kind)
    if own.keys() != {*known}:
        raise ArtifactError(
            f"an {kind.__name__} has {', '.join(known)}, found {', '.join(own)}", code=Code.DAMAGED
        )
    [target] = _GRAPH & {*inspect.signature(kind).parameters} - {"x", "variables", "args"}
    without = dict.fromkeys(_DERIVATIVES & {*known}, False)
    op = kind(*graph.inputs, **{target: graph.outputs[0]}, **{**own, **without})
    for name in without:
        setattr(op, name, bool(own[name]))
    inner = FunctionGraph(graph.inputs, graph.outputs, clone=True)
    # From PyTensor 3.1 on inner graphs are frozen.
    op.fgraph = inner if isinstance(op.fgraph, FunctionGraph) else inner.freeze()
    return op
