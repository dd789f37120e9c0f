"""PyTensor's own implementation of a node, as a function of NumPy values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.link.c.op import COp
from pytensor.scalar import math
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import DenseTensorType
from scipy.special import expit

from pytensor_jaxlink.errors import FAILED_ON_HOST
from pytensor_jaxlink.lowering.values import as_known
from pytensor_jaxlink.ops import Branch, Shaped, WhileLoop

HostFunction = Callable[..., Sequence[Any]]


def host_function(node: Apply) -> HostFunction:
    """A function from the values of the inputs of ``node`` to the tuple of its outputs.

    It computes what PyTensor's Python linker computes, by ``Op.perform``, or by the thunk of the
    Ops that make their own (`Scan`, `IfElse`, Ops with an inner function).
    """
    match node.op:
        case Shape():
            return _ShapeOf(slice(None))
        case Shape_i(i=axis):
            return _ShapeOf(axis)
        case WhileLoop():
            return _Measured(node)
        case Branch():
            return _Chosen(node)
        case Shaped() as op:
            alone = host_function(op.alone(node))
            return lambda *values: alone(*values[: op.count])
    if (vectorised := _vectorised(node)) is not None:
        return lambda value: (vectorised(value),)
    if type(node.op).make_thunk in (Op.make_thunk, COp.make_thunk):
        return _Perform(node)
    return _Thunk(node)


def _vectorised(node: Apply) -> Callable[[Any], Any] | None:
    """SciPy's function of an array, where PyTensor would go through its entries in Python."""
    function = _OF_ARRAYS.get(type(getattr(node.op, "scalar_op", None)))
    [first, *_] = [*node.inputs, None]
    if function is None or node.op.destroy_map or not isinstance(node.op, Elemwise):
        return None
    kind = node.outputs[0].type.dtype
    if kind not in ("float32", "float64") or first.type.dtype != kind:
        return None
    return lambda value: np.asarray(function(value), dtype=kind)


def _softplus(value: Any) -> Any:
    return np.logaddexp(value, value.dtype.type(0))


_OF_ARRAYS: dict[type, Callable[[Any], Any]] = {math.Sigmoid: expit, math.Softplus: _softplus}


class _ShapeOf:
    """The shape of an array wherever the array is: it is not copied to the host."""

    reads_shape_only = True

    def __init__(self, which: slice | int) -> None:
        self._which = which

    def __call__(self, array: Any) -> tuple[Any, ...]:
        return (np.asarray(np.shape(array)[self._which], dtype="int64"),)


class _Perform:
    """Calls ``Op.perform`` with fresh storage.

    Between two regions the code of this method is cold, so each line of it counts for several.
    """

    def __init__(self, node: Apply) -> None:
        op: Any = node.op
        self._node, self._perform = node, self._prepare_and_perform
        self._taken, self._outputs = _taken(node), range(len(node.outputs))
        self._destroyed = sorted({p for places in op.destroy_map.values() for p in places})

    def __call__(self, *values: Any) -> Sequence[Any]:
        inputs = self._taken(values)
        for position in self._destroyed:
            inputs[position] = copy(inputs[position])  # others may read it later
        cells: list[list[Any]] = [[None] for _ in self._outputs]
        self._perform(self._node, inputs, cells)
        return cells[0] if len(cells) == 1 else [cell[0] for cell in cells]

    def _prepare_and_perform(self, node: Apply, inputs: list[Any], cells: list[Any]) -> None:
        op: Any = node.op
        op.prepare_node(node, storage_map=None, compute_map=None, impl="py")
        self._perform = op.perform
        op.perform(node, inputs, cells)


class _Thunk:
    """Runs the thunk of a node.  It is made at the first call, as it may compile a function."""

    def __init__(self, node: Apply) -> None:
        self._node, self._taken = node, _taken(node)
        self._lock = Lock()
        self._thunk: Callable[[], Any] | None = None
        variables = dict.fromkeys([*node.inputs, *node.outputs])
        self._cells: dict[Any, list[Any]] = {variable: [None] for variable in variables}

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        node, cells = self._node, self._cells
        with self._lock:  # the thunk has one set of cells, and functions may run in many threads
            for variable, value in zip(node.inputs, self._taken(values), strict=True):
                cells[variable][0] = value
            for variable in node.outputs:
                cells[variable][0] = None  # a thunk reuses, and so overwrites, what it finds here
            thunk = self._thunk
            if thunk is None:
                computed = {variable: [variable not in node.outputs] for variable in cells}
                thunk = self._thunk = node.op.make_thunk(node, cells, computed, [], impl="py")
            thunk()
            return tuple(cells[variable][0] for variable in node.outputs)


class _Measured:
    """Runs the scan that a `WhileLoop` stands for; its traces have the lengths that they have."""

    def __init__(self, node: Apply) -> None:
        op: Any = node.op
        self._measured = op.measured
        self._scan = host_function(op.scan.make_node(*node.inputs))

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        outputs = self._scan(*values)
        lengths = [np.asarray(len(outputs[p]), dtype="int64") for p in self._measured]
        return (*outputs, *lengths)


class _Chosen:
    """Runs one of the graphs of a `Branch`, node by node."""

    def __init__(self, node: Apply) -> None:
        op: Any = node.op
        self._sides = [GraphOnHost(fgraph) for fgraph in op.graphs]

    def __call__(self, condition: Any, *values: Any) -> tuple[Any, ...]:
        return self._sides[0 if condition else 1](*values)


class GraphOnHost:
    """Runs a graph, node by node."""

    def __init__(self, fgraph: FunctionGraph) -> None:
        self._fgraph = fgraph
        self._functions = [(node, host_function(node)) for node in fgraph.toposort()]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The outputs, for values of the inputs."""
        known = dict(zip(self._fgraph.inputs, values, strict=True))

        def value_of(variable: Variable) -> Any:
            return variable.data if isinstance(variable, Constant) else known[variable]

        for node, function in self._functions:
            outputs = function(*map(value_of, node.inputs))
            known.update(zip(node.outputs, outputs, strict=True))
        return tuple(map(value_of, self._fgraph.outputs))


def located_host_function(node: Apply, where: str) -> HostFunction:
    """The same function, whose exceptions tell the user's line."""
    function = host_function(node)
    if getattr(function, "reads_shape_only", False):
        return function

    def located(*values: Any) -> Sequence[Any]:
        try:
            return function(*values)
        except Exception as error:
            error.add_note(f"while running {node.op} on the host, written at {where}")
            setattr(error, FAILED_ON_HOST, True)
            raise

    return located


def _taken(node: Apply) -> Callable[[Sequence[Any]], list[Any]]:
    """A function that gives the inputs of a node as NumPy values of the types it declares."""
    kinds = [variable.type for variable in node.inputs]
    dtypes = [np.dtype(kind.dtype) if isinstance(kind, DenseTensorType) else None for kind in kinds]

    def taken(values: Sequence[Any]) -> list[Any]:
        inputs = list(values)
        for position, value in enumerate(inputs):
            if type(value) is not np.ndarray or value.dtype is not dtypes[position]:
                inputs[position] = as_known(value, kinds[position])
        return inputs

    return taken
