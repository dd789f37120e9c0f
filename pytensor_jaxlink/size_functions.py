"""The arithmetic of sizes, over integers and over symbolic dimensions alike.

A size is an integer, or a symbolic dimension of JAX where it is *open* (`jax.export`).  Arrays of
sizes are NumPy's: of integers, or of objects where a size is open.  The Ops that compute sizes are
described by JSON (`lowering.size_arithmetic`); a plan that needs no others runs without PyTensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import takewhile
from math import prod
from operator import index
from typing import Any

import numpy as np
from jax import core, errors
from jax.export import is_symbolic_dim
from jax.typing import ArrayLike

SizeFunction = Callable[..., tuple[object, ...]]


def is_open(value: Any) -> bool:
    """Return True if a size is open, or one of an array of sizes."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(is_symbolic_dim, value.flat))
    return is_symbolic_dim(value)


def as_integer(value: Any) -> Any:
    """The integer that a value is, or the open size."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    return value if is_symbolic_dim(value) else int(value)


def work_of(shape: Sequence[int]) -> int:
    """The entries of an array; those of an empty one by the lengths before its first 0.

    XLA writes an empty array out, and that takes as long (docs/upstream.md).
    """
    return prod(takewhile(lambda length: length != 0, shape))


def array_of_sizes(sizes: object) -> np.ndarray:
    """One size, or a sequence of them, as an array."""
    array = np.array(sizes, dtype=object)
    return array if is_open(array) else array.astype("int64")


UFUNCS: dict[str, Any] = {
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
    "Cast": np.copy,
    "Identity": np.copy,
    "Floor": np.floor,
    "Ceil": np.ceil,
}
"""By the name of the scalar Op.  On arrays of objects these call the operators of the objects."""


class UndecidedComparisonError(errors.InconclusiveDimensionOperation):
    """A comparison of sizes that holds for some values of open dimensions, and not for others.

    Attributes
    ----------
    difference
        The first size less the other one.  The comparison asks for its sign.
    """

    def __init__(self, one: Any, other: Any) -> None:
        super().__init__(f"{one} >= {other} holds for some sizes, and not for others")
        self.difference = one - other


def at_least(one: Any, other: Any) -> bool:
    """``one >= other``, of two sizes.

    Raises
    ------
    UndecidedComparisonError
        If that is open.
    """
    try:
        return bool(one >= other)
    except errors.InconclusiveDimensionOperation as error:
        raise UndecidedComparisonError(one, other) from error


def _equal(one: object, other: object) -> bool:
    """Return True if two sizes are equal; raise where that is open: JAX's ``==`` says False."""
    return at_least(one, other) and at_least(other, one)


_OF_OPEN = {
    np.equal: np.frompyfunc(_equal, 2, 1),
    np.not_equal: np.frompyfunc(lambda one, other: not _equal(one, other), 2, 1),
    np.less: np.frompyfunc(lambda one, other: not at_least(one, other), 2, 1),
    np.less_equal: np.frompyfunc(lambda one, other: at_least(other, one), 2, 1),
    np.greater: np.frompyfunc(lambda one, other: not at_least(other, one), 2, 1),
    np.greater_equal: np.frompyfunc(at_least, 2, 1),
    np.minimum: np.frompyfunc(core.min_dim, 2, 1),
    np.maximum: np.frompyfunc(core.max_dim, 2, 1),
}


def size_function(described: Any) -> SizeFunction:
    """The function that a description is of, ``[what, properties...]``.

    It raises `TypeError` where the result for open sizes is no size.
    """
    what, *properties = described
    return _MAKERS[what](*properties)


def takes(described: Any, count: int) -> bool:
    """Return True if a described function takes so many inputs."""
    match described:
        case ["vector", *_]:
            return True
        case ["elementwise", "Add" | "Mul", *_]:
            return count > 0
        case ["elementwise", "Switch", *_]:
            return count == 3
        case ["elementwise", name, *_]:
            return count == getattr(UFUNCS[name], "nin", 1)
        case ["join", *first]:
            return count > sum(first)
        case ["take", entries]:
            parts = [part for each in entries for part in _parts(each)]
            return count == 1 + len({each["input"] for each in parts if isinstance(each, dict)})
    return count == 1


