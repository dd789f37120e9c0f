"""Which lengths are equal, which are known, and in what are they expressed?

PyTensor never stretches a dimension whose type does not promise length 1.  So what an array is
added to, multiplied with or joined to tells its length.  PyTensor's `ShapeFeature` gives each
length one expression; that others are equal to it is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, singledispatch
from itertools import pairwise
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, Subtensor

from pytensor_jaxlink.analysis.extents import (
    Extents,
    length_expression,
    literal,
    measured,
    tensor_behind,
)
from pytensor_jaxlink.analysis.inner_lengths import shaped_as_outside
from pytensor_jaxlink.analysis.polynomials import Polynomial, constant_value
from pytensor_jaxlink.compat import IfElse, mutable
from pytensor_jaxlink.graph import (
    GraphNode,
    GraphVariable,
    axis_and_parts,
    indices_of,
    inputs_of,
    lengths_of,
    ndim_of,
    nodes_of,
    outputs_of,
    variables_of,
)
from pytensor_jaxlink.ops.fitting import Fitted

Dimension = tuple[GraphVariable, int]
"""An array and one of its axes."""


class Lengths:
    """The classes of equal dimensions of some graphs, found when the first question is asked.

    Parameters
    ----------
    graphs
        The inputs of the graphs after the first stand for the inputs of the first.
    thorough
        Whether to take it that every node runs, those in branches and in the steps of loops too,
        and to ask PyTensor in what each length is expressed, which takes longer.  Otherwise graphs
        with branches relate nothing, and loops say nothing about the inside.
    usual
        Whether to suppose that lengths are equal which are so in almost all calls, where something
        else serves the others: those of a mask and the array that it indexes too.
    """

    def __init__(self, *graphs: FunctionGraph, thorough: bool = False, usual: bool = False) -> None:
        self._graphs, self._thorough, self._usual = graphs, thorough, usual
        self._parents: dict[object, object] = {}
        self._ranks: dict[object, int] = {}
        self._extents: dict[FunctionGraph, Extents] = {}

    def same(self, array: GraphVariable, axis: int, other: GraphVariable, place: int) -> bool:
        """Return True if two lengths are known to be equal."""
        if array is other and axis == place:
            return True
        lengths = lengths_of(array)[axis], lengths_of(other)[place]
        if None not in lengths:
            return lengths[0] == lengths[1]
        for graph in self._graphs:
            shapes: Any = getattr(graph, "shape_feature", None)
            if shapes is None or not {array, other} <= variables_of(graph):
                continue
            try:
                if shapes.same_shape(array, other, axis, place):
                    return True
            except KeyError:  # of an input that no node reads, in PyTensor 3.0
                continue
            except TypeError:  # see `length_expression`
                continue
        if not {(array, axis), (other, place)} <= self._keys.keys():
            return False
        return self.root(array, axis) == self.root(other, place)

    def known(self, array: GraphVariable, axis: int) -> int | None:
        """The length, where it is a number."""
        root = self.root(array, axis)
        return root if isinstance(root, int) else None

    def equal(self, array: GraphVariable, axis: int) -> list[Dimension]:
        """All dimensions that are as long, the inputs' first."""
        return self._classes[self.root(array, axis)]

    def root(self, array: GraphVariable, axis: int) -> Any:
        """The representative of a class: a number, a dimension or an expression."""
        return self._find(self._keys[array, axis])

    def join(self, one: Dimension, other: Dimension) -> None:
        """Note that two lengths are equal."""
        self._unite(self._keys[one], self._keys[other])

    def implied(self, values: Mapping[GraphVariable, int]) -> dict[object, int]:
        """The lengths that follow from the values of integers of the last graph, by `root`.

        Only where the analysis is thorough.
        """
        keys, extents = self._keys.values(), self._extents[self._graphs[-1]]
        known = extents.implied(values)
        found: dict[object, int] = {}
        for atom, number in known.items():
            if (source := extents.dimension(atom)) in self._keys:
                found[self.root(*source)] = number
        for key in keys:
            expressed = key
            if isinstance(key, tuple) and expressed[0] is extents:
                polynomial = Polynomial(dict(expressed[1]))
                number = constant_value(extents.substituted(polynomial, known))
                if number is not None:
                    found[self._find(key)] = max(number, 0)
        return found

    # -- how the classes are found -----------------------------------------------------------------

    @cached_property
    def _keys(self) -> dict[Dimension, Any]:
        keys: dict[Dimension, object] = {}
        first, *others = self._graphs
        self._relate(first, keys)
        for graph in others:
            self._relate(graph, keys)
            for variable, same in zip(inputs_of(graph), inputs_of(first), strict=True):
                self._identify(keys, variable, same)
        return keys

    @cached_property
    def _classes(self) -> dict[object, list[Dimension]]:
        classes: dict[object, list[Dimension]] = {}
        for dimension in self._keys:
            classes.setdefault(self.root(*dimension), []).append(dimension)
        return classes

    def _express(
        self, graph: FunctionGraph, nodes: Sequence[GraphNode], keys: dict[Dimension, object]
    ) -> None:
        extents = None
        if self._thorough:
            extents = self._extents[graph] = Extents(graph)
        read_or_made = (v for n in nodes for v in (*inputs_of(n), *outputs_of(n)))
        for variable in (*inputs_of(graph), *read_or_made):
            for axis in range(_rank(variable)):
                if (variable, axis) not in keys:
                    keys[variable, axis] = key = _key(graph, extents, variable, axis)
                    for each in ((variable, axis), key):  # which others may be expressed in
                        self._ranks.setdefault(each, len(self._ranks))
                    self._unite((variable, axis), key)

    def _relate(self, graph: FunctionGraph, keys: dict[Dimension, object]) -> None:
        nodes = nodes_of(graph)
        self._express(graph, nodes, keys)
        if not self._thorough and any(isinstance(node.op, IfElse) for node in nodes):
            return
        for node in nodes:
            groups = equal_dimensions(node.op, node)
            if self._thorough or self._usual:
                groups = (*groups, *_supposed(node))
            if self._usual and isinstance(node.op, AdvancedSubtensor | AdvancedIncSubtensor):
                groups = (*groups, *_masked(inputs_of(node)[0], indices_of(node)))
            for group in groups:
                for one, other in pairwise(group):
                    self._unite(keys[one], keys[other])
            if self._thorough and isinstance(node.op, Scan | OpFromGraph):
                self._relate_inside(node, keys)

    def _relate_inside(self, node: GraphNode, keys: dict[Dimension, object]) -> None:
        op: Any = node.op
        inner = measured(mutable(op.fgraph))
        self._relate(inner, keys)
        for (variable, less), array in shaped_as_outside(node, inner):
            self._identify(keys, variable, array, less)

    def _identify(
        self, keys: dict[Dimension, object], one: GraphVariable, other: GraphVariable, less: int = 0
    ) -> None:
        """Note that an array has the shape of another one, or of its entries."""
        for axis in range(_rank(one)):
            if (other, axis + less) in keys:
                self._unite(keys[one, axis], keys[other, axis + less])

    def _find(self, key: Any) -> object:
        while key in self._parents:
            key = self._parents[key]
        return key

    def _unite(self, one: object, other: object) -> None:
        one, other = self._find(one), self._find(other)
        if one == other or (isinstance(one, int) and isinstance(other, int)):
            return
        if not isinstance(other, int) and (
            isinstance(one, int) or self._ranks[one] < self._ranks[other]
        ):
            one, other = other, one
        self._parents[one] = other


