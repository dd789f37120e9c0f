"""Parts of computed lengths as slices, which selections follow.

The gradient of ``concatenate([full(k, a), full(n - k, b)])`` is a `Split`::

    split(x, [k, n - k])        x[:k], x[k:]
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate, pairwise

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Split

from pytensor_jaxlink.analysis.extents import length_of
from pytensor_jaxlink.rewriting.bounds import entries_of_shape
from pytensor_jaxlink.rewriting.selections import Tensor

Parts = list[tuple[Tensor, Tensor]]
"""Slices, each with the part of a `Split` that it stands for."""


def sliced(fgraph: FunctionGraph, late: Collection[Tensor] | None = None) -> Parts:
    """Put slices in the place of each `Split`, or of those by lengths that are known ``late``."""
    parts: Parts = []
    for node in list(fgraph.apply_nodes):
        if isinstance(node.op, Split) and (late is None or node.inputs[-1] in late):
            parts += zip(_slices(fgraph, node), node.outputs, strict=False)
    fgraph.replace_all([(part, piece) for piece, part in parts], import_missing=True)
    return parts


def put_back(fgraph: FunctionGraph, parts: Parts) -> None:
    """Undo this for the slices that are still there: they break the graph more often."""
    kept = [pair for pair in parts if pair[0] in fgraph.variables]
    fgraph.replace_all(kept, import_missing=True)


def _slices(fgraph: FunctionGraph, node: Apply) -> list[Tensor]:
    axis = _axis(node)
    lengths = list(map(_literal, entries_of_shape(node.inputs[-1])))
    if axis is None or len(lengths) != len(node.outputs):
        return []
    if any((output.type.shape[axis] or 0) < 0 for output in node.outputs):
        return []  # it raises in each call
    whole = length_of(fgraph, node.inputs[0], axis)
    ends = list(accumulate(lengths))
    holds = [pt.eq(ends[-1], whole), *(pt.ge(length, 0) for length in lengths)]
    array: Tensor = CheckAndRaise(ValueError, "the parts are not the whole")(node.inputs[0], *holds)
    bounds = [None, *ends[:-1], None]
    before = [slice(None)] * axis
    return [array[(*before, slice(start, stop))] for start, stop in pairwise(bounds)]


def _literal(length: Tensor) -> Tensor:
    """A length as a 64-bit integer, one of Python if it is literal."""
    return int(length.data) if isinstance(length, Constant) else length.astype("int64")


def _axis(node: Apply) -> int | None:
    """The dimension; before PyTensor 3.1 it is an input."""
    axis = getattr(node.op, "axis", node.inputs[1])
    if isinstance(axis, Constant):
        axis = int(axis.data)
    return axis % node.inputs[0].type.ndim if isinstance(axis, int) else None
