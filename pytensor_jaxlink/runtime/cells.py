"""The value of an input that no caller gives, as calls read it.

An array of NumPy's costs each call a copy and a transfer, 4 us, and to move it to the device takes
as long as ten of these.  So an array that ten calls have read is moved, unless somebody else holds
it: who does may write into it.  A value that is set before each call stays with NumPy.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pytensor_jaxlink.runtime.devices import detached
from pytensor_jaxlink.runtime.forks import is_forked_child
from pytensor_jaxlink.runtime.typed_jax import ARRAY

_LARGE = 4096
"""Bytes; to move more pays before a second call."""

_PATIENCE = 10
"""Calls that read a smaller array before it is moved."""

Move = Callable[[np.ndarray], object]
"""Puts an array on a device, or gives it back where it has to stay."""


class SharedData:
    """The data of a variable, which may lie on a device though no function has computed it.

    Attributes
    ----------
    move
        Moves it; None where it stays.
    """

    _moved: weakref.ref[object] | None = None

    def __init__(self, move: Move | None = None) -> None:
        self.move = move

    def moved_if_large(self, value: np.ndarray) -> object:
        """An array that is set, on the device where it is large; see `moved`."""
        return self.moved(value) if value.nbytes >= _LARGE else value

    def moved(self, value: np.ndarray) -> object:
        """The array on the device, where it owns its memory.

        The caller knows that nobody else holds the array: who does may write into it, and the
        function has to see that.
        """
        return self.put(value) if value.flags.owndata else value

    def put(self, value: np.ndarray) -> object:
        """The array on the device; nobody may write into its memory."""
        if self.move is None or is_forked_child():
            return value
        array = self.move(value)
        self._moved = weakref.ref(array)
        return array

    def has_moved(self, array: object) -> bool:
        """Return True for an array that no function has computed."""
        return self._moved is not None and self._moved() is array


class CellReader:
    """An input that keeps its value between calls; called, it gives the value.

    Attributes
    ----------
    cell
        The list that holds the value.
    """

    __slots__ = ("_calls", "_move", "_seen", "cell")

    def __init__(self, cell: list[object], move: Move | None) -> None:
        self.cell, self._move = cell, move
        self._calls = 0
        self._seen: Callable[[], object] = _nothing

    def __call__(self) -> object:
        """The value, or a copy of NumPy's, which JAX may read when the call has returned."""
        value = self.cell[0]
        if type(value) is ARRAY:
            return value
        if self._move is not None and type(value) is np.ndarray:
            if self._seen() is not value:
                self._seen, self._calls = weakref.ref(value), 0
            self._calls += 1
            if self._calls >= _PATIENCE:
                del value
                self._moved(self._move)
                value = self.cell[0]
        return detached(value)

    def _moved(self, move: Move) -> None:
        self._calls, cell = 0, self.cell
        if not holds_alone(cell):
            return
        value: Any = cell[0]
        if type(value) is not np.ndarray:  # another thread has set another
            return
        array = move(value)
        if cell[0] is value:  # nothing is called until it is stored: no value that is set is lost
            cell[0] = array


def _nothing() -> None:
    return None


def holds_alone(cell: list[object]) -> bool:
    """Return True if nobody but the cell holds its value."""
    return _references(cell) <= _IN_CELL


def _references(cell: list[object]) -> int:
    return sys.getrefcount(cell[0])


_IN_CELL = _references([np.zeros(1)])
