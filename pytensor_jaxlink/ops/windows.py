"""Slices whose length JAX knows although it does not know where they begin.

Rewriting makes them (`rewriting.windows`); no graph that a user writes holds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op


class Window(Op):
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

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type, with an open length in the dimension."""
        [array, *_] = inputs
        kind: Any = array.type
        shape = (*kind.shape[: self.axis], None, *kind.shape[self.axis + 1 :])
        return Apply(self, list(inputs), [kind.clone(shape=shape)()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Slice by the bounds."""
        array, start, stop, _ = inputs
        output_storage[0][0] = array[self._index(start, stop)].copy()

    def _index(self, start: Any, stop: Any) -> tuple[slice, ...]:
        return (*[slice(None)] * self.axis, slice(int(start), int(stop)))


class WindowUpdate(Window):
    """``array[start:stop] = value``, or ``+=``, on a copy; see `Window`.

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

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type."""
        return Apply(self, list(inputs), [inputs[0].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Write by the bounds."""
        array, value, start, stop, _ = inputs
        result, index = np.array(array), self._index(start, stop)
        if self.set_instead_of_inc:
            result[index] = value
        else:
            result[index] += value
        output_storage[0][0] = result
