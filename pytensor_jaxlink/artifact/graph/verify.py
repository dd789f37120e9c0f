"""Checks that a graph that was read back is the graph that was written."""

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
from scipy.sparse import issparse

from pytensor_jaxlink.artifact.describing import DataWriter
from pytensor_jaxlink.artifact.graph.inner import InnerGraph
from pytensor_jaxlink.artifact.graph.optimisers import parameters
from pytensor_jaxlink.artifact.graph.reader import GraphReader
from pytensor_jaxlink.artifact.names import EveryName
from pytensor_jaxlink.artifact.values import DataReader
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
    numbers: dict[Variable, Variable] = dict(zip(found.inputs, expected.inputs, strict=True))
    pairs = list(zip(found.inputs, expected.inputs, strict=True))
    for one, other in zip(found.nodes, expected.nodes, strict=True):
        _check_op(one, other)
        for mine, theirs in zip(one.inputs, other.inputs, strict=True):
            _check_input(mine, theirs, numbers, other)
        pairs += zip(one.outputs, other.outputs, strict=True)
        numbers.update(zip(one.outputs, other.outputs, strict=True))
    for mine, theirs in zip(found.outputs, expected.outputs, strict=True):
        _check_input(mine, theirs, numbers, None)
    for mine, theirs in pairs:
        if mine.type != theirs.type or mine.name != theirs.name:
            raise ArtifactError(f"the variable {theirs} of {theirs.type} came back as {mine.type}")


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
        return all(getattr(one, n) == getattr(other, n) for n in parameters(type(other)))
    return one == other or _same_state(one, other)


def _same_state(one: Any, other: Any) -> bool:
    """For Ops that equal only themselves: whether they hold the same."""
    if type(one).__eq__ is not object.__eq__:
        return False
    mine, theirs = vars(one), vars(other)
    return mine.keys() == theirs.keys() and all(
        mine[name] is theirs[name] or bool(np.all(mine[name] == theirs[name])) for name in mine
    )


def _check_input(
    found: Variable, expected: Variable, numbers: dict[Variable, Variable], node: Apply | None
) -> None:
    if isinstance(expected, Constant):
        if not isinstance(found, Constant) or not _same_data(found, expected):
            raise ArtifactError(f"the constant {expected} does not come back equal")
    elif numbers.get(found) is not expected:
        raise ArtifactError(f"an input of {node} came back as another variable")


def _same_data(found: Constant, expected: Constant) -> bool:
    one, other = found.data, expected.data
    if found.type != expected.type or type(found) is not type(expected):
        return False
    if isinstance(other, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and _bits(one) == _bits(other)
    if issparse(other):
        return all(
            _bits(getattr(one, part)) == _bits(getattr(other, part))
            for part in ("data", "indices", "indptr")
        )
    if isinstance(other, np.random.Generator):
        return repr(one.bit_generator.state) == repr(other.bit_generator.state)
    return type(one) is type(other) and one == other


def _bits(array: Any) -> bytes:
    return np.asarray(array).tobytes()


def check_saved(document: Any, graphs: Mapping[str, InnerGraph], data: DataWriter) -> None:
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
