"""Size arithmetic on the host, by NumPy alone.

What PyTensor's own implementation does for the Ops that compute sizes is done here from a
description, so that a plan whose host steps are only these needs no PyTensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pytensor_jaxlink.artifact.arrays import plain_dtype

SizeFunction = Callable[..., tuple[Any, ...]]

UFUNCS = {
    "Add": np.add,
    "Mul": np.multiply,
    "Sub": np.subtract,
    "IntDiv": np.floor_divide,
    "TrueDiv": np.true_divide,
    "Mod": np.mod,
    "Neg": np.negative,
    "Abs": np.absolute,
    "Minimum": np.minimum,
    "Maximum": np.maximum,
    "ScalarMinimum": np.minimum,
    "ScalarMaximum": np.maximum,
    "EQ": np.equal,
    "NEQ": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "Switch": np.where,
    "Cast": np.positive,
    "Identity": np.positive,
    "Floor": np.floor,
    "Ceil": np.ceil,
}
"""By the name of the scalar Op: what computes it on integers, given the declared dtype."""


class ShapeOf:
    """The shape of an array, or one of its lengths, wherever the array is."""

    reads_shape_only = True

    def __init__(self, axis: int | None) -> None:
        self._which = slice(None) if axis is None else axis

    def __call__(self, array: Any) -> tuple[Any, ...]:
        """The shape or the length."""
        return (np.asarray(np.shape(array)[self._which], dtype="int64"),)


def size_function(described: Any) -> SizeFunction:
    """The function of a host step from its description, ``[what, properties...]``."""
    what, *properties = described
    return _MAKERS[what](*properties)


def _elementwise(name: str, dtype: str) -> SizeFunction:
    ufunc, kind = UFUNCS[name], plain_dtype(dtype)

    def function(*values: Any) -> tuple[Any, ...]:
        values = tuple(map(np.asarray, values))
        if isinstance(ufunc, np.ufunc) and ufunc.nin == 2 and len(values) != 2:
            result = values[0]
            for value in values[1:]:
                result = ufunc(result, value)  # sums and products of many
        elif name in ("Cast", "Identity"):
            result = values[0]
        else:
            result = ufunc(*values)
        return (np.asarray(result).astype(kind),)

    return function


def _make_vector(dtype: str) -> SizeFunction:
    kind = plain_dtype(dtype)
    return lambda *values: (np.array([np.asarray(v).item() for v in values], dtype=kind),)


def _same(dtype: str) -> SizeFunction:
    kind = plain_dtype(dtype)
    return lambda value: (np.asarray(value, dtype=kind),)


def _take(entries: Any) -> SizeFunction:
    """Indices are numbers, positions of inputs (``{"input": 1}``), and slices of those."""

    def function(array: Any, *indices: Any) -> tuple[Any, ...]:
        def bound(entry: Any) -> Any:
            match entry:
                case {"input": position}:
                    return np.asarray(indices[position]).item()
                case {"slice": parts}:
                    return slice(*map(bound, parts))
            return entry

        return (np.asarray(np.asarray(array)[tuple(map(bound, entries))]),)

    return function


def _join() -> SizeFunction:
    return lambda *values: (np.concatenate([np.atleast_1d(v) for v in values]),)


def _reduced(name: str, dtype: str) -> SizeFunction:
    ufunc: Any = UFUNCS[name]
    kind = plain_dtype(dtype)
    return lambda value: (np.asarray(ufunc.reduce(np.asarray(value), axis=None)).astype(kind),)


def _dim_shuffle(order: Any) -> SizeFunction:
    def function(value: Any) -> tuple[Any, ...]:
        array = np.asarray(value)
        kept = [axis for axis in order if axis != "x"]
        dropped = tuple(axis for axis in range(array.ndim) if axis not in kept)
        moved = array.transpose([*kept, *dropped])
        moved = moved.reshape(moved.shape[: len(kept)])
        return (np.expand_dims(moved, tuple(k for k, axis in enumerate(order) if axis == "x")),)

    return function


_MAKERS: dict[str, Callable[..., SizeFunction]] = {
    "shape": ShapeOf,
    "elementwise": _elementwise,
    "vector": _make_vector,
    "same": _same,
    "take": _take,
    "join": _join,
    "reduce": _reduced,
    "dim_shuffle": _dim_shuffle,
}
