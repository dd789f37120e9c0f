"""How a function takes its arguments and hands on its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Boundary:
    """How a function takes its arguments and hands on its outputs.

    Attributes
    ----------
    accepts
        Whether an array, as JAX traces it, is what the plan takes at a position.
    convert
        Converts an argument that the host reads as it is, or gives None: ask PyTensor.
    cells
        The cells of the inputs that are no arguments, by the positions of these inputs.
    leave
        For the outputs that change their form when they leave, by position, the function.
    """

    accepts: Callable[[int, object], bool]
    convert: Callable[[int, object], object]
    cells: Mapping[int, list[object]]
    leave: Mapping[int, Callable[[object], object]]
