"""Static values as keys of specialisations."""

from __future__ import annotations

from typing import Any

import numpy as np


class _Real(float):
    """A real number that equals itself alone: 0.0 is not -0.0, and NaN is NaN."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is _Real and self.hex() == other.hex()

    def __ne__(self, other: object) -> bool:
        return not self == other  # or it would be that of floats

    def __hash__(self) -> int:
        return hash(self.hex())


def hashable(value: object) -> Any:
    """A size, or a vector of sizes, as Python's numbers: equal values share a specialisation."""
    size: Any = value
    if isinstance(value, np.ndarray):
        size = size.item() if value.ndim == 0 else tuple(size.tolist())
    elif isinstance(value, np.generic):
        size = size.item()
    elif isinstance(value, list):
        size = tuple(size)
    return _Real(size) if type(size) is float else size
