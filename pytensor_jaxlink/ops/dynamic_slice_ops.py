"""Slices whose length JAX knows although it does not know where they begin.

Rewriting makes them (`rewriting.dynamic_slices`); no graph that a user writes holds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable

from pytensor_jaxlink.ops.array_op import ArrayOp


class DynamicSlice(ArrayOp):
    """``array[start:stop]`` in one dimension, of a length that is known earlier than the bounds.

    The inputs are the array, the bounds and the length.  Python slices by the bounds, and JAX takes
    as many entries as the length says, if they lie in the array and end at ``stop``.

    Parameters
    ----------
    axis
        The dimension.
    exact
        Whether the bounds are clipped, and the length is always their difference.
    """

    __props__ = ("axis", "exact")

    def __init__(self, axis: int, *, exact: bool) -> None:
        self.axis, self.exact = axis, exact

    def inexact(self) -> DynamicSlice:
        """The same Op for bounds that may be less far apart than the length says."""
        return DynamicSlice(self.axis, exact=False)

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type, with an open length in the dimension."""
        [array, *_] = inputs
        return Apply(self, list(inputs), [_open_along(self.axis, array)])

    def compute(self, array: np.ndarray, *bounds: np.ndarray) -> np.ndarray:
        """Slice by the bounds."""
        start, stop, _ = bounds
        return array[self._index(start, stop)].copy()

    def _index(self, start: np.ndarray, stop: np.ndarray) -> tuple[slice, ...]:
        return (*[slice(None)] * self.axis, slice(int(start), int(stop)))


class DynamicUpdateSlice(DynamicSlice):
    """``array[start:stop] = value``, or ``+=``, on a copy; see `DynamicSlice`.

    The inputs are the array, the value, the bounds and the length.

    Parameters
    ----------
    set_instead_of_inc
        Whether the value replaces what is there, or is added to it.
    """

    __props__ = ("axis", "exact", "set_instead_of_inc")

    def __init__(self, axis: int, *, exact: bool, set_instead_of_inc: bool) -> None:
        super().__init__(axis, exact=exact)
        self.set_instead_of_inc = set_instead_of_inc

    def inexact(self) -> DynamicUpdateSlice:
        """The same Op for bounds that may be less far apart than the length says."""
        return DynamicUpdateSlice(
            self.axis, exact=False, set_instead_of_inc=self.set_instead_of_inc
        )

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type."""
        return Apply(self, list(inputs), [inputs[0].type()])

    def compute(self, array: np.ndarray, *value_and_bounds: np.ndarray) -> np.ndarray:
        """Write by the bounds."""
        value, start, stop, _ = value_and_bounds
        result, index = np.array(array), self._index(start, stop)
        if self.set_instead_of_inc:
            result[index] = value
        else:
            result[index] += value
        return result


class Realign(ArrayOp):
    """An array moved along one dimension, so that a part of it lies where another one's does.

    The inputs are the array, the bounds of the part, the bounds of the place where it has to lie,
    and the length of the result.  What is outside of the part is anything.

    Parameters
    ----------
    axis
        The dimension.
    stretch
        Whether a part of one entry fits every place, as in NumPy's assignments.
    same_bounds
        Whether both pairs of bounds come from the same indices: then they are equal where the
        arrays are equally long, and the array stays as it is.
    """

    __props__ = ("axis", "stretch", "same_bounds")

    def __init__(self, axis: int, *, stretch: bool, same_bounds: bool) -> None:
        self.axis, self.stretch, self.same_bounds = axis, stretch, same_bounds

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type, with an open length in the dimension."""
        return Apply(self, list(inputs), [_open_along(self.axis, inputs[0])])

    def compute(self, array: np.ndarray, *bounds: np.ndarray) -> np.ndarray:
        """Raises `ValueError` where the parts are not equally long, as adding them would."""
        start, stop, new_start, new_stop, length = bounds
        parts = max(stop - start, 0), max(new_stop - new_start, 0)
        if parts[0] != parts[1] and not (self.stretch and parts[0] == 1):
            raise ValueError(f"Slices of {parts[1]} and {parts[0]} entries cannot be combined")
        if not self.same_bounds or array.shape[self.axis] != length:
            shape = list(array.shape)
            shape[self.axis] = int(length)
            part = array.take(range(start, stop), axis=self.axis)
            array = np.zeros(shape, array.dtype)
            array[(*[slice(None)] * self.axis, slice(int(new_start), int(new_stop)))] = part
        return array.copy()


def _open_along(axis: int, array: Variable) -> Variable:
    """An array of the same type, with an open length in a dimension."""
    kind: Any = array.type
    return kind.clone(shape=(*kind.shape[:axis], None, *kind.shape[axis + 1 :]))()
