"""Which mask has as many true entries as a length that is computed?

PyTensor writes the length of ``x[:k]`` in several ways, and the buffers of loops are some entries
longer.  Lengths are compared as polynomials (`analysis.extents`), in which the number of entries
that a mask selects is one atom.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.analysis import range_of
from pytensor_jaxlink.analysis.extents import Extents, length_of, tensor_behind
from pytensor_jaxlink.analysis.polynomials import Polynomial, constant_value, difference
from pytensor_jaxlink.rewriting.entry_bounds import bound_from
from pytensor_jaxlink.rewriting.selections import Tensor

_MOST = 1_000_000
"""A literal that bounds a length is not used beyond it: an array of so many entries is made."""

_TOO_MANY = 1 << 22
"""Entries; to compute as many takes some 10 ms."""

_PASSED = (CheckAndRaise, ScalarFromTensor, TensorFromScalar)


class Counts:
    """The numbers of entries that masks select.

    Parameters
    ----------
    fgraph
        The graph, which is being rewritten.
    new
        What stands for a variable of it now.
    late
        The variables that are known only when a region has run.
    """

    def __init__(
        self, fgraph: FunctionGraph, new: Callable[[Tensor], Tensor], late: Collection[Tensor]
    ) -> None:
        self.graph, self._new, self._late = fgraph, new, late
        self._extents = _Extents(fgraph)
        self._counts: dict[Tensor, Tensor] = {}
        self._written: dict[Tensor, Polynomial] = {}
        self._lengths: dict[Tensor, Polynomial] = {}
        self._resolved: dict[Tensor, Tensor] = {}
        self._stops: dict[Tensor, Tensor] = {}
        self._most: dict[Tensor, int] = {}

    def of(self, mask: object) -> Tensor:
        """The number of entries of a mask: one variable."""
        if mask not in self._counts:
            self._counts[mask] = count = mask.sum(dtype="int64")
            self._extents.counts.add(count)
        return self._counts[mask]

    def summed(self) -> list[tuple[Tensor, Tensor]]:
        """The masks whose entries are summed, each with its sum."""
        return [(m, count) for m, count in self._counts.items() if count in self._extents.counts]

    def know(self, mask: object, count: object) -> None:
        """Take a value for the number of entries of a mask."""
        self._counts.setdefault(mask, count)

    def note_most(self, mask: object, bound: Tensor) -> None:
        """Note the bound of a length that a mask has for its own, if it is a known number."""
        between = range_of(bound)
        if between is not None:
            self._most[mask] = int(between.most)

    def are_too_many(self, masks: Iterable[object]) -> bool:
        """Return True if masks are known to leave far more entries than a call should compute.

        A bound may be far above the length, and the product of two is farther.
        """
        selecting = [mask for mask in masks if mask is not None]
        known = [self._most[mask] for mask in selecting if mask in self._most]
        return 1 < len(known) == len(selecting) and prod(known) > _TOO_MANY

    def bound_by(self, stop: object, mask: object) -> None:
        """Take the length of a mask for a bound of where it stops."""
        self._stops.setdefault(stop, mask)

    def equal(self, one: object, other: object) -> bool:
        """Return True if two masks are known to select as many entries."""
        return self._extents.of(self.of(one)) == self._extents.of(self.of(other))

    def note(self, mask: Tensor, array: Tensor, axis: int) -> None:
        """Note that a mask selects what an array of the old graph has along a dimension."""
        if mask not in self._written:
            length = length_of(self.graph, array, axis)
            if self.counted(length) is None:
                self._lengths[mask] = self.read(length)  # of counts that were noted before
            self._written[mask] = self._extents.of(length)
            self.of(mask)
            self._resolved.clear()

    def same(self, one: object, other: object) -> bool:
        """Return True if two integers without checks are known to be equal."""
        return self.read(one) == self.read(other) and not self.checks([one, other])

    def holds(self, condition: object) -> bool:
        """Return True for the condition that two lengths are equal which are one by now."""
        compared = getattr(tensor_behind(condition), "owner", None)
        if compared is None or not isinstance(getattr(compared.op, "scalar_op", None), scalar.EQ):
            return False
        return self.same(*compared.inputs)

    def checks(self, lengths: Iterable[object]) -> list[Apply]:
        """The checks in lengths of the old graph that `read` passes, and that may fail."""
        found: list[Apply] = []
        met: set[object] = set()
        waiting = [*lengths]
        while waiting:
            length: Tensor = waiting.pop()
            if length in met or length.owner is None:
                continue
            met.add(length)
            value, *conditions = length.owner.inputs
            if not isinstance(length.owner.op, CheckAndRaise):
                waiting += length.owner.inputs if _is_passed(length.owner.op) else ()
                if isinstance(length.owner.op, Shape_i):
                    waiting.append(self._new(length))
                elif _dimension(length) is not None:
                    waiting.append(self._new(value))
                continue
            waiting.append(value)
            if not all(map(self.holds, conditions)):
                found.append(length.owner)
        return found

    def read(self, length: object) -> Polynomial:
        """A length of the old graph as a polynomial of counts."""
        return self._extents.of(self._resolve(length))

    def key(self, length: object) -> tuple[Tensor, ...]:
        """Equal keys of equal lengths."""
        return tuple(sorted(self.read(length).items()))

    def counted(self, length: object) -> tuple[Tensor, int] | None:
        """The mask whose entries a variable counts, and how many more there are; or None."""
        if length.type.ndim or not self._counts:
            return None
        expected = self.read(length)
        for mask, count in self._counts.items():
            more = constant_value(difference(expected, self._extents.of(count)))
            if more is not None:
                return mask, more
        return None

    def may_be_negative(self, length: object) -> bool:
        """Return True for the number of entries that a mask selects, less some."""
        if length.type.ndim or not self.is_late(length):
            return False
        expected = self.read(length)
        least = constant_value(expected)
        found = [difference(expected, self._extents.of(each)) for each in self._counts.values()]
        more = [n for n in (least, *map(constant_value, found)) if n is not None]
        return bool(more) and max(more) < 0

    def _resolve(self, length: object) -> Tensor:
        """A length with counts in the place of what is computed to be equal to them."""
        if length.owner is None:
            return self._new(length)
        if length not in self._resolved:
            self._resolved[length] = self._resolved_anew(length)
        return self._resolved[length]

    def _resolved_anew(self, length: Tensor) -> Tensor:
        written = self._extents.of(length)
        for mask, known in self._written.items():
            if known == written:
                return self._counts[mask]
        if (counted := summed(length)) is not None and self._new(counted) in self._counts:
            return self._counts[self._new(counted)]
        op = length.owner.op
        if isinstance(op, _PASSED):
            return self._resolve(length.owner.inputs[0])
        if (dimension := _dimension(length)) is not None:
            return self._resolve(length_of(self.graph, *dimension))
        if isinstance(op, Elemwise):
            node = op.make_node(*map(self._resolve, length.owner.inputs))
            return self._read_again(node.outputs[length.owner.outputs.index(length)], written)
        return self._new(length)

    def _read_again(self, resolved: Tensor, written: Polynomial) -> Tensor:
        """A length of which parts are counts, or all of it: some more than a mask selects."""
        now = self._extents.of(resolved)
        for mask, known in self._lengths.items():
            if known == now:
                return self._counts[mask]
        if not self._extents.counts.isdisjoint(self._extents.atoms_of(now)):
            return resolved
        for mask, known in self._written.items():
            more = constant_value(difference(written, known))
            if more is not None and constant_value(written) is None:
                return self._counts[mask] + more
        return resolved

    def is_late(self, length: Tensor) -> bool:
        """Return True for a length that depends on counts, or on what a region computes."""
        if length in self._late or self._resolve(length) in self._extents.counts:
            return True
        op = getattr(length.owner, "op", None)
        return _is_passed(op) and any(map(self.is_late, length.owner.inputs))

    def bound(self, length: Tensor, negative: Collection[Tensor] = ()) -> Tensor:
        """An upper bound of a length, or of the entries of an array; known early, or None.

        Parameters
        ----------
        length
            The length, or the array: its bound is for each entry or for all.
        negative
            Integers that are below zero where it counts.
        """
        if length in negative:
            return pt.constant(0, dtype="int64")
        if isinstance(length, Constant):
            return length if np.all(length.data <= _MOST) else None
        if not self.is_late(length):
            return self._new(length)
        if (found := self.counted(length)) is not None:
            mask, more = found
            size = reduce(pt.mul, [Shape_i(axis)(mask) for axis in range(mask.type.ndim)])
            return pt.maximum(pt.add(size, more), 0)
        if length in self._stops:
            return Shape_i(0)(self._stops[length])
        return None if length.owner is None else self._bound_from(length, negative)

    def _bound_from(self, length: Tensor, negative: Collection[Tensor]) -> Tensor:
        owner = length.owner
        if isinstance(owner.op, _PASSED):
            return self.bound(owner.inputs[0], negative)
        if isinstance(owner.op, Elemwise) and isinstance(owner.op.scalar_op, scalar.Switch):
            return self._bound_of_choice(owner.inputs, negative)
        found = bound_from(owner.op, owner, length, _Early(self, negative))
        if found is None and (between := range_of(length)) and between.most <= _MOST:
            return pt.constant(between.most, dtype="int64")
        return found

    def _bound_of_choice(self, inputs: Sequence[Tensor], negative: Collection[Tensor]) -> Tensor:
        """The larger of two bounds; of the smaller one of two numbers either."""
        compared = inputs[0].owner
        compare = getattr(getattr(compared, "op", None), "scalar_op", None)
        below = isinstance(compare, scalar.LT) and getattr(compared.inputs[1], "data", 1) == 0
        one = self.bound(inputs[1], [*negative, compared.inputs[0]] if below else negative)
        bounds = [one, self.bound(inputs[2], negative)]
        known = [bound for bound in bounds if bound is not None]
        least = isinstance(compare, scalar.LT | scalar.LE) and compared.inputs == inputs[1:]
        if not known or (len(known) < len(bounds) and not least):
            return None
        return reduce(pt.minimum if least else pt.maximum, known)


@dataclass(frozen=True)
class _Early:
    """The bounds of what a node reads."""

    counts: Counts
    negative: Collection[Tensor]

    def bound(self, entries: Tensor) -> Tensor:
        return self.counts.bound(entries, self.negative)

    def length(self, array: Tensor, axis: int) -> Tensor:
        return self.counts.bound(length_of(self.counts.graph, array, axis), self.negative)


class _Extents(Extents):
    """Lengths, where the counts of masks are not negative either."""

    def __init__(self, graph: FunctionGraph) -> None:
        super().__init__(graph)
        self.counts: set[Tensor] = set()

    def dimension(self, atom: Tensor) -> tuple[Tensor, int] | None:
        """The array and the axis whose length an atom is."""
        return (atom, 0) if atom in self.counts else super().dimension(atom)


def _is_passed(op: object) -> bool:
    return isinstance(op, (Elemwise, *_PASSED))


def _dimension(length: Tensor) -> tuple[Tensor, int] | None:
    """The array and the axis of which an entry of a shape is the length, or None."""
    array, *index = length.owner.inputs
    shape = getattr(array.owner, "op", None)
    if not (isinstance(length.owner.op, Subtensor) and isinstance(shape, Shape)) or len(index) != 1:
        return None
    axis = tensor_behind(index[0])
    return (array.owner.inputs[0], int(axis.data)) if isinstance(axis, Constant) else None


def summed(length: Tensor) -> Tensor:
    """The booleans of which a number counts the true ones, or None."""
    op = getattr(length.owner, "op", None)
    if length.type.ndim or not isinstance(op, CAReduce) or not isinstance(op.scalar_op, scalar.Add):
        return None
    [counted] = length.owner.inputs
    types = [np.dtype(name or "int64") for name in (length.type.dtype, op.acc_dtype)]
    if counted.type.dtype != "bool" or min(kind.itemsize for kind in types) < 4:
        return None  # a sum of a narrow type wraps
    return counted
