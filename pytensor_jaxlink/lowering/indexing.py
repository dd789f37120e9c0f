"""Rules for indexing: bounds become integers, indices are checked, blocks are updated in one piece.

JAX clamps or drops what lies out of range; PyTensor's Python linker raises `IndexError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.tensor import subtensor
from pytensor.tensor.basic import ARange
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pytensor_jaxlink.analysis import Range, range_of
from pytensor_jaxlink.graph import data_of, first_index, indices_from
from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import as_dtype, as_jax, canonical_dtype
from pytensor_jaxlink.lowering.overlaps import kept_apart
from pytensor_jaxlink.lowering.rule import (
    Context,
    JaxFunction,
    jax_rule,
    jax_rule_for,
    upstream_rule,
)
from pytensor_jaxlink.lowering.rules import not_right
from pytensor_jaxlink.ops import other_sum, types_of_sum
from pytensor_jaxlink.size_functions import as_integer, at_least, is_open

Index = int | np.ndarray | np.number | np.bool_ | jax.Array
"""An index as a rule gets it; known while JAX traces unless it is an array of JAX."""


def _is_mask(index: object) -> bool:
    return getattr(index, "dtype", None) == np.dtype("bool")


def _check_range(variable: Variable, index: Index, length: int) -> None:
    """Require that every entry of an integer index lies in ``[-length, length)``."""
    if np.size(index) == 0 or _lies_within(variable, index, length):
        return
    index = data_of(variable) if isinstance(variable, Constant) else index
    if isinstance(index, np.ndarray | np.generic | int) or is_open(index):
        entries = np.ravel(np.asarray(_as_index(index)))
        ends = entries if entries.dtype == object else (entries.min(), entries.max())
        if any(
            not at_least(end, -length) or at_least(end, length) for end in map(as_integer, ends)
        ):
            raise IndexError(f"an index is out of bounds for an axis with size {length}")
    elif jnp.issubdtype(index.dtype, jnp.unsignedinteger) and np.ndim(index) == 0:
        require(index.astype(canonical_dtype("uint64")) < length)
    else:
        # One comparison: what is too small becomes large without its sign.
        word = np.dtype(canonical_dtype("int64"))
        shifted = jax.lax.bitcast_convert_type(index.astype(word) + length, f"u{word}")
        require(shifted < 2 * length)


def _lies_within(variable: Variable, index: Index, length: int) -> bool:
    """Return True if the graph says that it does: then nothing has to be computed for it."""
    size = np.size(index)
    between = Range(0, size - 1) if _counts(variable) else range_of(variable)
    if between is None or any(map(export.is_symbolic_dim, (size, length))):
        return False
    return -length <= between.least and between.most < length


def _indexed_axes(
    shape: tuple[int, ...], entries: Sequence[int | slice], values: Sequence[Index]
) -> Iterator[tuple[int, int]]:
    """The positions of the integer indices, each with the length of the axis it selects from."""
    axis = 0
    for entry in entries:
        if isinstance(entry, slice):
            axis += 1
            continue
        index = values[entry]
        if _is_mask(index):
            axis += np.ndim(index)
            continue
        yield entry, shape[axis]
        axis += 1


def _as_indices(values: Sequence[Index]) -> list[Index]:
    """The index values as JAX takes them: known scalars as Python integers, by which it slices."""
    return [_as_index(value) for value in values]


def _as_index(value: Index) -> Index:
    """An index in a type that holds the lengths of all axes.

    JAX computes ``index + length`` in the type of the index: in int8, entry -1 of 200 is entry -57.
    NumPy takes 64-bit indices too, and so a large entry of an unsigned array for a negative one.
    """
    if is_open(value):
        return as_integer(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None or not np.issubdtype(dtype, np.integer):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return int(value) if np.ndim(value) == 0 else value.astype("int64")
    return value if dtype == np.dtype("int32") else jnp.asarray(value, canonical_dtype("int64"))


def _check_indices(node: Apply, shape: tuple[int, ...], indices: Sequence[Index]) -> None:
    """Require that the indices of a node lie in an array."""
    variables = node.inputs[first_index(node.op) :]
    for entry, length in _indexed_axes(shape, node.op.idx_list, indices):
        _check_range(variables[entry], indices[entry], length)


def _counts(index: Variable) -> bool:
    """Return True if an index is 0, 1, 2 and so on."""
    if index.owner is None or not isinstance(index.owner.op, ARange):
        return False
    start, _, step = index.owner.inputs
    return _is_literal(start, 0) and _is_literal(step, 1)


def _is_literal(variable: Variable, number: int) -> bool:
    return isinstance(variable, Constant) and bool(variable.data == number)


def _last_write_wins(node: Apply) -> JaxFunction:
    """``x[index] += y`` as NumPy does it: a repeated index is incremented once."""
    entries = node.op.idx_list

    def function(array: jax.Array, values: Index, *indices: Index) -> jax.Array:
        index = tuple(indices_from(indices, entries))
        return array.at[index].set(array[index] + values)

    return function


def _adding(node: Apply, function: JaxFunction) -> JaxFunction:
    """``x[index] += y`` in the type in which NumPy adds; the sum gets the type of `x`.

    JAX converts `y` first: a large float64 is then infinite in float32.  Integers are the same
    either way, and of booleans JAX adds none to places.
    """
    if getattr(node.op, "set_instead_of_inc", True):
        return function
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
    function = _last_write_wins(node) if once else upstream_rule(node, positions)

    def index(array: jax.Array, *rest: Index) -> jax.Array:
        data, indices = rest[: first - 1], rest[first - 1 :]
        array = as_jax(array)
        if context.checks:
            _check_indices(node, np.shape(array), indices)
        indices = _as_indices(indices)
        for values in data:
            _check_values(values, array, tuple(indices_from(indices, entries)))
        return function(array, *_converted(node, data, array), *indices)

    return index


def _converted(node: Apply, values: Sequence[Index], array: jax.Array) -> list[Index]:
    """The values that are set, in the dtype of the array: JAX would convert some otherwise."""
    sets = getattr(node.op, "set_instead_of_inc", False)
    return [as_dtype(value, array.dtype) if sets else value for value in values]


def _check_values(values: Index, array: jax.Array, index: tuple[Index | slice, ...]) -> None:
    """Raise `ValueError` where values do not fit no entries: JAX does not look at them there."""
    if not any(_is_empty(part) for part in (values, array, *index)):
        return
    selected = jax.eval_shape(lambda: array[index]).shape
    given = np.shape(values)
    if not any(map(export.is_symbolic_dim, (*selected, *given))):
        np.broadcast_to(np.broadcast_to(0, given), selected)
    elif 0 in selected:
        for open_length, length in zip(reversed(given), reversed(selected), strict=False):
            if open_length != length:
                one, two = (jnp.asarray(each, dtype="int64") for each in (open_length, length))
                require((one == two) | (one == 1))


def _is_empty(part: Index | slice) -> bool:
    """Return True if an array or an index may select no entry."""
    return isinstance(part, slice) or _is_mask(part) or np.size(part) == 0


@jax_rule.register(Subtensor)
@jax_rule.register(AdvancedSubtensor)
def _subtensor(op: Op, node: Apply, context: Context) -> JaxFunction:
    return _indexing_rule(node, context)


@jax_rule.register(AdvancedIncSubtensor)
def _advanced_inc_subtensor(op: AdvancedIncSubtensor, node: Apply, context: Context) -> JaxFunction:
    general = _indexing_rule(node, context)
    _, *indices = node.inputs[1:]
    if context.checks and _is_vector_of_places(op, indices):

        def checked(array: jax.Array, values: Index, position: Index) -> jax.Array:
            selected = (*np.shape(position), *np.shape(array)[1:])
            # PyTensor 3.0's Op of one vector stretches no values to the array either.
            general_op = isinstance(node.op, AdvancedIncSubtensor)
            shapes = [selected] if general_op else [selected, array.shape]
            _require_no_stretch(node, values, shapes)
            return general(array, values, position)

        return _adding(node, checked)
    if len(indices) != 2 or indices[0] is not indices[1] or not _counts(indices[0]):
        return _adding(node, general)
    if node.inputs[0].type.ndim != 2 or list(op.idx_list) != [0, 1]:
        return _adding(node, general)

    def update(matrix: jax.Array, values: Index, *indices: Index) -> jax.Array:
        length = np.size(indices[0])
        if export.is_symbolic_dim(length) or length > min(np.shape(matrix)):
            return general(matrix, values, *indices)
        return _on_diagonal(matrix, values, length, add=not op.set_instead_of_inc)

    return _adding(node, update)


def _is_vector_of_places(op: AdvancedIncSubtensor, indices: Sequence[Variable]) -> bool:
    """Return True for ``x[places]``: there alone PyTensor refuses to stretch values."""
    kind = indices[0].type
    return list(op.idx_list) == [0] and kind.ndim == 1 and kind.dtype != "bool"


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
    fallback = _indexing_rule(node, context)

    def increment(array: jax.Array, values: Index, *indices: Index) -> jax.Array:
        if any(map(is_open, indices)):
            return fallback(array, values, *indices)
        block = _Block.of(np.shape(array), indices_from(_as_indices(indices), op.idx_list))
        if block is None:
            return fallback(array, values, *indices)
        if context.checks:
            _check_indices(node, np.shape(array), indices)
        return block.update(as_jax(array), values, add=not op.set_instead_of_inc)

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

    def update(self, array: jax.Array, values: Index, *, add: bool) -> jax.Array:
        """The array with ``values`` set into the block, or added to it."""
        block = jnp.broadcast_to(as_dtype(values, array.dtype), self.selected_shape)
        if 0 in self.lengths:
            return array
        block = block.reshape(self.lengths)
        if self.reversed_axes:
            block = jnp.flip(block, self.reversed_axes)
        known = [start for start in self.starts if isinstance(start, int)]
        if len(known) == len(self.starts):
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


def _from_start(index: int | jax.Array, length: int) -> int | jax.Array:
    """A position counted from the start, where negative ones count from the end."""
    if isinstance(index, int):
        return index + length if index < 0 else index
    return jnp.where(index < 0, index + length, index)


def _require_no_stretch(node: Apply, values: Index, shapes: Sequence[tuple[int, ...]]) -> None:
    """Require that no open length of the values is 1 where one of the shapes would stretch it.

    Whether a given length is, PyTensor's rule sees when JAX traces.
    """
    promised = node.inputs[1].type.broadcastable
    for axis in range(-np.ndim(values), 0):
        length = np.shape(values)[axis]
        if promised[axis] or not export.is_symbolic_dim(length):
            continue
        for other in (shape[axis] for shape in shapes if len(shape) >= -axis):
            if length != other:
                one, two = (jnp.asarray(each, dtype="int64") for each in (length, other))
                require((one != 1) | (one == two))


# Before PyTensor 3.2 there are separate Ops for one vector of integers on the first axis.
jax_rule_for("AdvancedSubtensor1", where=(subtensor,))(_subtensor)
jax_rule_for("AdvancedIncSubtensor1", where=(subtensor,))(_advanced_inc_subtensor)
if hasattr(subtensor, "AdvancedIncSubtensor1"):
    not_right.register(subtensor.AdvancedIncSubtensor1)(_not_right_increment)
