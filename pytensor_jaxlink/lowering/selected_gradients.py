"""Derivatives of selections, where the user lets JAX differentiate.

A selection is a full array whose other entries are replaced in the end: ``where(mask, log(x), 0)``.
JAX multiplies the zeros that come back for these by the derivative there, and zero times infinity
or NaN is NaN.  So the arrays that the entries are computed from get no derivative where the mask is
false: ``where(mask, x, stop_gradient(x))``, which is `x` for XLA.

PyTensor's own gradients need none of this: they differentiate the user's graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pytensor_jaxlink.ops import Realign, replaces_others

if TYPE_CHECKING:
    from pytensor_jaxlink.lowering.program import Instruction

_ENTRY_BY_ENTRY = (CheckAndRaise, DimShuffle, Elemwise)

_LINEAR = (
    scalar.Add,
    scalar.Cast,
    scalar.Identity,
    scalar.Neg,
    scalar.Second,
    scalar.Sub,
    scalar.Switch,
)
"""Operations whose derivatives are finite everywhere."""

Masks = dict[int, jax.Array]


class Again:
    """Values that have been computed again, each for one mask, and the masks."""

    def __init__(self) -> None:
        # With the masks, whose identities are parts of the keys.
        self._found: dict[tuple[int, int], tuple[jax.Array, object]] = {}
        self._masks: dict[tuple[int, int], tuple[jax.Array, jax.Array | None, jax.Array]] = {}

    def of(self, masks: Masks) -> dict[int, object]:
        """The values for these masks that are there."""
        keys = {number: (number, id(mask)) for number, mask in masks.items()}
        return {k: self._found[key][1] for k, key in keys.items() if key in self._found}

    def keep(self, masks: Masks, values: dict[int, object]) -> None:
        """Keep values for nodes that read the same ones."""
        for number, mask in masks.items():
            self._found[number, id(mask)] = mask, values[number]

    def before(self, op: Op, mask: jax.Array) -> jax.Array:
        """The mask of the input of an operation, of that of its output."""
        if not isinstance(op, DimShuffle):
            return mask
        key = id(op), id(mask)
        if key not in self._masks:
            self._masks[key] = mask, None, _before_dimshuffle(op, mask)
        return self._masks[key][2]

    def either(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """True where one of two masks is."""
        if one is other:
            return one
        key = id(one), id(other)
        if key not in self._masks:
            self._masks[key] = one, other, one | other
        return self._masks[key][2]


def selected_chains(
    nodes: Sequence[Apply], instructions: Sequence[Instruction]
) -> dict[int, tuple[Instruction, ...]]:
    """For each node that reads only the entries inside of a mask, the operations that made them.

    These are the operations entry by entry, up to the first others, in their order.  A node all of
    whose derivatives are finite is left out.
    """
    made = {
        number: place
        for place, instruction in enumerate(instructions)
        if not instruction.folded and isinstance(nodes[instruction.node].op, _ENTRY_BY_ENTRY)
        for number in instruction.writes
    }
    found: dict[int, tuple[Instruction, ...]] = {}
    for instruction in instructions:
        node = nodes[instruction.node]
        if not (isinstance(node.op, Realign) or replaces_others(node)):
            continue
        places, waiting = set[int](), [instruction.reads[place_of_entries(node)][0]]
        while waiting:
            place = made.get(waiting.pop())
            if place is not None and place not in places:
                places.add(place)
                waiting += (number for number, _ in instructions[place].reads)
        chain = tuple(instructions[place] for place in sorted(places))
        if not all(_is_linear(nodes[each.node].op) for each in chain):
            found[instruction.node] = chain
    return found


def _is_linear(op: Op) -> bool:
    return not isinstance(op, Elemwise) or isinstance(op.scalar_op, _LINEAR)


def place_of_entries(node: Apply) -> int:
    """The input of which such a node reads the entries inside of a mask alone."""
    return 0 if isinstance(node.op, Realign) else 1


def mask_of_entries(node: Apply, inputs: Sequence[jax.Array]) -> jax.Array:
    """The mask, of such a node with the values of its first three inputs."""
    if not isinstance(node.op, Realign):
        return jnp.asarray(inputs[0])
    array, start, stop = inputs
    others = [axis for axis in range(array.ndim) if axis != node.op.axis]
    places = jnp.expand_dims(jnp.arange(array.shape[node.op.axis]), others)
    return (places >= start) & (places < stop)


def masks_of(
    nodes: Sequence[Apply],
    chain: Sequence[Instruction],
    entries: int,
    mask: jax.Array,
    known: Again,
) -> Masks:
    """For each value that a chain reads or makes, where its entries count.

    An entry counts if any that is computed from it does.
    """
    masks: Masks = {entries: mask}
    for each in reversed(chain):
        for found in [masks[number] for number in each.writes if number in masks]:
            before = known.before(nodes[each.node].op, found)
            for number, _ in each.reads:
                masks[number] = known.either(masks.get(number, before), before)
    return masks


def is_spread(node: Apply) -> bool:
    """Return True if an entry of what a node reads may become several."""
    return isinstance(node.op, DimShuffle)


def _before_dimshuffle(op: DimShuffle, mask: jax.Array) -> jax.Array:
    new = tuple(axis for axis, old in enumerate(op.new_order) if old == "x")
    kept = [old for old in op.new_order if old != "x"]
    order = [kept.index(old) for old in sorted(kept)]
    moved = jnp.transpose(jnp.any(mask, axis=new), order)
    return jnp.expand_dims(moved, tuple(op.drop))


def without_others(mask: jax.Array, value: object) -> object:
    """A value without derivative where a mask is false."""
    if not isinstance(value, jax.Array) or not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return jnp.where(mask, value, jax.lax.stop_gradient(value))


def squeezable(node: Apply, mask: jax.Array, value: object) -> object:
    """The value that a node reads, where `without_others` may have stretched it.

    Of the entries that were one a squeeze takes one that counts, if any does.
    """
    for axis in node.op.drop if isinstance(node.op, DimShuffle) else ():
        if isinstance(value, jax.Array) and value.shape[axis] != 1:
            mask = jnp.broadcast_to(mask, value.shape)
            place = jnp.argmax(mask, axis, keepdims=True)
            mask, value = (jnp.take_along_axis(each, place, axis) for each in (mask, value))
    return value
