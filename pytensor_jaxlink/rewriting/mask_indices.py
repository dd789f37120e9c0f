"""Indices with one boolean array, which selects entries by data::

x[mask]        x[2, mask]        x[nonzero(mask)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Nonzero

from pytensor_jaxlink.graph import indices_of
from pytensor_jaxlink.rewriting.selections import Tensor, is_literal


@dataclass(frozen=True)
class MaskIndex:
    """An index with one mask in it.

    Attributes
    ----------
    axis
        The first dimension that the mask selects from, after ``beside`` has been applied.
    mask
        The mask.
    beside, by_places
        See `Destination`.
    """

    axis: int
    mask: Tensor
    beside: tuple[Tensor, ...] | None = None
    by_places: bool = False


def mask_of(node: Apply, new: Callable[[Tensor], Tensor]) -> MaskIndex | None:
    """The index of a node with one boolean array, beside literals and scalars next to it."""
    indices = indices_of(node)
    if (mask := _all_of_nonzero(indices)) is not None:
        return MaskIndex(0, mask, by_places=True)
    masks = [k for k, i in enumerate(indices) if _dtype_of(i) == "bool"]
    if len(masks) != 1:
        return None
    [place] = masks
    mask, beside = indices[place], [*indices]
    beside[place : place + 1] = [slice(None)] * mask.type.ndim
    scalars = [k for k, i in enumerate(indices) if not isinstance(i, slice) and k != place]
    if any(indices[k].type.ndim for k in scalars):
        return None
    together = sorted([*scalars, place])
    if together != list(range(together[0], together[-1] + 1)):
        return None  # NumPy puts the selection first then
    if not all(is_literal(i) for i in indices if isinstance(i, slice)):
        return None
    axis = place - sum(k < place for k in scalars)
    if all(index == slice(None) for index in beside):
        return MaskIndex(axis, mask)
    others = tuple(i if isinstance(i, slice) else new(i) for i in beside)
    return MaskIndex(axis, mask, others)


def _all_of_nonzero(indices: Sequence[Tensor]) -> Tensor:
    """The boolean array whose true places the indices are, or None."""
    owner = getattr(indices[0], "owner", None)
    if owner is None or not isinstance(owner.op, Nonzero):
        return None
    count = len(owner.outputs)
    if list(indices[:count]) != owner.outputs or any(i != slice(None) for i in indices[count:]):
        return None
    mask = owner.inputs[0]
    return mask if mask.type.dtype == "bool" else None


def _dtype_of(index: object) -> str | None:
    return getattr(getattr(index, "type", None), "dtype", None)
