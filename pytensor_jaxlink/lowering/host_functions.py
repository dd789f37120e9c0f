"""PyTensor's own implementation of a node, as a function of NumPy values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.type import Type
from pytensor.scalar import math
from pytensor.tensor.elemwise import Elemwise
from scipy.special import expit

from pytensor_jaxlink.compat import runnable_op
from pytensor_jaxlink.errors import FAILED_ON_HOST, OWN_FAILURE
from pytensor_jaxlink.graph import ArrayType, op_name
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.lowering.coercion import DTYPES_OF_JAX, as_static
from pytensor_jaxlink.lowering.node_by_node import node_by_node
from pytensor_jaxlink.lowering.size_arithmetic import describe_size
from pytensor_jaxlink.ops import Branch, Shaped, WhileLoop, held_type, makes_thunk, may_show
from pytensor_jaxlink.size_functions import size_function

HostFunction = Callable[..., Sequence[Any]]

_DTYPES_OF_JAX = frozenset(map(np.dtype, DTYPES_OF_JAX))  # in native byte order


def host_function(node: Apply, where: str | None = None) -> HostFunction:
    """A function from the values of the inputs of ``node`` to the tuple of its outputs.

    It computes what PyTensor's Python linker computes, by ``Op.perform``, or by the thunk of the
    Ops that make their own (`Scan`, `IfElse`, Ops with an inner function).

    Parameters
    ----------
    node
        The node.
    where
        The user's line that the node comes from: exceptions tell it, and that they are the node's.
    """
    function = _special(node)
    if function is None:
        return _performed(node, where)
    if where is None or getattr(function, "reads_shape_only", False):
        return function

    def located(*values: object) -> Sequence[object]:
        try:
            return function(*values)
        except Exception as error:
            _locate(error, node, where)
            raise

    return located


def _locate(error: Exception, node: Apply, where: str | None) -> None:
    if where is not None:
        error.add_note(f"while running {op_name(node.op)} on the host, written at {where}")
    setattr(error, FAILED_ON_HOST, True)
    if may_show(node.op):
        setattr(error, OWN_FAILURE, True)


def _special(node: Apply) -> HostFunction | None:
    """The function of a node that does not run by its ``Op.perform``."""
    match node.op:
        case WhileLoop():
            return _measured(node)
        case Branch() as op:
            return _chosen(op)
        case Shaped() as op:
            alone = host_function(op.alone(node))
            return lambda *values: alone(*values[: op.count])
    if (described := describe_size(node)) is not None:
        return size_function(described)
    if (vectorised := _vectorised(node)) is not None:
        return lambda value: (vectorised(value),)
    return _Thunk(node) if makes_thunk(node.op) else None


def _vectorised(node: Apply) -> Callable[..., np.ndarray] | None:
    """SciPy's function of an array, where PyTensor would go through its entries in Python."""
    function = _OF_ARRAYS.get(type(getattr(node.op, "scalar_op", None)))
    [first, *_] = [*node.inputs, None]
    if function is None or node.op.destroy_map or not isinstance(node.op, Elemwise):
        return None
    kind = node.outputs[0].type.dtype
    if kind not in ("float32", "float64") or first.type.dtype != kind:
        return None
    return lambda value: np.asarray(function(value), dtype=kind)


def _softplus(value: np.ndarray) -> np.ndarray:
    return np.logaddexp(value, value.dtype.type(0))


_OF_ARRAYS: dict[type, Callable[..., np.ndarray]] = {math.Sigmoid: expit, math.Softplus: _softplus}


