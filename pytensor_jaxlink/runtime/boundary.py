"""How a function takes its arguments and hands on its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytensor_jaxlink.runtime.cells import CellReader


@dataclass(frozen=True)
class Boundary:
    """How a function takes its arguments and hands on its outputs.

    Attributes
    ----------
    accepts
        Whether an array, as JAX traces it, is what the plan takes at a position.
    convert
        Converts an argument that the host reads as it is, or gives None: ask PyTensor.
    kept
        The inputs that are no arguments, by their positions.
    leave
        For the outputs that change their form when they leave, by position, the function.
    """

    accepts: Callable[[int, object], bool]
    convert: Callable[[int, object], object]
    kept: Mapping[int, CellReader]
    leave: Mapping[int, Callable[[object], object]]