def _rank(variable: GraphVariable) -> int:
    return len(lengths_of(variable))


def _key(
    graph: FunctionGraph, extents: Extents | None, variable: GraphVariable, axis: int
) -> object:
    if (known := lengths_of(variable)[axis]) is not None:
        return int(known)
    return (variable, axis) if extents is None else _expressed(graph, extents, variable, axis)


def _expressed(graph: Any, extents: Extents, variable: GraphVariable, axis: int) -> object:
    """In what a length is expressed: a number, a dimension of another array, or a polynomial."""
    polynomial = extents.length(variable) if axis == 0 else None
    if polynomial is None or extents.dimension(extents.single(polynomial)) == (variable, axis):
        if variable.owner is None:
            return variable, axis
        size = length_expression(graph, variable, axis)
        if size is None:
            return variable, axis
        polynomial = extents.of(size)
    if (number := constant_value(polynomial)) is not None:
        return number
    source = extents.dimension(extents.single(polynomial))
    return source or (extents, frozenset(polynomial.items()))


# -- which dimensions of a node are equal ----------------------------------------------------------

Groups = Sequence[Sequence[Dimension]]


@singledispatch
def equal_dimensions(op: Op, node: GraphNode) -> Groups:
    """The groups of dimensions of a node's inputs and outputs that are equal when it has run.

    What PyTensor's ``infer_shape`` says need not be said again.
    """
    return ()


def _supposed(node: GraphNode) -> Groups:
    """The groups that are equal in almost all calls; code for open dimensions is for these calls.

    NumPy takes an empty mask for an array of any length, and equal slices of arrays go together if
    what they leave out differs.
    """
    match node.op:
        case Fitted(axis=first):
            array, mask = inputs_of(node)
            return [[(array, first + k), (mask, k)] for k in range(ndim_of(mask))]
        case Elemwise():
            slices: dict[Any, list[GraphVariable]] = {}
            for owner in (v.owner for v in inputs_of(node) if v.owner is not None):
                if isinstance(owner.op, Subtensor) and _only_slices(owner):
                    slices.setdefault(_taken(owner), []).append(owner.inputs[0])
            alike = slices.items()
            return [[(v, axis) for v in each] for (n, *_), each in alike for axis in range(n)]
        case _:
            return ()


