"""The properties of Ops with inner graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.null_type import NullType
from pytensor.graph.op import Op
from pytensor.scalar.basic import Composite
from pytensor.scalar.loop import ScalarLoop
from pytensor.scan.op import Scan
from pytensor.tensor.optimize import ScipyWrapperOp

from pytensor_jaxlink.artifact.graphs.properties import (
    InnerGraph,
    Properties,
    build_part,
    properties_of,
)
from pytensor_jaxlink.artifact.names import Override, name_of
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.ops import Branch


@properties_of.register(Composite)
def _composite(op: Composite) -> Properties:
    return {"graph": InnerGraph.of(op), "name": getattr(op, "name", None)}


@properties_of.register(ScalarLoop)
def _scalar_loop(op: ScalarLoop) -> Properties:
    return {"graph": InnerGraph.of(op), "conditional": op.is_while, "name": op.name}


@build_part.register(ScalarLoop)
def _build_scalar_loop(kind: type[ScalarLoop], properties: Properties) -> ScalarLoop:
    graph, update, until = properties["graph"], list(properties["graph"].outputs), None
    if properties["conditional"]:
        until = update.pop()
    count = len(update)
    return kind(
        init=graph.inputs[:count],
        update=update,
        constant=graph.inputs[count:],
        until=until,
        name=properties["name"],
    )


@properties_of.register(Scan)
def _scan(op: Scan) -> Properties:
    return {
        "graph": InnerGraph.of(op),
        "info": op.info,
        "truncate_gradient": op.truncate_gradient,
        "name": op.name,
        "allow_gc": op.allow_gc,
        "strict": op.strict,
        "profile": op.profile if isinstance(op.profile, bool | str) else None,
    }


@build_part.register(Composite)
@build_part.register(Scan)
def _build_around(kind: type[Composite | Scan], properties: Properties) -> Op:
    graph = properties.pop("graph")
    return kind(graph.inputs, graph.outputs, **properties)


@properties_of.register(Branch)
def _branch(op: Branch) -> Properties:
    sides = [InnerGraph.between(graph.inputs, graph.outputs) for graph in op.graphs]
    return {"name": op.name, "graphs": tuple(sides)}


@build_part.register(Branch)
def _build_branch(kind: type[Branch], properties: Properties) -> Branch:
    first, second = (
        FunctionGraph(graph.inputs, graph.outputs, clone=True) for graph in properties["graphs"]
    )
    return kind(properties["name"], (first, 0), (first, second))


# What `OpFromGraph.__init__` sets; what else has a private name is a cache.
_OF_GRAPH = {
    "fgraph", "is_inline", "kwargs", "input_types", "output_types", "name", "destroy_map",
    "pullback_overrides", "pushforward_overrides",
}  # fmt: skip
_OVERRIDES = [
    name
    for name in ("pullback", "pushforward", "lop_overrides", "rop_overrides")
    if name in inspect.signature(OpFromGraph.__init__).parameters
]


@properties_of.register(OpFromGraph)
def _op_from_graph(op: OpFromGraph) -> Properties:
    own = {
        name: value
        for name, value in vars(op).items()
        if name not in _OF_GRAPH
        and (not name.startswith("_") or name in getattr(op, "__props__", ()))
    }
    given = {name: getattr(op, f"{name}_overrides", getattr(op, name, None)) for name in _OVERRIDES}
    return {
        "graph": InnerGraph.of(op),
        "inline": op.is_inline,
        "name": op.name,
        "destroy_map": dict(op.destroy_map),
        "connection_pattern": op._connection_pattern,
        "overrides": {name: _override(value) for name, value in given.items() if value is not None},
        "own": own,
    }


@build_part.register(OpFromGraph)
def _build_op_from_graph(kind: type[OpFromGraph], properties: Properties) -> OpFromGraph:
    graph = properties["graph"]
    op = kind.__new__(kind)
    overrides: dict[str, Any] = {
        name: _overriding(value, kind, name)
        for name, value in properties["overrides"].items()
        if name in _OVERRIDES
    }
    OpFromGraph.__init__(
        op,
        graph.inputs,
        graph.outputs,
        inline=properties["inline"],
        connection_pattern=properties["connection_pattern"],
        name=properties["name"],
        destroy_map=properties["destroy_map"] or None,
        on_unused_input="ignore",
        **overrides,
    )
    for name, value in properties["own"].items():
        if name in _OF_GRAPH or not name.isidentifier() or name.startswith("__"):
            raise ArtifactError(f"an {kind.__name__} has no attribute {name!r}", code=Code.DAMAGED)
        setattr(op, name, value)
    return op


def _override(value: object) -> object:
    """The override of a gradient: an Op, a function by its name, or the note that there was one."""
    if isinstance(value, list):
        return [each if each is None else _override(each) for each in value]
    if isinstance(value, OpFromGraph):
        return value
    try:
        return Override(name_of(value, "a gradient"))
    except ArtifactError:
        return Override(None)


def _overriding(value: object, kind: type, what: str) -> object:
    if isinstance(value, list):
        return [each if each is None else _overriding(each, kind, what) for each in value]
    return _lost(kind, what, value.name) if isinstance(value, Override) else value


def _lost(kind: type, what: str, name: str | None) -> Callable[..., list[Variable]]:
    """Stands for a gradient that was a Python function: evaluation never needs it."""
    module = str(name).partition(":")[0]
    why = (
        f"the {what} of this {kind.__name__} was a Python function, which a saved file does not "
        "hold. Take the gradient before you save, and save it too"
    )
    why += f", or load the file with allow=({module!r},)." if name else "."

    def override(inputs: Sequence[object], *others: Sequence[object]) -> list[Variable]:
        results = inputs if len(others) == 2 else others[0]
        return [NullType(why)() for _ in results]

    return override


# -- optimisers, whose constructors take the outer variables of their inner graph ------------------

_OF_OPTIMISERS = {"x", "variables", "args", "objective", "equation", "equations"}
"""The parameters of the constructors that are parts of the inner graph."""

_DERIVATIVES = {"jac", "hess"}
"""Those by which a constructor adds derivatives to the graph."""


def optimiser_parameters(kind: type) -> list[str]:
    """The names of the parameters of an optimiser that are no part of its graph."""
    return [name for name in inspect.signature(kind).parameters if name not in _OF_OPTIMISERS]


@properties_of.register(ScipyWrapperOp)
def _optimiser(op: ScipyWrapperOp) -> Properties:
    return {
        "graph": InnerGraph.of(op),
        "own": {name: getattr(op, name) for name in optimiser_parameters(type(op))},
    }


@build_part.register(ScipyWrapperOp)
def _build_optimiser(kind: type[ScipyWrapperOp], properties: Properties) -> ScipyWrapperOp:
    """The Op with the graph as it was saved, with its derivatives, which have been rewritten."""
    graph, own = properties["graph"], dict(properties["own"])
    known = optimiser_parameters(kind)
    if own.keys() != {*known}:
        raise ArtifactError(
            f"an {kind.__name__} has {', '.join(known)}, found {', '.join(own)}", code=Code.DAMAGED
        )
    [target] = _OF_OPTIMISERS & {*inspect.signature(kind).parameters} - {"x", "variables", "args"}
    without = dict.fromkeys(_DERIVATIVES & {*known}, False)
    op = kind(*graph.inputs, **{target: graph.outputs[0]}, **{**own, **without})
    for name in without:
        setattr(op, name, bool(own[name]))
    inner = FunctionGraph(graph.inputs, graph.outputs, clone=True)
    # From PyTensor 3.1 on inner graphs are frozen.
    op.fgraph = inner if isinstance(op.fgraph, FunctionGraph) else inner.freeze()
    return op
