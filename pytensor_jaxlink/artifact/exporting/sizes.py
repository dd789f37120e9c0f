"""Ops that compute sizes, on sizes that are expressions of open dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor


def is_open(value: Any) -> bool:
    """Whether a size, or an array of sizes, depends on open dimensions."""
    if isinstance(value, np.ndarray):
        return value.dtype == object
    return jax.export.is_symbolic_dim(value)


def array_of_sizes(sizes: Any) -> np.ndarray[Any, Any]:
    """Sizes as an array of int64, or of expressions where one is open."""
    parts = sizes if isinstance(sizes, tuple | list) else [sizes]
    opened = any(map(jax.export.is_symbolic_dim, parts))
    array = np.empty(len(parts), dtype=object if opened else "int64")
    array[:] = parts
    return array if isinstance(sizes, tuple | list) else array.reshape(())


def _settled(array: Any) -> np.ndarray[Any, Any]:
    """An array of sizes as integers where no size is open."""
    array = np.asarray(array, dtype=object)
    flat = array_of_sizes(list(array.reshape(-1)))
    return flat.reshape(array.shape)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": lambda *sizes: sum(sizes[1:], sizes[0]),
    "Sub": lambda one, other: one - other,
    "Mul": lambda *sizes: _product(sizes),
    "IntDiv": lambda one, other: one // other,
    "Mod": lambda one, other: one % other,
    "Neg": lambda size: -size,
    "Maximum": jax.core.max_dim,
    "ScalarMaximum": jax.core.max_dim,
    "Minimum": jax.core.min_dim,
    "ScalarMinimum": jax.core.min_dim,
    "EQ": lambda one, other: one == other,
    "NEQ": lambda one, other: one != other,
    "LT": lambda one, other: one < other,
    "LE": lambda one, other: one <= other,
    "GT": lambda one, other: one > other,
    "GE": lambda one, other: one >= other,
    "Switch": lambda condition, one, other: one if condition else other,
    "Identity": lambda size: size,
    "Cast": lambda size: size,
}


def _product(sizes: Sequence[Any]) -> Any:
    result = sizes[0]
    for size in sizes[1:]:
        result = result * size
    return result


def size_of(node: Apply, inputs: Sequence[Any]) -> Any:  # noqa: PLR0911 -- one for each Op
    """The result of an Op on sizes, or None where it is no size."""
    op: Any = node.op
    match op:
        case Elemwise():
            function = _ARITHMETIC.get(type(op.scalar_op).__name__)
            if function is None or node.outputs[0].type.dtype not in ("int64", "bool"):
                return None
            apply = np.frompyfunc(function, len(inputs), 1)
            return _settled(apply(*(np.asarray(value, dtype=object) for value in inputs)))
        case CheckAndRaise() if not any(map(is_open, inputs[1:])) and all(map(np.all, inputs[1:])):
            return inputs[0]
        case MakeVector():
            return _settled([item(value) for value in inputs])
        case ScalarFromTensor() | TensorFromScalar():
            return inputs[0]
        case Join():
            arrays = inputs if hasattr(op, "axis") else inputs[1:]
            return _settled(np.concatenate([np.asarray(each, dtype=object) for each in arrays]))
        case DimShuffle():
            return _dim_shuffle(op, inputs[0])
        case CAReduce() if type(op.scalar_op).__name__ in ("Mul", "Add"):
            flat = list(np.asarray(inputs[0], dtype=object).reshape(-1))
            empty = [1 if type(op.scalar_op).__name__ == "Mul" else 0]
            return _settled(_ARITHMETIC[type(op.scalar_op).__name__](*(flat or empty)))
        case Subtensor():
            index = indices_from_subtensor([_bound(value) for value in inputs[1:]], op.idx_list)
            return _settled(inputs[0][tuple(index)])
    return None


def _dim_shuffle(op: Any, value: Any) -> Any:
    array = np.asarray(value)
    kept = [axis for axis in op.new_order if axis != "x"]
    dropped = [axis for axis in range(array.ndim) if axis not in kept]
    moved = array.transpose([*kept, *dropped])
    moved = moved.reshape(moved.shape[: len(kept)])
    return np.expand_dims(moved, tuple(k for k, axis in enumerate(op.new_order) if axis == "x"))


def item(value: Any) -> Any:
    """The one entry of an array, an expression or a number."""
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def _bound(value: Any) -> Any:
    return None if value is None else item(value)
