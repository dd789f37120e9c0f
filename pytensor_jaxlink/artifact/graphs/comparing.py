"""Before a graph is saved, it is read back and compared with itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.optimize import ScipyWrapperOp

from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.graphs.properties import InnerGraph, optimiser_parameters
from pytensor_jaxlink.artifact.graphs.reader import GraphReader
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter
from pytensor_jaxlink.artifact.names import EveryName
from pytensor_jaxlink.artifact.values import Checksums, DataReader, DataWriter
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy


def check_same(found: InnerGraph, expected: InnerGraph) -> None:
    """Compare two graphs node by node.

    Raises
    ------
    ArtifactError
        If an Op, a type or a constant is not equal to what it was made from; it is named.
    """
    for one, other in zip(found.nodes, expected.nodes, strict=True):
        _check_op(one, other)
    for one, other in zip(_variables(found), _variables(expected), strict=True):
        if one.type != other.type or one.name != other.name:
            raise ArtifactError(f"the variable {other} of {other.type} came back as {one.type}")
        if isinstance(other, Constant) and _content(one) != _content(other):
            raise ArtifactError(f"the constant {other} does not come back equal")


def _variables(graph: InnerGraph) -> list[Variable]:
    nodes = [variable for node in graph.nodes for variable in (*node.inputs, *node.outputs)]
    return [*graph.inputs, *nodes, *graph.outputs]


def _content(variable: Any) -> tuple[type, Json, list[Json]]:
    data = Checksums()
    described = GraphWriter(data).value(getattr(variable, "data", None))
    return type(variable), described, data.table.entries


def _check_op(found: Apply, expected: Apply) -> None:
    other = expected.op
    if _same_op(found.op, other):
        return
    kind = type(other)
    raise ArtifactError(
        f"the Op {other} ({kind.__module__}.{kind.__qualname__}) does not come back equal from "
        f"what its constructor names. {Remedy.PROPERTIES.text()}.",
        code=Code.CONSTRUCTOR,
    )


def _same_op(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(other, Blockwise):
        return one.signature == other.signature and _same_op(one.core_op, other.core_op)
    if isinstance(other, OpFromGraph):
        # Their own comparison calls the functions that override gradients.
        names = ("is_inline", "destroy_map", *getattr(type(other), "__props__", ()))
        check_same(InnerGraph.of(one), InnerGraph.of(other))
        return all(getattr(one, name, None) == getattr(other, name, None) for name in names)
    if isinstance(other, ScipyWrapperOp):
        # Before PyTensor 3.1 they equal only themselves.
        check_same(InnerGraph.of(one), InnerGraph.of(other))
        return all(getattr(one, n) == getattr(other, n) for n in optimiser_parameters(type(other)))
    return one == other or _same_state(one, other)


def _same_state(one: object, other: object) -> bool:
    """For Ops that equal only themselves: whether they hold the same."""
    if type(one).__eq__ is not object.__eq__:
        return False
    mine, theirs = vars(one), vars(other)
    return mine.keys() == theirs.keys() and all(
        mine[name] is theirs[name] or bool(np.all(mine[name] == theirs[name])) for name in mine
    )


def check_saved(document: object, graphs: Mapping[str, InnerGraph], data: DataWriter) -> None:
    """Read back what is about to be saved, and compare.

    Raises
    ------
    ArtifactError
        If something would not come back; it is named.
    """
    content = json.loads(json.dumps([document, data.table.entries]))
    reader = GraphReader(
        DataReader(data, content[1]), content[0]["parts"], EveryName(), pytensor.__version__
    )
    for name, graph in graphs.items():
        check_same(reader.graph(content[0]["functions"][name]), graph)
