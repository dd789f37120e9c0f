"""Rules for indexing: bounds become integers, and blocks are updated in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor import subtensor
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pytensor_jaxlink.graph import first_index, indices_from, indices_of, is_vector_of_places
from pytensor_jaxlink.lowering.checks import refute
from pytensor_jaxlink.lowering.coercion import (
    as_dtype,
    as_jax,
    canonical_dtype,
    hidden,
    with_positive_zeros,
)
from pytensor_jaxlink.lowering.index_checks import (
    Index,
    as_index,
    check_indices,
    check_values,
    counts,
    readable,
    require_no_stretch,
    with_short_steps,
)
from pytensor_jaxlink.lowering.overlaps import kept_apart
from pytensor_jaxlink.lowering.repeated_places import last_of_each_place
from pytensor_jaxlink.lowering.rule import (
    Context,
    JaxFunction,
    jax_rule,
    jax_rule_for,
    upstream_rule,
)
from pytensor_jaxlink.lowering.rules import not_right
from pytensor_jaxlink.ops import (
    adds_to_zeros,
    is_zero_elsewhere,
    other_sum,
    types_of_sum,
    updates_before,
)
from pytensor_jaxlink.size_functions import is_open

_SMALL = 256
"""Entries; to go through so many takes no longer than another kernel."""

_FEW = 32
"""Sums, one after the other.  XLA simplifies one in each run over a program, and runs 50 times."""


def _as_indices(values: Sequence[Index]) -> list[Index]:
    """The index values as JAX takes them: known scalars as Python integers, by which it slices."""
    return [as_index(value) for value in values]


def _last_write_wins(node: Apply, upstream: JaxFunction) -> JaxFunction:
    """``x[index] += y`` as NumPy does it: a repeated index is incremented once."""
    entries = node.op.idx_list

    def function(array: jax.Array, values: Index, *indices: Index) -> jax.Array:
        upstream(array, values, *indices)  # which refuses values that would be stretched
        index = tuple(indices_from(indices, entries))
        values = readable(array, entries, indices)[index] + values
        return array.at[index].set(last_of_each_place(array, values, index))

    return function


def _adding(node: Apply, function: JaxFunction) -> JaxFunction:
    """``x[index] += y`` in the type in which NumPy adds; the sum gets the type of `x`.

    JAX converts `y` first: a large float64 is then infinite in float32.  Integers are the same
    either way, and of booleans JAX adds none to places.
    """
    if getattr(node.op, "set_instead_of_inc", True):
        return function
    function = with_positive_zeros(function, adds_to_zeros(node))
    kept, common = types_of_sum(node)
    if kept.kind == "b":
        common = np.dtype("int32")
    elif kept == common:
        return function
    elif kept.kind in "iu":
        common = kept

    def add(array: jax.Array, values: Index, *indices: Index) -> jax.Array:
        found = function(as_dtype(array, common), as_dtype(values, common), *indices)
        return found > 0 if kept.kind == "b" else as_dtype(found, kept)

    return add


@not_right.register(IncSubtensor)
@not_right.register(AdvancedIncSubtensor)
def _not_right_increment(op: Op, node: Apply) -> str | None:
    return other_sum(node)


def _indexing_rule(node: Apply, context: Context) -> JaxFunction:
    entries, first = node.op.idx_list, first_index(node.op)
    once = getattr(node.op, "ignore_duplicates", False) and not node.op.set_instead_of_inc
    positions = range(first, len(node.inputs))
    function = upstream_rule(node, positions)
    if once:
        function = _last_write_wins(node, function)

    def index(array: jax.Array, *rest: Index) -> jax.Array:
        data, indices = rest[: first - 1], rest[first - 1 :]
        array = as_jax(array)
        if context.checks:
            check_indices(node, np.shape(array), indices)
        indices = with_short_steps(np.shape(array), entries, _as_indices(indices))
        for values in data:
            check_values(values, array, entries, indices)
        if not data:
            found = function(readable(array, entries, indices), *indices)
            return hidden(found) if _are_copies(found, array) else found
        data = _converted(node, data, array)
        if getattr(node.op, "set_instead_of_inc", False):
            place = indices_from(indices, entries)
            data = [last_of_each_place(array, values, place) for values in data]
        return function(array, *data, *indices)

    return index


def _are_copies(found: jax.Array, array: jax.Array) -> bool:
    """Return True for many entries of one: XLA takes their sum for a product, -0.0 for -0.0."""
    lengths = np.shape(array)
    is_one = all(isinstance(length, int) and length == 1 for length in lengths)
    several = np.shape(found) != (1,) * np.ndim(found)
    return is_one and several and jnp.issubdtype(found.dtype, jnp.inexact)


def _converted(node: Apply, values: Sequence[Index], array: jax.Array) -> list[Index]:
    """The values that are set, in the dtype of the array: JAX would convert some otherwise."""
    sets = getattr(node.op, "set_instead_of_inc", False)
    return [as_dtype(value, array.dtype) if sets else value for value in values]


@jax_rule.register(Subtensor)
@jax_rule.register(AdvancedSubtensor)
def _subtensor(op: Op, node: Apply, context: Context) -> JaxFunction:
    return _indexing_rule(node, context)


@jax_rule.register(AdvancedIncSubtensor)
def _advanced_inc_subtensor(op: AdvancedIncSubtensor, node: Apply, context: Context) -> JaxFunction:
    general = _indexing_rule(node, context)
    _, *indices = node.inputs[1:]
    if context.checks and is_vector_of_places(indices_of(node)):

        def checked(array: jax.Array, values: Index, position: Index) -> jax.Array:
            selected = (*np.shape(position), *np.shape(array)[1:])
            # PyTensor 3.0's Op of one vector stretches no values to the array either.
            general_op = isinstance(node.op, AdvancedIncSubtensor)
            shapes = [selected] if general_op else [selected, array.shape]
            require_no_stretch(node, values, shapes)
            return general(array, values, position)

        return _adding(node, checked)
    if len(indices) != 2 or indices[0] is not indices[1] or not counts(indices[0]):
        return _adding(node, general)
    if node.inputs[0].type.ndim != 2 or list(op.idx_list) != [0, 1]:
        return _adding(node, general)

    def update(matrix: jax.Array, values: Index, *indices: Index) -> jax.Array:
        length = np.size(indices[0])
        if export.is_symbolic_dim(length) or length > min(np.shape(matrix)):
            return general(matrix, values, *indices)
        return _on_diagonal(matrix, values, length, add=not op.set_instead_of_inc)

    return _adding(node, update)


def _on_diagonal(matrix: jax.Array, values: Index, length: int, *, add: bool) -> jax.Array:
    """A matrix with the first entries of its diagonal replaced, or added to.

    By selection: PyTensor's gradient of a diagonal is such an update, and XLA takes longer to
    compile, and to run, a scatter.
    """
    shape = np.shape(matrix)
    row, column = (jax.lax.broadcasted_iota("int32", shape, axis) for axis in (0, 1))
    spread = jnp.broadcast_to(as_dtype(values, matrix.dtype), (length,))
    spread = jnp.pad(spread, (0, shape[0] - length))[:, None]
    selected = (row == column) & (row < length)
    return jnp.where(selected, matrix + spread if add else spread, matrix)


@jax_rule.register(IncSubtensor)
def _inc_subtensor(op: IncSubtensor, node: Apply, context: Context) -> JaxFunction:
    """Blocks are updated by `jax.lax.dynamic_update_slice`, not by a scatter.

    XLA runs a block update at the speed of a copy; and its CPU compiler aborts the process on a
    scatter over a whole reversed array (seen with jaxlib 0.12.0, "Invalid binary instruction
    opcode map"), which the gradient of a backward scan contains.
    """
    fallback, of_zeros = _indexing_rule(node, context), is_zero_elsewhere(node.inputs[0])
    adds, is_short = not op.set_instead_of_inc, updates_before(node.inputs[0]) < _FEW

    def increment(array: jax.Array, values: Index, *indices: Index) -> jax.Array:
        if any(map(is_open, indices)):
            return fallback(array, values, *indices)
        block = _Block.of(np.shape(array), indices_from(_as_indices(indices), op.idx_list))
        if block is None:
            return fallback(array, values, *indices)
        if context.checks:
            check_indices(node, np.shape(array), indices)
        if context.checks and not block.holds(np.shape(values)):
            refute(ValueError(f"{np.shape(values)} does not fit into {block.selected_shape}"))
            return as_jax(array)
        updated = block.update(as_jax(array), values, add=adds, is_short=is_short)
        # XLA would take 0.0 + y for y if it saw that nothing is written.
        return hidden(updated) if of_zeros and 0 in block.lengths else updated

    return kept_apart(node, _adding(node, increment))


@dataclass(frozen=True)
class _Block:
    """The contiguous part of an array that basic indices with steps of 1 or -1 select."""

    starts: tuple[int | jax.Array, ...]
    lengths: tuple[int, ...]
    reversed_axes: tuple[int, ...]
    selected_shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], index: Sequence[Any]) -> _Block | None:
        """The block, or None where a step leaves gaps, or an axis of open length is cut."""
        starts: list[int | jax.Array] = [0] * len(shape)
        lengths, backward, selected = list(shape), [], []
        for axis, entry in enumerate(index):
            if not isinstance(entry, slice):
                starts[axis], lengths[axis] = _from_start(entry, shape[axis]), 1
                continue
            if export.is_symbolic_dim(shape[axis]):
                if entry not in (slice(None), slice(None, None, -1)):
                    return None
                backward += [axis] if entry.step == -1 else []
                selected.append(shape[axis])
                continue
            steps = range(*entry.indices(shape[axis]))
            if steps.step not in (1, -1):
                return None
            if steps.step == -1:
                backward.append(axis)
            starts[axis] = min(steps[0], steps[-1]) if steps else 0
            lengths[axis] = len(steps)
            selected.append(len(steps))
        selected += shape[len(index) :]
        return cls(tuple(starts), tuple(lengths), tuple(backward), tuple(selected))

    def holds(self, shape: tuple[int, ...]) -> bool:
        """Return False for values that surely do not fit, for the shapes of this call."""
        lengths = zip(reversed(shape), reversed(self.selected_shape), strict=False)
        return len(shape) <= len(self.selected_shape) and all(
            is_open(one) or is_open(other) or one in (1, other) for one, other in lengths
        )

    def update(self, array: jax.Array, values: Index, *, add: bool, is_short: bool) -> jax.Array:
        """The array with ``values`` set into the block, or added to it in a short chain of sums."""
        block = jnp.broadcast_to(as_dtype(values, array.dtype), self.selected_shape)
        if 0 in self.lengths or 0 in np.shape(array):  # then the check of an index is false
            return array
        block = block.reshape(self.lengths)
        if self.reversed_axes:
            block = jnp.flip(block, self.reversed_axes)
        known = [start for start in self.starts if isinstance(start, int)]
        if len(known) == len(self.starts):
            size, is_part = np.size(array), self.lengths != np.shape(array)
            if add and is_short and is_part and not is_open(size) and size <= _SMALL:
                return _with_sum(array, known, block)
            return self._update_in_place(array, known, block, add=add)
        dtype = canonical_dtype("int64")
        starts = [jnp.asarray(start, dtype=dtype) for start in self.starts]
        if add:
            block = jax.lax.dynamic_slice(array, starts, self.lengths) + block
        return jax.lax.dynamic_update_slice(array, block, starts)

    def _update_in_place(
        self, array: jax.Array, starts: Sequence[int], block: jax.Array, *, add: bool
    ) -> jax.Array:
        """The same at a place that is known."""
        if add:
            ends = [start + length for start, length in zip(starts, self.lengths, strict=True)]
            block = jax.lax.slice(array, starts, ends) + block
        if self.lengths == np.shape(array):
            return block
        return jax.lax.dynamic_update_slice(array, block, starts)


def _with_sum(array: jax.Array, starts: Sequence[int], block: jax.Array) -> jax.Array:
    """A block added to an array, of which the rest goes beside it.

    Each update in place is a kernel of its own.  A gradient by parts of one vector of parameters is
    a chain of updates, of which XLA makes one kernel: a part of joined parts is one of those.
    """
    for axis, start in enumerate(starts):
        length, end = np.shape(array)[axis], start + np.shape(block)[axis]
        if end - start != length:
            before, here, after = (
                jax.lax.slice_in_dim(array, *ends, axis=axis)
                for ends in ((0, start), (start, end), (end, length))
            )
            inner = [*starts[:axis], 0, *starts[axis + 1 :]]
            return jax.lax.concatenate([before, _with_sum(here, inner, block), after], axis)
    return array + block


def _from_start(index: int | jax.Array, length: int) -> int | jax.Array:
    """A position counted from the start, where negative ones count from the end."""
    if isinstance(index, int):
        return index + length if index < 0 else index
    return jnp.where(index < 0, index + length, index)


# Before PyTensor 3.2 there are separate Ops for one vector of integers on the first axis.
jax_rule_for("AdvancedSubtensor1", where=(subtensor,))(_subtensor)
jax_rule_for("AdvancedIncSubtensor1", where=(subtensor,))(_advanced_inc_subtensor)
if hasattr(subtensor, "AdvancedIncSubtensor1"):
    not_right.register(subtensor.AdvancedIncSubtensor1)(_not_right_increment)
