"""Derivatives of selections, where the user lets JAX differentiate.

A selection is a full array whose other entries are replaced in the end: ``where(mask, log(x), 0)``.
JAX multiplies the zeros that come back for these by the derivative there, and zero times infinity
or NaN is NaN.  So the arrays that the entries are computed from get no derivative where the mask is
false: ``where(mask, x, stop_gradient(x))``, which is `x` for XLA.

Operations that move entries (slices, gathers, transpositions) have masks of their own: an entry
counts if any that is made from it does.  JAX transposes the operation to tell.

PyTensor's own gradients need none of this: they differentiate the user's graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pytensor_jaxlink.lowering.checks import collecting
from pytensor_jaxlink.ops import (
    DynamicSlice,
    DynamicUpdateSlice,
    Fitted,
    Indexable,
    Merged,
    Realign,
    Stretched,
    replaces_others,
)

if TYPE_CHECKING:
    from pytensor_jaxlink.lowering.program import Instruction

_ENTRY_BY_ENTRY = (CheckAndRaise, Elemwise, ViewOp)

_OF_ONE = (
    *(AdvancedSubtensor, Alloc, CAReduce, CumOp, DimShuffle, DynamicSlice, Fitted, Indexable),
    *(JoinDims, Realign, Reshape, SpecifyShape, SplitDims, Stretched, Subtensor),
)
_OF_TWO = (AdvancedIncSubtensor, DynamicUpdateSlice, IncSubtensor, Merged)
"""The operations that move the entries of their first input, or of the first two."""

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
Values = dict[int, jax.Array]


def selected_chains(
    nodes: Sequence[Apply], instructions: Sequence[Instruction]
) -> dict[int, tuple[Instruction, ...]]:
    """For each node that reads only the entries inside of a mask, the operations that made them.

    These are the operations entry by entry and those that move entries, up to the first others, in
    their order.  A node all of whose derivatives are finite is left out.
    """
    made = {
        number: place
        for place, instruction in enumerate(instructions)
        if not instruction.folded
        for number in instruction.writes
    }
    found: dict[int, tuple[Instruction, ...]] = {}
    for instruction in instructions:
        node = nodes[instruction.node]
        if not reads_entries(node):
            continue
        places, waiting = set[int](), [instruction.reads[place_of_entries(node)][0]]
        while waiting:
            place = made.get(waiting.pop())
            if place is None or place in places:
                continue
            before = _before(nodes[instructions[place].node], instructions[place])
            if before:
                places.add(place)
                waiting += before
        chain = tuple(instructions[place] for place in sorted(places))
        if not all(_is_linear(nodes[each.node].op) for each in chain):
            found[instruction.node] = chain
    return found


def _before(node: Apply, instruction: Instruction) -> list[int]:
    """The values whose entries become those of a node, if they have a derivative."""
    op, count = node.op, len(node.inputs)
    if isinstance(op, (*_ENTRY_BY_ENTRY, Join)):
        places = range(count)
    else:
        places = range(1 if isinstance(op, _OF_ONE) else 2 if isinstance(op, _OF_TWO) else 0)
    return [
        instruction.reads[place][0]
        for place in places
        if getattr(node.inputs[place].type, "dtype", "").startswith(("float", "complex"))
    ]


def _is_linear(op: Op) -> bool:
    if isinstance(op, Elemwise | CAReduce):
        return isinstance(op.scalar_op, _LINEAR)
    return not isinstance(op, CumOp | ViewOp) or getattr(op, "mode", "") == "add"


def reads_entries(node: Apply) -> bool:
    """Return True if a node reads only the entries of an array that are inside of a mask."""
    return isinstance(node.op, Realign) or replaces_others(node)


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


@dataclass
class Again:
    """Values that are computed again, each for one mask, while a program runs.

    Attributes
    ----------
    nodes
        The nodes of the program.
    value
        Gives a value of the program.
    run
        Runs an instruction on given values, and adds to them.
    """

    nodes: Sequence[Apply]
    value: Callable[[int], jax.Array]
    run: Callable[[Instruction, Values], None]

    def __post_init__(self) -> None:
        # With the masks, whose identities are parts of the keys.
        self._found: dict[tuple[int, int], tuple[jax.Array, jax.Array]] = {}
        self._masks: dict[tuple[int, ...], tuple[object, jax.Array]] = {}

    def entries_of(
        self, reader: Instruction, chain: Sequence[Instruction]
    ) -> tuple[int, jax.Array]:
        """The number of the array that a node reads entries of, and the array.

        Entries outside of the mask leave no derivative in it.
        """
        entries = reader.reads[place_of_entries(self.nodes[reader.node])][0]
        masks = self._masks_of(chain, entries, self._own_mask(reader))
        keys = {number: (number, id(mask)) for number, mask in masks.items()}
        again = {k: self._found[key][1] for k, key in keys.items() if key in self._found}
        made = {number for each in chain for number in each.writes}
        for number in masks.keys() - made - again.keys():
            again[number] = without_others(masks[number], self.value(number))
        for each in chain:
            waiting = {number for number in each.writes if number in masks}
            if waiting and not again.keys() >= waiting:
                again |= self._made(each, masks, again)
        for number, key in keys.items():
            self._found[key] = masks[number], again[number]
        return entries, again[entries]

    def _made(self, each: Instruction, masks: Masks, again: Values) -> Values:
        """The results of an instruction, of values that are there again."""
        moves = not isinstance(self.nodes[each.node].op, _ENTRY_BY_ENTRY)
        read: Values = self._read(each)
        for number in read.keys() & again.keys():
            one = again[number]
            read[number] = unstretched(masks[number], one, read[number]) if moves else one
        self.run(each, read)
        found = {number: read[number] for number in each.writes}
        if moves:  # an entry may have become several
            found |= {k: without_others(masks[k], one) for k, one in found.items() if k in masks}
        return found

    def _read(self, each: Instruction) -> Values:
        return {number: self.value(number) for number, as_value in each.reads if not as_value}

    def _masks_of(self, chain: Sequence[Instruction], entries: int, mask: jax.Array) -> Masks:
        """For each value that a chain reads or makes, where its entries count."""
        masks: Masks = {entries: mask}
        for each in reversed(chain):
            node = self.nodes[each.node]
            for found in [masks[number] for number in each.writes if number in masks]:
                for number in _before(node, each):
                    if isinstance(self.value(number), jax.Array):  # no constant
                        before = self._mask_before(each, number, found)
                        masks[number] = self._either(masks.get(number, before), before)
        return masks

    def _mask_before(self, each: Instruction, number: int, mask: jax.Array) -> jax.Array:
        """Where the entries of a value count, of which an instruction makes those of a mask."""
        node = self.nodes[each.node]
        if not isinstance(node.op, _ENTRY_BY_ENTRY):
            mask = self._moved_back(each, number, mask)
        if reads_entries(node) and number == each.reads[place_of_entries(node)][0]:
            mask = mask & self._own_mask(each)
        return mask

    def _own_mask(self, each: Instruction) -> jax.Array:
        node = self.nodes[each.node]
        return mask_of_entries(node, [self.value(number) for number, _ in each.reads[:3]])

    def _moved_back(self, each: Instruction, number: int, mask: jax.Array) -> jax.Array:
        """True where an entry is moved to a place where a mask is true."""
        one, [target] = self.value(number), each.writes
        if self.value(target) is one:
            return mask
        if all(isinstance(length, int) and length == 1 for length in one.shape):
            return jnp.reshape(jnp.any(mask), one.shape)  # it counts if anything does
        key = id(each), number, id(mask)
        if key not in self._masks:
            given = self._read(each)

            def moved(array: jax.Array) -> jax.Array:
                read = given | {number: array}
                with collecting():  # conditions that are there already
                    self.run(each, read)
                return read[target]

            # Of ones each has a derivative, also in a product and in a maximum.
            result, transposed = jax.vjp(moved, jnp.ones_like(one))
            within = jnp.broadcast_to(_reduced(mask, result.shape), result.shape)
            [found] = transposed(within.astype(result.dtype))
            self._masks[key] = mask, found != 0
        return self._masks[key][1]

    def _either(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """True where one of two masks is."""
        if one is other:
            return one
        key = id(one), id(other)
        if key not in self._masks:
            self._masks[key] = (one, other), one | other
        return self._masks[key][1]


def _reduced(mask: jax.Array, shape: Sequence[object]) -> jax.Array:
    """A mask for an array of a shape, which operations entry by entry may have stretched."""
    axes = [axis for axis, length in enumerate(shape) if isinstance(length, int) and length == 1]
    return jnp.any(mask, axis=axes, keepdims=True) if axes else mask


def without_others(mask: jax.Array, value: jax.Array) -> jax.Array:
    """A value without derivative where a mask is false."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return jnp.where(mask, value, jax.lax.stop_gradient(value))


def unstretched(mask: jax.Array, value: jax.Array, own: jax.Array) -> jax.Array:
    """The value in the shape of its own, where `without_others` may have stretched it.

    Of the entries that were one it has one that counts, if any does.
    """
    for axis, length in enumerate(own.shape):
        if value.shape[axis] != length:
            if value.shape[axis] == 0:  # to a mask without entries
                return jax.lax.stop_gradient(own)
            mask = jnp.broadcast_to(mask, value.shape)
            place = jnp.argmax(mask, axis, keepdims=True)
            mask, value = (jnp.take_along_axis(each, place, axis) for each in (mask, value))
    return value