def _masked(array: GraphVariable, indices: Sequence[Any]) -> Iterator[list[Dimension]]:
    """The dimensions of an array and of the boolean arrays that index it."""
    axis = 0
    for index in indices:
        kind: Any = getattr(index, "type", None)
        rank = kind.ndim if getattr(kind, "dtype", "") == "bool" else 0
        axes = range(min(rank, _rank(array) - axis))  # of too many indices a call raises
        yield from ([(array, axis + place), (index, place)] for place in axes)
        axis += rank or 1


def _only_slices(node: GraphNode) -> bool:
    op: Any = node.op
    return all(isinstance(entry, slice) for entry in op.idx_list)


def _taken(node: GraphNode) -> tuple[object, ...]:
    """The rank of an array and what is taken of it, equal where the same is taken."""
    op: Any = node.op
    bounds = map(tensor_behind, inputs_of(node)[1:])
    values = (v if (number := literal(v, 0)) is None else number for v in bounds)
    return len(lengths_of(inputs_of(node)[0])), str(op.idx_list), *values


@equal_dimensions.register(Fitted)
def _equal_fitted(op: Fitted, node: GraphNode) -> Groups:
    mask, result = inputs_of(node)[1], outputs_of(node)[0]
    return [[(result, op.axis + k), (mask, k)] for k in range(ndim_of(mask))]


@equal_dimensions.register(Elemwise)
def _equal_elementwise(op: Elemwise, node: GraphNode) -> Groups:
    arrays = [*inputs_of(node), *outputs_of(node)]
    return [
        [(v, axis) for v in arrays if lengths_of(v)[axis] != 1]
        for axis in range(ndim_of(outputs_of(node)[0]))
    ]


@equal_dimensions.register(DimShuffle)
def _equal_dimshuffle(op: DimShuffle, node: GraphNode) -> Groups:
    [array], [result] = inputs_of(node), outputs_of(node)
    return [[(array, k), (result, axis)] for axis, k in enumerate(op.new_order) if k != "x"]


@equal_dimensions.register(CheckAndRaise)
@equal_dimensions.register(SpecifyShape)
def _equal_checked(op: Op, node: GraphNode) -> Groups:
    array, result = inputs_of(node)[0], outputs_of(node)[0]
    return [[(array, axis), (result, axis)] for axis in range(_rank(result))]


@equal_dimensions.register(CAReduce)
def _equal_kept(op: CAReduce, node: GraphNode) -> Groups:
    [array], [result] = inputs_of(node), outputs_of(node)
    gone = range(ndim_of(array)) if op.axis is None else op.axis
    kept = [axis for axis in range(ndim_of(array)) if axis not in gone]
    return [[(array, axis), (result, place)] for place, axis in enumerate(kept)]


@equal_dimensions.register(Dot)
def _equal_product(op: Dot, node: GraphNode) -> Groups:
    (left, right), [result] = inputs_of(node), outputs_of(node)
    across = (left, ndim_of(left) - 1), (right, max(ndim_of(right) - 2, 0))
    along = [(v, k) for v in (left, right) for k in range(ndim_of(v)) if (v, k) not in across]
    return [across, *([each, (result, axis)] for axis, each in enumerate(along))]


@equal_dimensions.register(Join)
def _equal_joined(op: Join, node: GraphNode) -> Groups:
    [result] = outputs_of(node)
    along, parts = axis_and_parts(node)
    if along is None:
        return ()
    axes = [axis for axis in range(ndim_of(result)) if axis != along]
    return [[(array, axis) for array in (*parts, result)] for axis in axes]


@equal_dimensions.register(AdvancedSubtensor)
def _equal_gathered(op: Any, node: GraphNode) -> Groups:
    """Of neighbouring indices that are arrays of integers."""
    [result], index = outputs_of(node), indices_of(node)
    places = [k for k, each in enumerate(index) if not isinstance(each, slice)]
    arrays = [index[place] for place in places]
    if places[-1] - places[0] >= len(places) or any(v.type.dtype == "bool" for v in arrays):
        return ()
    rank = max(ndim_of(v) for v in arrays)
    return [
        [(result, places[0] + axis)]
        + [(v, k) for v in arrays if (k := axis - rank + ndim_of(v)) >= 0 and v.type.shape[k] != 1]
        for axis in range(rank)
    ]


@equal_dimensions.register(Blockwise)
def _equal_batches(op: Blockwise, node: GraphNode) -> Groups:
    groups: dict[object, list[Dimension]] = {}
    signature = (*op.inputs_sig, *op.outputs_sig)
    for array, letters in zip((*inputs_of(node), *outputs_of(node)), signature, strict=True):
        batch = ndim_of(array) - len(letters)
        for axis in range(ndim_of(array)):
            if axis >= batch:
                groups.setdefault(letters[axis - batch], []).append((array, axis))
            elif lengths_of(array)[axis] != 1:
                groups.setdefault(axis, []).append((array, axis))
    return list(groups.values())
