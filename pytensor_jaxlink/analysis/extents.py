"""How long arrays are: polynomials that also know of minima, as the lengths of slices are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytensor.graph.fg import FunctionGraph
from pytensor.scalar import basic as scalar
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, AllocEmpty, ScalarFromTensor
from pytensor.tensor.rewriting.shape import ShapeFeature
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pytensor_jaxlink.analysis.polynomials import (
    DEPTH,
    Polynomial,
    Polynomials,
    constant_value,
    difference,
)
from pytensor_jaxlink.graph import (
    GraphNode,
    GraphVariable,
    indices_of,
    inputs_of,
    leading_indices,
    lengths_of,
    ndim_of,
    new_integer,
    outputs_of,
    readers_of,
)

_LESS, _MORE = (scalar.LT, scalar.LE), (scalar.GT, scalar.GE)


class Extents(Polynomials):
    """Reads integers and the lengths of the arrays of a graph, along their first dimension.

    ``min(a, b)`` is ``b + min(a - b, 0)``, the last term an atom.  So ``n - min(1, n)``,
    ``switch(n - 1 < 0, 0, n - 1)`` and the length of ``x[1:]`` are one polynomial.
    """

    def __init__(self, graph: FunctionGraph) -> None:
        super().__init__()
        self._graph = graph
        self._read: dict[GraphVariable, Polynomial] = {}
        self._below: dict[frozenset[tuple[tuple[int, ...], int]], Polynomial] = {}
        self._choices: dict[tuple[Any, ...], GraphVariable] = {}
        self._lengths: dict[GraphVariable, Polynomial] = {}
        self._made: dict[tuple[GraphVariable, int], Any] = {}

    def of(self, variable: GraphVariable, depth: int = DEPTH) -> Polynomial:
        """The polynomial of an integer; each is read once, because choices repeat terms."""
        if variable not in self._read:
            self._read[variable] = self._of(variable, depth)
        return self._read[variable]

    def _of(self, variable: GraphVariable, depth: int) -> Polynomial:
        if (source := measured_by(variable)) is not None:
            return self._shape(*source)
        op = getattr(getattr(variable.owner, "op", None), "scalar_op", None)
        if depth == 0 or not isinstance(op, scalar.Switch | scalar.Minimum | scalar.Maximum):
            return super().of(variable, depth)
        parts = [self.of(v, depth - 1) for v in variable.owner.inputs]
        if isinstance(op, scalar.Switch):
            return self._chosen(variable, parts[1], parts[2], depth)
        if len(parts) != 2:
            return super().of(variable, depth)
        return self._least(*parts) if isinstance(op, scalar.Minimum) else self._most(*parts)

    def plus(self, index: Polynomial, number: int) -> Polynomial:
        """A polynomial and a number."""
        return self.sum([index, Polynomial({(): number})])

    def length(self, array: GraphVariable) -> Polynomial:
        """The length of an array along its first dimension."""
        if array not in self._lengths:
            self._lengths[array] = self._measured(array)
        return self._lengths[array]

    def dimension(self, atom: GraphVariable | None) -> tuple[GraphVariable, int] | None:
        """The array and the axis whose length an atom is; lengths are not negative."""
        owner = getattr(atom, "owner", None)
        if owner is None or not isinstance(owner.op, Shape_i):
            return None
        return owner.inputs[0], owner.op.i

    def implied(self, values: Mapping[GraphVariable, int]) -> dict[GraphVariable, int]:
        """The values of atoms that follow from those of some integers."""
        found: dict[GraphVariable, int] = {}
        for variable, value in sorted(values.items(), key=lambda each: len(self.of(each[0]))):
            rest = self.substituted(self.of(variable), found)
            number = rest.pop((), 0)
            if (atom := self.single(rest)) is not None:
                found[atom] = value - number
        for least, atom in self._below.items():
            number = constant_value(self.substituted(Polynomial(dict(least)), found))
            if number is not None and (below := self.single(atom)) is not None:
                found[below] = min(number, 0)
        return found

    def places(self, taken: slice, array: GraphVariable) -> range | None:
        """The places that a slice takes of an array, where all that is needed are numbers."""
        length, given = constant_value(self.length(array)), (taken.start, taken.stop, taken.step)
        bounds = [literal(bound, 0) for bound in given]
        if length is None or None in bounds:
            return None
        pairs = zip(given, bounds, strict=True)
        return range(length)[slice(*(None if bound is None else v for bound, v in pairs))]

    def _chosen(
        self, variable: GraphVariable, yes: Polynomial, no: Polynomial, depth: int
    ) -> Polynomial:
        """The smaller or the larger one of two numbers that a `Switch` has compared."""
        test = variable.owner.inputs[0].owner
        compare = getattr(getattr(test, "op", None), "scalar_op", None)
        if not isinstance(compare, (*_LESS, *_MORE)):
            return super().of(variable, depth)
        left, right = (self.of(v, depth - 1) for v in test.inputs)
        if isinstance(compare, _MORE):
            left, right = right, left
        if (yes, no) == (left, right):
            return self._least(left, right)
        if (yes, no) == (right, left):
            return self._most(left, right)
        equal = isinstance(compare, scalar.LE | scalar.GE)
        parts = difference(left, right), yes, no
        key = equal, *(frozenset(part.items()) for part in parts)
        return super().of(self._choices.setdefault(key, variable), depth)

    def _least(self, left: Polynomial, right: Polynomial) -> Polynomial:
        return self.sum([right, self._below_zero(difference(left, right))])

    def _most(self, left: Polynomial, right: Polynomial) -> Polynomial:
        return difference(left, self._below_zero(difference(left, right)))

    def _below_zero(self, value: Polynomial) -> Polynomial:
        """A polynomial where it is negative, and 0 elsewhere."""
        number = constant_value(value)
        if number is not None:
            return self.plus(Polynomial(), min(number, 0))
        lengths_only = all(self.dimension(atom) is not None for atom in self.atoms_of(value))
        if lengths_only and min(value.values()) > 0:
            return Polynomial()
        if value[min(product for product in value if product)] < 0:
            return self.sum([value, self._below_zero(difference(Polynomial(), value))])
        key = frozenset(value.items())
        if key not in self._below:
            self._below[key] = super().of(new_integer())
        return self._below[key]

    def _measured(self, array: GraphVariable) -> Polynomial:
        if (known := lengths_of(array)[0]) is not None:
            return self.plus(Polynomial(), known)
        op = getattr(array.owner, "op", None)
        if isinstance(op, Alloc | AllocEmpty):
            return self.of(array.owner.inputs[isinstance(op, Alloc)])
        if isinstance(op, IncSubtensor):
            return self.length(array.owner.inputs[0])
        buffer = _buffer_of(array)
        if buffer is not None:
            return self.length(buffer) if ndim_of(buffer) else self.of(buffer)
        sliced = self._of_slice(array.owner) if isinstance(op, Subtensor) else None
        return self._shape(array) if sliced is None else sliced

    def _of_slice(self, node: GraphNode) -> Polynomial | None:
        """The length of a slice, where it depends on the length of the array alone, or None."""
        taken = slice_of(node)
        if taken is None:
            return None
        [array, *_] = inputs_of(node)
        known = self.places(taken, array)
        if known is not None:
            return self.plus(Polynomial(), len(known))
        whole = self.length(array)
        begins = taken.start is None and literal(taken.step, 1) == 1
        if begins and taken.stop is not None and self.of(taken.stop) == whole:
            return whole
        left_out = _left_out(taken)
        if not left_out:
            return None if left_out is None else whole
        return self._most(self.plus(whole, -left_out), Polynomial())

    def _shape(self, array: GraphVariable, axis: int = 0) -> Polynomial:
        """The length of an array as a number or an atom."""
        if (known := lengths_of(array)[axis]) is not None:
            return self.plus(Polynomial(), known)
        for reader in readers_of(self._graph, array):
            if isinstance(reader.op, Shape_i) and reader.op.i == axis:
                return super().of(outputs_of(reader)[0])
        if (array, axis) not in self._made:
            self._made[array, axis] = Shape_i(axis)(array)
        return super().of(self._made[array, axis])


def measured_by(variable: GraphVariable) -> tuple[GraphVariable, int] | None:
    """The array and the axis whose length a variable is, read from a shape; or None."""
    owner = variable.owner
    if owner is None or ndim_of(variable):
        return None
    if isinstance(owner.op, Shape_i):
        return owner.inputs[0], owner.op.i
    shape = owner.inputs[0].owner if isinstance(owner.op, Subtensor) else None
    if shape is None or not isinstance(shape.op, Shape):
        return None
    [index] = indices_of(owner)
    place = None if isinstance(index, slice) else literal(tensor_behind(index), 0)
    return None if place is None else (shape.inputs[0], place % ndim_of(shape.inputs[0]))


def slice_of(node: GraphNode) -> slice[Any, Any, Any] | None:
    """The slice that a `Subtensor` takes along the first dimension, if it takes nothing else."""
    taken, *rest = leading_indices(node)
    is_slice = isinstance(taken, slice)
    if not is_slice or any(other != slice(None) for other in rest):
        return None
    parts: list[object] = [getattr(taken, name) for name in ("start", "stop", "step")]
    return slice(*(v if v is None else tensor_behind(v) for v in parts))


def literal(bound: object, default: int) -> int | None:
    """The value of a bound of a slice, or None if it is no literal."""
    if bound is None:
        return default
    value = getattr(bound, "data", None)
    return None if value is None else int(value)


def _left_out(taken: slice) -> int | None:
    """How many entries a slice leaves out at one end, if it leaves none out at the other."""
    start, stop, step = literal(taken.start, 0), literal(taken.stop, 0), literal(taken.step, 1)
    if start is None or stop is None or (taken.start is not None and taken.stop is not None):
        return None
    if step == 1 and start >= 0 and stop <= 0 and (stop or taken.stop is None):
        return start - stop
    if step == -1 and start <= 0 and taken.stop is None and (start or taken.start is None):
        return max(-1 - start, 0)
    return None


def tensor_behind(bound: object) -> Any:
    """The tensor that a bound of a slice was made of."""
    owner = getattr(bound, "owner", None)
    if owner is not None and isinstance(owner.op, ScalarFromTensor):
        return owner.inputs[0]
    return bound


def _buffer_of(array: GraphVariable) -> GraphVariable | None:
    """The buffer that decides the length of an array that a loop leaves, or None.

    The array that it is given, or a number for one that no step reads.
    """
    op = getattr(array.owner, "op", None)
    if not isinstance(op, Scan) or op.info.as_while:
        return None
    info, place = op.info, array.owner.outputs.index(array)
    states = info.n_mit_mot + info.n_mit_sot + info.n_sit_sot
    if place < states:
        return array.owner.inputs[1 + info.n_seqs + place]
    if place < states + info.n_nit_sot:
        return array.owner.inputs[1 + info.n_seqs + info.n_untraced_sit_sot + place]
    return None


def length_of(fgraph: Any, array: GraphVariable, axis: int) -> Any:
    """The length of an array of a graph, traced back to the inputs where PyTensor can."""
    if hasattr(fgraph, "shape_feature") and array in fgraph.variables:
        found = length_expression(fgraph, array, axis)
        if found is not None:
            return found
    length: Any = Shape_i(axis)
    return length(array)


def length_expression(graph: Any, array: GraphVariable, axis: int) -> Any:
    """PyTensor's expression for a length; None where it finds none.

    The difference of an int64 and a uint64 is a float, which PyTensor takes for no length, and it
    refuses the length of ``x.reshape((-2,))``.
    """
    try:
        return graph.shape_feature.get_shape(array, axis)
    except (TypeError, ValueError):
        return None


def measured(graph: Any) -> FunctionGraph:
    """A graph of the same variables, of which PyTensor knows the shapes."""
    return FunctionGraph(graph.inputs, graph.outputs, clone=False, features=[ShapeFeature()])
