"""Slices of a length that does not depend on where they begin.

Pattern::

    x[k : k + 3]
    x[i * size : (i + 1) * size]
    x[k : k + 3] = y

Replacement::

    DynamicSlice(x, k, k + 3, length=3)
    DynamicSlice(x, i * size, (i + 1) * size, length=size)
    DynamicUpdateSlice(x, y, k, k + 3, length=3)

The new operations are `jax.lax.dynamic_slice` and `dynamic_update_slice`, compiled once for all
beginnings.  Where the bounds are computed from data, the region checks that they lie in the array:
NumPy's slice is shorter where they do not, and PyTensor's own implementation finishes such a call.
Where the bounds are known on the host, they are clipped there, and the length that is
left selects the specialisation: the last, shorter batch has its own.

It must not fire where both bounds are literals, nor where the length depends on all that the bounds
depend on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from pytensor.tensor.type import iscalar, lscalar

from pytensor_jaxlink.analysis import BindingTime, binding_times, input_binding_times
from pytensor_jaxlink.analysis.extents import Extents, length_of, tensor_behind
from pytensor_jaxlink.analysis.polynomials import (
    Polynomial,
    Polynomials,
    constant_value,
    difference,
)
from pytensor_jaxlink.graph import GraphView, indices_of
from pytensor_jaxlink.ops import DynamicSlice, DynamicUpdateSlice, is_for_numpy_types
from pytensor_jaxlink.rewriting.bounds import is_one, normalised
from pytensor_jaxlink.rewriting.notes import note, would_break

NAME = "jaxlink_windows"

CONCERNED = (IncSubtensor, Subtensor)
"""The Ops whose slices it replaces."""

_INTEGERS = (lscalar, iscalar)
"""The types of the lengths of slices, in which they do not overflow."""

_WORDS = "a slice of constant length at a computed place became a dynamic slice"


def rewrite_dynamic_slices(
    fgraph: FunctionGraph, changing: Collection[int] = (), *, exact: bool = False
) -> None:
    """Rewrite in place, and note on the graph which breaks are gone.

    Parameters
    ----------
    changing
        The positions of inputs that are computed from data whatever their type.
    exact
        Whether to rewrite slices whose bounds are known on the host, or those whose are not.
    """
    if not any(bounded_axes(node) for node in fgraph.apply_nodes):
        return
    view = GraphView.of(fgraph)
    times = binding_times(view, input_binding_times(view, changing))
    finder = _Finder(fgraph, dict(zip(view.variables, times, strict=True)))
    integers = _Integers(fgraph, view)
    for node in view.nodes:
        parts = [finder.slice_in(node, axis) for axis in bounded_axes(node)]
        found = [part for part in parts if part is not None]
        if not found or len(found) < len(parts) or node not in fgraph.apply_nodes:
            continue
        if all(part.exact for part in found) is not exact:
            continue
        if isinstance(node.op, Subtensor):
            new = _taken(node, found)
        elif len(found) == 1:
            new = _written(node, found[0])
        else:
            continue
        if not exact:
            note(fgraph, view, node, NAME, _WORDS)
        _replace(fgraph, node, new, [part.axis for part in found if not part.exact], integers)


@dataclass(frozen=True)
class _SliceBounds:
    """A dimension, the bounds, and a length that is known before them."""

    axis: int
    bounds: tuple[Any, Any, Any]
    exact: bool


def bounded_axes(node: Apply) -> list[int]:
    """The dimensions that a node slices from one bound to another, not both literals."""
    if not isinstance(node.op, CONCERNED):
        return []
    if isinstance(node.op, IncSubtensor) and is_for_numpy_types(node):
        return []
    return [
        axis
        for axis, index in enumerate(indices_of(node))
        if isinstance(index, slice)
        and index.start is not None
        and index.stop is not None
        and is_one(index.step)
        and not (isinstance(index.start, Constant) and isinstance(index.stop, Constant))
    ]


class _Finder:
    """Finds the dynamic slices of a graph whose values are known at given times."""

    def __init__(self, fgraph: FunctionGraph, times: dict[object, BindingTime]) -> None:
        self.fgraph, self.times, self.terms = fgraph, times, Polynomials()

    def slice_in(self, node: Apply, axis: int) -> _SliceBounds | None:
        """The slice that a node takes in a dimension; None where it is not dynamic."""
        index = indices_of(node)[axis]
        start, stop = tensor_behind(index.start), tensor_behind(index.stop)
        low, high = self.terms.of(start), self.terms.of(stop)
        length = difference(high, low)
        needed = self.terms.atoms_of(length)
        varying = {
            atom
            for atom in self.terms.atoms_of(low) | self.terms.atoms_of(high)
            if self.times[atom] >= BindingTime.HOST
        }
        size = constant_value(length)
        if varying <= needed or (size is not None and size < 1):
            return None
        if any(would_break(self.times[atom]) for atom in needed):
            return None
        if any(would_break(self.times[atom]) for atom in varying):
            return self._found(axis, start, stop, self.terms.expression(length), exact=False)
        whole = length_of(self.fgraph, node.inputs[0], axis)
        start, stop = normalised(start, whole), normalised(stop, whole)
        extent = pt.maximum(stop - start, 0)
        return self._found(axis, start, start + extent, extent, exact=True)

    def _found(self, axis: int, *bounds: Any, exact: bool) -> _SliceBounds:
        start, stop, length = (pt.as_tensor(bound).astype("int64") for bound in bounds)
        return _SliceBounds(axis, (start, stop, length), exact)


def _taken(node: Apply, parts: list[_SliceBounds]) -> Any:
    """The entries that a node takes: by its dynamic slices first, then by its other indices."""
    array: Any = node.inputs[0]
    rest = indices_of(node)
    for part in parts:
        array = DynamicSlice(part.axis, exact=part.exact)(array, *part.bounds)
        rest[part.axis] = slice(None)
    return array[(*rest,)] if any(index != slice(None) for index in rest) else array


def _written(node: Apply, part: _SliceBounds) -> Any:
    """The array with what a node writes into its slice."""
    [array, value, *_], rest, op = node.inputs, indices_of(node), node.op
    rest[part.axis] = slice(None)
    replaces = op.set_instead_of_inc
    if any(index != slice(None) for index in rest):
        block: Any = DynamicSlice(part.axis, exact=part.exact)(array, *part.bounds)
        write = pt.set_subtensor if replaces else pt.inc_subtensor
        value, replaces = write(block[tuple(rest)], value), True
    update = DynamicUpdateSlice(part.axis, exact=part.exact, set_instead_of_inc=replaces)
    return update(array, value, *part.bounds)


_Value = frozenset[tuple[tuple[int, ...], int]]
"""The terms of a polynomial."""


class _Integers:
    """The integers that nodes of a graph compute, found by their value.

    Parameters
    ----------
    fgraph
        The graph.
    view
        The same before it is rewritten.
    """

    def __init__(self, fgraph: FunctionGraph, view: GraphView) -> None:
        self._extents, self._view = Extents(fgraph), view

    def equal(self, length: Variable) -> list[Variable]:
        """Those that are known to be equal to a length."""
        return self._by_value.get(_key(self._extents.of(length)), [])

    @cached_property
    def _by_value(self) -> dict[_Value, list[Variable]]:
        found: dict[_Value, list[Variable]] = {}
        for variable in self._view.variables:
            if variable.owner is not None and variable.type in _INTEGERS:
                found.setdefault(_key(self._extents.of(variable)), []).append(variable)
        return found


def _key(value: Polynomial) -> _Value:
    return frozenset(value.items())


def _replace(
    fgraph: FunctionGraph, node: Apply, new: Any, late: list[int], integers: _Integers
) -> None:
    """Put the slice in, and let its length be read from its shape where it is asked for.

    PyTensor computes the length of a slice from its bounds, which would be known too late.  Its
    rewrites have given the expression other forms by now.
    """
    [old] = node.outputs
    copy_stack_trace(old, new)
    pairs = [(old, new)]
    if isinstance(new.owner.op, DynamicSlice) and hasattr(fgraph, "shape_feature"):
        found = [(v, axis) for axis in late for v in integers.equal(length_of(fgraph, old, axis))]
        needed = set(ancestors([new])) if found else ()
        for equal, axis in found:
            if equal in fgraph.variables and equal not in needed:
                pairs.append((equal, Shape_i(axis)(new).astype(equal.type.dtype)))
    fgraph.replace_all(pairs, import_missing=True, reason=NAME)
