"""Code of regions that equal plans have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pytensor_jaxlink.runtime.clocks import Function


@dataclass(eq=False)
class RegionCode:
    """A region as `jax.jit` compiled it.

    Attributes
    ----------
    compiled
        The function that JAX made.
    closed
        Whether it serves no further shapes, because several functions have it.
    entries
        How many entries it computes.
    shapes
        Those of the arguments for which it was compiled.
    """

    compiled: Function = field(init=False)
    closed: bool = False
    entries: int = 0
    shapes: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])


Meet = Callable[[], RegionCode]
"""Called when a compilation has been counted; gives the code that it becomes."""
