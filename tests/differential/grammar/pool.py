"""The values of a random graph while it grows, and the choices among them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pytensor.tensor as pt

KINDS = ("vector", "matrix", "size", "scalar", "index", "mask", "sparse", "square", "cube")
"""An index is a vector of integers, a mask one of booleans, a size a scalar integer.

A cube has three axes or more.
"""


@dataclass(frozen=True)
class Value:
    """A value, the step that made it, and a tag: vectors of one tag have one length."""

    variable: Any
    origin: Hashable
    tag: Hashable


class Pool:
    """The values so far, by kind.

    Choices depend on the seed and the step alone, and a choice among values on who made them.  So
    a graph without one of its steps makes the choices that it made with it, which is what lets a
    failing graph be made smaller.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.step, self._drawn = seed, 0, 0
        self.values: dict[str, list[Value]] = {kind: [] for kind in KINDS}
        self.shared: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        self.updates: dict[Any, Any] = {}
        self._tags: dict[Any, Hashable] = {}

    def begin(self, step: int) -> None:
        """Begin a step: its choices depend on its number."""
        self.step, self._drawn = step, 0

    def choose(self, below: int) -> int:
        """A number below another one."""
        self._drawn += 1
        return _mixed(self.seed, self.step, self._drawn) % below

    def one_of(self, options: Sequence[Any]) -> Any:
        """One of several things."""
        return options[self.choose(len(options))]

    def sometimes(self, one_in: int) -> bool:
        """True once in so many times."""
        return self.choose(one_in) == 0

    def add(self, kind: str, variable: Any, origin: Hashable, tag: Hashable = None) -> None:
        """Put a value into the pool."""
        tag = tag or self._tags.get(variable) or ("own", origin)
        self._tags[variable] = tag
        self.values[kind].append(Value(variable, origin, tag))

    def pick(self, kind: str) -> Any:
        """One of the values of a kind."""
        return self._picked(self.values[kind])

    def _picked(self, candidates: Sequence[Value]) -> Any:
        self._drawn += 1
        place = (self.seed, self.step, self._drawn)
        # What was made later is likelier, so that graphs get deep.
        return max(candidates, key=lambda each: _weight(*place, each.origin)).variable

    def with_tag_of(self, variable: Any, like: Any) -> Any:
        """The variable, which has as many entries as another one."""
        if variable.type.ndim == like.type.ndim == 1:
            self._tags.setdefault(variable, self._tags.get(like))
        return variable

    def pair(self) -> tuple[Any, Any]:
        """Two vectors of one length."""
        first = self.pick("vector")
        alike = [each for each in self.values["vector"] if each.tag == self._tags[first]]
        if len(alike) > 1 and not self.sometimes(4):
            return first, self._picked(alike)
        second = self.pick("vector")
        length = pt.minimum(first.shape[0], second.shape[0])
        return first[:length], second[:length]

    def real(self, kind: str = "vector") -> Any:
        """A value of float type, to be differentiated by."""
        return as_float(self.pick(kind))

    def some(self) -> Any:
        """A vector of float type with at least one entry."""
        vector = self.real()
        return pt.concatenate([pt.ones(1, dtype=vector.type.dtype), vector])

    def length(self, most: int = 8) -> Any:
        """A length that is not large, from one of the sizes in its own type."""
        size = self.pick("size")
        return size % pt.constant(most, dtype=size.type.dtype) if most else size


def as_float(value: Any) -> Any:
    """The value, or the value as float64 where it is of another kind than floating point."""
    if value.type.dtype in ("float32", "float64"):
        return value
    if value.type.dtype.startswith("complex"):
        value = abs(value)
    return pt.cast(value, "float64")


def converted(value: Any, dtype: str) -> Any:
    """The value in another type: C leaves open what an unsigned one makes of -1.5.

    To the narrower types all compilers go through an int32.
    """
    if dtype in ("uint32", "uint64") and value.type.dtype.startswith(("float", "complex")):
        value = pt.cast(as_float(value), "int64")
    return pt.cast(value, dtype)


def _mixed(*parts: Any) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def _weight(*parts: Any) -> float:
    origin = parts[-1]
    uniform = (_mixed(*parts) + 1) / 2**64
    return uniform ** (1 / (3 if isinstance(origin, int) else 1))
