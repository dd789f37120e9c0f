"""The shared variables of loaded functions.  They need no PyTensor."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from pytensor_jaxlink.artifact.compiled.arguments import converter
from pytensor_jaxlink.artifact.signature import Cell, Input
from pytensor_jaxlink.runtime import as_jax_array, brought_along, value_of_state


class SavedState:
    """A shared variable of loaded functions: its value, read and updated by calls."""

    def __init__(self, cell: Cell, storage: list[object], float_type: str) -> None:
        self.name, self.type, self.storage = cell.name, cell.type, storage
        brought_along(self)
        self._convert = converter(Input(cell.name, cell.type), float_type)
        self._on_device = False

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        """The value, as NumPy array or with ``return_internal_type`` as it is; see PyTensor's."""
        return value_of_state(self.storage[0], borrow, return_internal_type)

    def set_value(self, value: object, borrow: bool = False) -> None:
        """Put another value in; it is copied unless ``borrow``."""
        self.storage[0] = self._convert(value if borrow else deepcopy(value))
        if self._on_device:
            self.keep_on_device()

    def keep_on_device(self) -> None:
        """Have the value lie on a device from now on: calls do not move it there."""
        self._on_device = True
        if isinstance(self.storage[0], np.ndarray):
            self.storage[0] = as_jax_array(self.storage[0])

    def __repr__(self) -> str:
        return f"<shared variable {self.name or '(unnamed)'}: {self.storage[0]!r}>"