def _performed(node: Apply, where: str | None) -> HostFunction:
    """Calls ``Op.perform`` with fresh storage.

    Between two regions this code is cold, so each line of it, and each call, counts for several.
    """
    op = node.op
    perform = None
    types = list(map(held_type, node.inputs))
    kinds = [(position, _dtype_of(kind), kind) for position, kind in enumerate(types)]
    results = [(_dtype_of(variable.type), variable.type) for variable in node.outputs]
    single = len(results) == 1
    first, first_kind = results[0] if results else (None, None)
    copied = sorted({p for places in op.destroy_map.values() for p in places})
    arrays = [position for position, kind in enumerate(types) if isinstance(kind, ArrayType)]

    def performed(*values: object) -> Sequence[object]:
        nonlocal perform, copied
        try:
            inputs = list(values)
            for position, dtype, kind in kinds:
                value = inputs[position]
                if type(value) is not np.ndarray or value.dtype is not dtype:
                    inputs[position] = as_static(value, kind)
            for position in copied:
                inputs[position] = copy(inputs[position])  # others may read it later
            if perform is None:
                op.prepare_node(node, storage_map=None, compute_map=None, impl="py")
                perform = op.perform
            if single:
                cell: list[object] = [None]
                perform(node, inputs, [cell])
                value = cell[0]
                if type(value) is not np.ndarray or value.dtype is not first:
                    cell[0] = _as_jax_takes_it(value, first_kind)
                return cell
            cells: list[list[object]] = [[None] for _ in results]
            perform(node, inputs, cells)
            return [
                _as_jax_takes_it(cell[0], kind)
                for cell, (_, kind) in zip(cells, results, strict=True)
            ]
        except Exception as error:
            if copied != arrays and _ASKS_TO_WRITE.search(reason := str(error)):
                copied = arrays
                Topic.FAILURES.log(lambda: f"{op_name(op)} is given copies ({reason})")
                return performed(*values)
            _locate(error, node, where)
            raise

    return performed


# JAX's arrays are read-only.  Cython and `ctypes` ask for buffers to which they may write.
_ASKS_TO_WRITE = re.compile(r"read-?only|not writ")


def _as_jax_takes_it(value: object, kind: Type | None) -> object:
    """A result of a ``perform``, which may be of a kind that NumPy has and JAX has not.

    It then gets the declared dtype: arrays of the other byte order, of long doubles, of objects.
    Masked arrays lose their masks.
    """
    if not isinstance(kind, ArrayType) or not isinstance(value, np.ndarray | np.generic):
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = value.data
    return value if value.dtype in _DTYPES_OF_JAX else value.astype(kind.dtype)


class _Thunk:
    """Runs the thunk of a node.  It is made at the first call, as it may compile a function."""

    def __init__(self, node: Apply) -> None:
        self._node, self._kinds = node, [variable.type for variable in node.inputs]
        self._lock = Lock()
        self._thunk: Callable[[], object] | None = None
        variables = dict.fromkeys([*node.inputs, *node.outputs])
        self._cells: dict[Variable, list[object]] = {variable: [None] for variable in variables}

    def __call__(self, *values: object) -> tuple[object, ...]:
        node, cells = self._node, self._cells
        with self._lock:  # the thunk has one set of cells, and functions may run in many threads
            for variable, value, kind in zip(node.inputs, values, self._kinds, strict=True):
                cells[variable][0] = as_static(value, kind)
            for variable in node.outputs:
                cells[variable][0] = None  # a thunk reuses, and so overwrites, what it finds here
            thunk = self._thunk
            if thunk is None:
                computed = {variable: [variable not in node.outputs] for variable in cells}
                op = runnable_op(node)
                thunk = self._thunk = op.make_thunk(node, cells, computed, [], impl="py")
            thunk()
            return tuple(cells[variable][0] for variable in node.outputs)


def _measured(node: Apply) -> HostFunction:
    """Runs the scan that a `WhileLoop` stands for; its traces have the lengths that they have."""
    scan = host_function(node.op.scan.make_node(*node.inputs))

    def measured(*values: object) -> tuple[object, ...]:
        outputs = scan(*values)
        lengths = (np.asarray(len(outputs[p]), dtype="int64") for p in node.op.measured)
        return (*outputs, *lengths)

    return measured


def _chosen(op: Branch) -> HostFunction:
    """Runs one of the graphs of a `Branch`."""
    holds, fails = map(graph_on_host, op.graphs)
    return lambda condition, *values: (holds if condition else fails)(*values)


def graph_on_host(fgraph: AbstractFunctionGraph) -> HostFunction:
    """PyTensor's own implementation of all nodes of a graph."""
    return node_by_node(fgraph, host_function)


def _dtype_of(kind: Type) -> np.dtype | None:
    return np.dtype(kind.dtype) if isinstance(kind, ArrayType) else None
