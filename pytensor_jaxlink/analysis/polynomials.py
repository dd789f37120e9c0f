"""Integer expressions as polynomials, to see that a difference does not depend on what varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle

from pytensor_jaxlink.graph import (
    GraphType,
    GraphVariable,
    SymbolicInteger,
    dtype_of,
    entries_of,
    symbolic_integer,
)
from pytensor_jaxlink.graph.integers import Integers

Polynomial = Counter[tuple[int, ...]]
"""The coefficient of each product of atoms; atoms are numbered as they are met."""

DEPTH = 30  # of an expression; deeper ones are atoms


class Polynomials:
    """Reads expressions; equal atoms in different expressions have one number."""

    def __init__(self) -> None:
        self.atoms: list[GraphVariable] = []

    def of(self, variable: GraphVariable, depth: int = DEPTH) -> Polynomial:
        """The polynomial of an integer; what is no sum, difference or product is an atom.

        Arrays are read entry by entry: of vectors of one length the differences are right.
        """
        if isinstance(variable, Constant):
            return self._literal(variable)
        owner = variable.owner
        if owner is None or depth == 0:
            return self._atom(variable)
        if isinstance(owner.op, ScalarFromTensor | TensorFromScalar) or _repeats(owner.op):
            return self.of(owner.inputs[0], depth - 1)
        combine = _COMBINED.get(_scalar_class(owner.op))
        if combine is None or not _is_wide(variable):
            return self._atom(variable)
        return combine([self.of(v, depth - 1) for v in owner.inputs])

    def sum(self, parts: list[Polynomial]) -> Polynomial:
        """The sum of polynomials."""
        return _sum(parts)

    def atoms_of(self, polynomial: Polynomial) -> set[GraphVariable]:
        """The variables of a polynomial."""
        return {self.atoms[number] for product in polynomial for number in product}

    def single(self, polynomial: Polynomial) -> GraphVariable | None:
        """The atom that a polynomial is, or None."""
        products = list(polynomial.items())
        if len(products) != 1 or products[0][1] != 1 or len(products[0][0]) != 1:
            return None
        return self.atoms[products[0][0][0]]

    def substituted(
        self, polynomial: Polynomial, values: Mapping[GraphVariable, int]
    ) -> Polynomial:
        """A polynomial with the values of some atoms in their places."""
        total = Polynomial()
        for product, factor in polynomial.items():
            known = [values[self.atoms[n]] for n in product if self.atoms[n] in values]
            left = tuple(n for n in product if self.atoms[n] not in values)
            total[left] += factor * prod(known)
        return _cleaned(total)

    def expression(self, polynomial: Polynomial) -> SymbolicInteger:
        """The polynomial as a 64-bit integer of PyTensor."""
        total = symbolic_integer(polynomial.get((), 0))
        for product, coefficient in polynomial.items():
            if product:
                term = symbolic_integer(coefficient)
                for number in product:
                    term = term * symbolic_integer(self.atoms[number])
                total = total + term
        return total

    def _literal(self, variable: Constant[GraphType]) -> Polynomial:
        """A number; or a vector as its least entry and the rest, an atom with others like it."""
        data = entries_of(variable)
        if not data.size or data.dtype.kind not in "iu":
            return self._atom(variable)
        least, rest = int(data.min()), data - data.min()
        if not rest.any():
            return Polynomial({(): least} if least else {})
        for known in self.atoms:
            if isinstance(known, Constant) and np.array_equal(_relative(known), rest):
                return self._atom(known, least - int(entries_of(known).min()))
        return self._atom(variable)

    def _atom(self, variable: GraphVariable, more: int = 0) -> Polynomial:
        if variable not in self.atoms:
            self.atoms.append(variable)
        return _cleaned(Polynomial({(self.atoms.index(variable),): 1, (): more}))


def difference(left: Polynomial, right: Polynomial) -> Polynomial:
    """One polynomial less another."""
    result = Polynomial(left)
    result.subtract(right)
    return _cleaned(result)


def constant_value(polynomial: Polynomial) -> int | None:
    """The value of a polynomial that does not depend on anything."""
    return polynomial.get((), 0) if not any(polynomial) else None


def _sum(parts: list[Polynomial]) -> Polynomial:
    total = Polynomial()
    for part in parts:
        total.update(part)
    return _cleaned(total)


def _product(parts: list[Polynomial]) -> Polynomial:
    total = Polynomial({(): 1})
    for part in parts:
        new = Polynomial()
        for left, factor in total.items():
            for right, other in part.items():
                new[tuple(sorted((*left, *right)))] += factor * other
        total = new
    return _cleaned(total)


def _cleaned(polynomial: Polynomial) -> Polynomial:
    return Polynomial({product: factor for product, factor in polynomial.items() if factor})


_COMBINED: dict[type[object], Callable[[list[Polynomial]], Polynomial]] = {
    scalar.Add: _sum,
    scalar.Sub: lambda parts: difference(*parts),
    scalar.Neg: lambda parts: difference(Polynomial(), *parts),
    scalar.Mul: _product,
    scalar.Cast: _sum,
}


def _scalar_class(op: object) -> type[Any]:
    """The class of the scalar Op that an Op applies to each entry, if there is one."""
    scalar_op: object = None if isinstance(op, CAReduce) else getattr(op, "scalar_op", None)
    return type(scalar_op)


def _relative(variable: Constant[GraphType]) -> Integers:
    """The entries of a constant less the least one."""
    data = entries_of(variable)
    return data - data.min()


def _repeats(op: object) -> bool:
    """Return True if an Op only adds or drops dimensions of length 1."""
    return isinstance(op, DimShuffle) and all(axis == "x" for axis in op.new_order)


def _is_wide(variable: GraphVariable) -> bool:
    """Return True if sums and products of sizes, computed in this type, do not overflow it."""
    return dtype_of(variable) in ("int64", "int32")
