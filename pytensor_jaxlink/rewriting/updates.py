"""How what is written to a part of an array passes through."""

from __future__ import annotations

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.subtensor import IncSubtensor

from pytensor_jaxlink.graph import indices_of, is_vector_of_places
from pytensor_jaxlink.ops import Merged, Stretched, is_for_numpy_types
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    follow,
    written_to,
)


@follow.register(IncSubtensor)
def _follow_update(op: object, node: Apply, known: Known) -> Results:
    return follow_scatter(node, known)


def follow_scatter(node: Apply, known: Known) -> Results:
    """Back into an array: a selection by the same masks, or one value for all."""
    op = node.op
    base = node.inputs[0]
    found = None if is_for_numpy_types(node) else known.target(node)
    if found is None:
        return None
    whole, there, old = known.chosen(base), found.array, found.entries.full
    chosen = value_written(node, found.entries, known)
    if chosen is None:
        return None
    new = chosen.full if found.by_places else _stretched(chosen.full, old)
    new = new if op.set_instead_of_inc else old + new
    if new.type.dtype.startswith("complex") and not base.type.dtype.startswith("complex"):
        new = pt.real(new)  # as NumPy does
    written = Selection(pt.cast(new, base.type.dtype), chosen.masks).masked(old)
    if old is not there:
        written = Merged()(written, there)
    if found.beside is not None:
        written = pt.set_subtensor(there, written)
    return [Selection(written, whole.masks)]


def value_written(node: Apply, entries: Selection, known: Known) -> Selection | None:
    """The value that a node writes, as a selection like the entries to which it is written."""
    stretch = not is_vector_of_places(indices_of(node))
    return written_to(entries, node.inputs[1], known, stretch=stretch)


def _stretched(value: object, array: object) -> Tensor:
    """A value that goes together with an array, where no type promises that it does."""
    lengths = zip(value.type.shape, array.type.shape, strict=True)
    open_ = any(length != 1 and (length is None or length != whole) for length, whole in lengths)
    return Stretched()(value, array) if open_ else value
