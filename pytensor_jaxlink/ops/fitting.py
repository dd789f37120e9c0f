"""Arrays in the shapes that masks and assignments ask for, where no type promises these shapes.

Rewriting makes them (`rewriting.masks`); no graph that a user writes holds them.  Which shapes meet
is known when JAX traces, so these Ops cost nothing where the shapes agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable

from pytensor_jaxlink.ops.array_op import ArrayOp
from pytensor_jaxlink.ops.input_roles import shape_inputs

Lengths = tuple[Any, ...]
"""A shape: of numbers, or of variables that PyTensor computes with."""


class Fitted(ArrayOp):
    """An array as long as the mask that selects from it.

    The inputs are the array and the mask.  NumPy takes a mask of length 0 for any length.  The
    places that `nonzero` gives have to lie in the array, which may be longer or shorter than the
    mask.  Entries that are not selected may be any.

    Parameters
    ----------
    axis
        The first dimension of the array that the mask selects from.
    by_places
        Whether the places that `nonzero` gives select, and not the mask itself.
    """

    __props__ = ("axis", "by_places")

    def __init__(self, axis: int, *, by_places: bool) -> None:
        self.axis, self.by_places = axis, by_places

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type, with the lengths of the mask."""
        array, mask = (variable.type for variable in inputs)
        kind = array
        shape = self.shape(kind.shape, mask.shape)
        return Apply(self, list(inputs), [kind.clone(shape=shape)()])

    def infer_shape(self, *arguments: Sequence[Lengths]) -> list[Lengths]:
        """The lengths of the mask where it selects.  PyTensor 3.0 passes the graph as well."""
        return [self.shape(*arguments[-1])]

    def shape(self, array: Lengths, mask: Lengths) -> Lengths:
        """The shape of the result, of the shapes of the inputs."""
        return (*array[: self.axis], *mask, *array[self.axis + len(mask) :])

    def check(self, array: tuple[int, ...], mask: tuple[int, ...]) -> None:
        """Raise `IndexError` where a mask of one shape cannot select from an array of another."""
        lengths = array[self.axis : self.axis + len(mask)]
        if any(length not in (0, whole) for length, whole in zip(mask, lengths, strict=True)):
            raise IndexError(f"a mask of shape {mask} does not fit an array of shape {array}")

    def compute(self, array: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Raises `IndexError` as indexing would."""
        if self.by_places:
            _ = np.empty(array.shape)[(*[slice(None)] * self.axis, *np.nonzero(mask))]
        else:
            self.check(array.shape, mask.shape)
        result = np.zeros(self.shape(array.shape, mask.shape), array.dtype)
        both = overlap(array.shape, result.shape)
        result[both] = array[both]
        return result


class Indexable(ArrayOp):
    """An array with one more entry along dimensions that have none, if a mask selects nothing.

    The inputs are the array and the mask.  Rewriting gives all entries that are not selected the
    index 0, which has to be there.

    Parameters
    ----------
    axes
        The dimensions that are indexed.
    """

    __props__ = ("axes",)

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type, with open lengths."""
        kind = inputs[0].type
        shape = [None if axis in self.axes else n for axis, n in enumerate(kind.shape)]
        return Apply(self, list(inputs), [kind.clone(shape=tuple(shape))()])

    def added(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """The padding of each dimension, as `numpy.pad` takes it."""
        return [(0, int(axis in self.axes and n == 0)) for axis, n in enumerate(shape)]

    def compute(self, array: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Raises `IndexError` where the mask selects entries that are not there."""
        added = self.added(array.shape)
        if any(map(any, added)) and mask.any():
            raise IndexError("an index is out of bounds for an axis with size 0")
        return np.pad(array, added)


class Merged(ArrayOp):
    """An array with another one in the place of its first entries, which may be all.

    The inputs are the other one and the array.
    """

    __props__ = ()

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type."""
        return Apply(self, list(inputs), [inputs[1].type()])

    def infer_shape(self, *arguments: Sequence[Lengths]) -> list[Lengths]:
        """The shape of the array.  PyTensor 3.0 passes the graph as well."""
        return [arguments[-1][1]]

    def compute(self, part: np.ndarray, array: np.ndarray) -> np.ndarray:
        """Write the entries into a copy."""
        result, both = array.copy(), overlap(array.shape, part.shape)
        result[both] = part[both]
        return result


class Stretched(ArrayOp):
    """A value in the shape of an array, as assignments broadcast: by value, not by type.

    The inputs are the value and the array.
    """

    __props__ = ()

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type as the value, with the shape of the array."""
        value, array = (variable.type for variable in inputs)
        kind = value
        shape = array.shape
        return Apply(self, list(inputs), [kind.clone(shape=shape)()])

    def infer_shape(self, *arguments: Sequence[Lengths]) -> list[Lengths]:
        """The shape of the array.  PyTensor 3.0 passes the graph as well."""
        return [arguments[-1][1]]

    def compute(self, value: np.ndarray, array: np.ndarray) -> np.ndarray:
        """Raises `ValueError` where the shapes do not go together."""
        return np.broadcast_to(value, array.shape).copy()


def overlap(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[slice, ...]:
    """The entries that two arrays of as many dimensions have in common."""
    return tuple(slice(min(lengths)) for lengths in zip(one, other, strict=True))


@shape_inputs.register(Fitted)
def _shape_inputs_fitted(op: Fitted, node: Apply) -> tuple[int, ...]:
    return () if op.by_places else (1,)


@shape_inputs.register(Stretched)
def _shape_inputs_stretched(op: Stretched, node: Apply) -> tuple[int, ...]:
    return (1,)
