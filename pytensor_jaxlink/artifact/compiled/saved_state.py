"""The shared variables of loaded functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from copy import deepcopy
from typing import Any

import numpy as np

from pytensor_jaxlink.artifact.signature import Cell
from pytensor_jaxlink.runtime import (
    Filter,
    Policy,
    SharedData,
    argument_converter,
    brought_along,
    lend,
    value_of_state,
)


class SavedState:
    """A shared variable of loaded functions: its value, read and updated by calls."""

    def __init__(self, cell: Cell, storage: list[object], float_type: str) -> None:
        self.name, self.type, self.storage = cell.name, cell.type, storage
        self.data = SharedData()
        brought_along(self)
        how = Filter(cell.strict, cell.allow_downcast, float_type=float_type)
        self._convert = argument_converter(cell.name, cell.type, how)

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        """The value, as NumPy array or with ``return_internal_type`` as it is; see PyTensor's."""
        if borrow and not return_internal_type and self.data.has_moved(self.storage[0]):
            return lend(self.storage)
        return value_of_state(self.storage[0], borrow, return_internal_type)

    def set_value(self, value: object, borrow: bool = False) -> None:
        """Put another value in; it is copied unless ``borrow``."""
        new = self._convert(value if borrow else deepcopy(value))
        if isinstance(new, np.ndarray) and not borrow:
            new = self.data.moved_if_large(new)
        self.storage[0] = new

    def keep_on_device(self, policy: Policy) -> None:
        """Have the value lie on a device from now on: calls do not move it there."""
        self.data.move, value = policy.move, self.storage[0]
        if isinstance(value, np.ndarray):  # of a file, or the caller's, who may write into it
            self.storage[0] = self.data.put(value.copy() if value.flags.owndata else value)

    def __repr__(self) -> str:
        return f"<shared variable {self.name or '(unnamed)'}: {self.storage[0]!r}>"


def keep_on_device(states: Sequence[SavedState], read: Set[int | None], policy: Policy) -> None:
    """Have the values lie on a device that regions alone read, by their numbers.

    Those stay that show memory of another one, or the same memory several times: who borrows the
    value of one may write into the memory of both.
    """
    arrays = {k: s.storage[0] for k, s in enumerate(states)}
    arrays = {k: array for k, array in arrays.items() if isinstance(array, np.ndarray)}
    owners = {k: id(a.base if isinstance(a.base, np.ndarray) else a) for k, a in arrays.items()}
    held = Counter(owners.values())
    for k, array in arrays.items():
        if k in read and held[owners[k]] == 1 and array.flags.forc:
            states[k].keep_on_device(policy)