def _parts(entry: object) -> Sequence[object]:
    return entry["slice"] if isinstance(entry, dict) and "slice" in entry else [entry]


class ShapeOf:
    """The shape of an array, or one of its lengths, wherever the array is."""

    reads_shape_only = True

    def __init__(self, axis: int | None) -> None:
        self._which = slice(None) if axis is None else axis

    def __call__(self, array: ArrayLike) -> tuple[np.ndarray]:
        """The shape or the length."""
        try:
            return (np.asarray(np.shape(array)[self._which], dtype="int64"),)
        except errors.InconclusiveDimensionOperation:
            return (array_of_sizes(np.shape(array)[self._which]),)


def _dtype(text: str) -> np.dtype:
    dtype = np.dtype(text)
    if not isinstance(text, str) or dtype.kind not in "biuf":
        raise ValueError(f"{text!r} is not a dtype of sizes")
    return dtype


def _declared(result: object, dtype: Any = None) -> tuple[object]:
    """A result with its dtype; of open sizes this is int64."""
    array = np.asarray(result)
    if array.dtype != object and dtype is None:
        return (array,)
    if not is_open(array):
        return (np.asarray(array, dtype or "int64"),)
    if dtype not in (None, np.dtype("int64")):
        raise TypeError(f"an open size has no dtype {dtype}")
    return (array,)


def _elementwise(name: str, dtype: str, same: Any = (), python: object = False) -> SizeFunction:
    """Arithmetic on entries.

    Parameters
    ----------
    same
        The positions of inputs that must be equally long: PyTensor does not stretch them.
    python
        Whether Python's numbers are converted and added, which raise where NumPy's wrap around.
    """
    ufunc, kind, same = UFUNCS[name], _dtype(dtype), tuple(map(index, same))

    def function(*values: object) -> tuple[object, ...]:
        arrays = list(map(np.asarray, values))
        if same and len({arrays[position].shape for position in same}) > 1:
            raise ValueError("vectors of sizes that are combined are not equally long")
        if any(map(is_open, arrays)):
            if kind.kind == "f":
                raise TypeError("a real number that depends on an open size is no size")
            return _declared(_combined(_OF_OPEN.get(ufunc, ufunc), arrays), kind)
        with np.errstate(all="ignore"):
            if python:
                arrays = [array.astype(object) for array in arrays]
            if name == "TrueDiv":
                return (np.asarray(np.true_divide(*arrays, dtype=kind)),)
            result = _combined(ufunc, arrays)
            if python and ufunc is np.copy:
                result = np.frompyfunc(kind.type, 1, 1)(result)
            return (np.asarray(result, dtype=kind),)

    return function


def _combined(ufunc: Any, arrays: list[np.ndarray]) -> Any:
    return reduce(ufunc, arrays) if getattr(ufunc, "nin", 0) == 2 else ufunc(*arrays)


def _make_vector(dtype: str) -> SizeFunction:
    kind = _dtype(dtype)
    return lambda *values: _declared([np.asarray(value).item() for value in values], kind)


def _same(dtype: str) -> SizeFunction:
    kind = _dtype(dtype)
    return lambda value: _declared(value, kind)


def _take(entries: Sequence[object]) -> SizeFunction:
    """Indices are numbers, positions of inputs (``{"input": 1}``), and slices of those."""

    def function(array: object, *indices: object) -> tuple[object, ...]:
        def bound(entry: object) -> Any:
            match entry:
                case {"input": position}:
                    return np.asarray(indices[position]).item()
                case {"slice": parts}:
                    return slice(*map(bound, parts))
            return entry

        return _declared(np.asarray(array)[tuple(map(bound, entries))])

    return function


def _join(first: int = 0) -> SizeFunction:
    """Vectors laid end to end; before the first of them the axis may be an input."""
    return lambda *values: _declared(np.concatenate(list(map(np.atleast_1d, values[first:]))))


def _reduced(name: str, dtype: str) -> SizeFunction:
    ufunc, kind = UFUNCS[name], _dtype(dtype)
    return lambda value: _declared(ufunc.reduce(np.asarray(value), axis=None), kind)


def _dim_shuffle(order: Sequence[Any]) -> SizeFunction:
    def function(value: object) -> tuple[object, ...]:
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
