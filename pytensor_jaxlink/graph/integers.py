"""Symbolic integers, and the entries of constant ones, with types that a checker knows."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant

from pytensor_jaxlink.graph.types import GraphType, GraphVariable

Integers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class SymbolicInteger(Protocol):
    """The arithmetic of PyTensor's integers."""

    def __add__(self, other: SymbolicInteger, /) -> SymbolicInteger:
        """The sum."""
        ...

    def __mul__(self, other: SymbolicInteger, /) -> SymbolicInteger:
        """The product."""
        ...


def symbolic_integer(value: int | GraphVariable) -> SymbolicInteger:
    """A number or a variable as a 64-bit integer of PyTensor."""
    if isinstance(value, int):
        return pt.constant(value, dtype="int64")
    return pt.as_tensor(value).astype("int64")


def new_integer() -> GraphVariable:
    """A 64-bit integer that nothing computes."""
    return pt.lscalar()


def entries_of(variable: Constant[GraphType]) -> Integers:
    """The entries of a constant of integers."""
    return np.asarray(variable.data)
