"""Checks of indices and of the values that are set by them, as NumPy makes them.

JAX clamps or drops what lies out of range; PyTensor's Python linker raises `IndexError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import ARange

from pytensor_jaxlink.analysis import Range, range_of
from pytensor_jaxlink.graph import data_of, first_index, indices_from
from pytensor_jaxlink.lowering.checks import refute, require
from pytensor_jaxlink.lowering.coercion import canonical_dtype
from pytensor_jaxlink.size_functions import as_integer, at_least, is_open

Index = int | np.ndarray | np.number | np.bool_ | jax.Array
"""An index as a rule gets it; known while JAX traces unless it is an array of JAX."""


def as_index(value: Index) -> Index:
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


def check_indices(node: Apply, shape: tuple[int, ...], indices: Sequence[Index]) -> None:
    """Require that the indices of a node lie in an array."""
    variables = node.inputs[first_index(node.op) :]
    for entry, length in indexed_axes(shape, node.op.idx_list, indices):
        _check_range(variables[entry], indices[entry], length)


def _check_range(variable: Variable, index: Index, length: int) -> None:
    """Require that every entry of an integer index lies in ``[-length, length)``."""
    if np.size(index) == 0 or _lies_within(variable, index, length):
        return
    index = data_of(variable) if isinstance(variable, Constant) else index
    if isinstance(index, np.ndarray | np.generic | int) or is_open(index):
        entries = np.ravel(np.asarray(as_index(index)))
        ends = entries if entries.dtype == object else (entries.min(), entries.max())
        if any(
            not at_least(end, -length) or at_least(end, length) for end in map(as_integer, ends)
        ):
            refute(IndexError(f"an index is out of bounds for an axis with size {length}"))
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
    between = Range(0, size - 1) if counts(variable) else range_of(variable)
    if between is None or any(map(export.is_symbolic_dim, (size, length))):
        return False
    return -length <= between.least and between.most < length


def indexed_axes(
    shape: tuple[int, ...], entries: Sequence[int | slice], values: Sequence[Index]
) -> Iterator[tuple[int, int]]:
    """The positions of the integer indices, each with the length of the axis it selects from."""
    axis = 0
    for entry in entries:
        if isinstance(entry, slice):
            axis += 1
            continue
        index = values[entry]
        if is_mask(index):
            axis += np.ndim(index)
            continue
        yield entry, shape[axis]
        axis += 1


def with_short_steps(
    shape: tuple[int, ...], entries: Sequence[int | slice], values: Sequence[Index]
) -> list[Index]:
    """The index values, where no known step of a slice is longer than its axis.

    It takes the same entries, and JAX multiplies steps in 32 bits.
    """
    found, axis = list(values), 0
    for entry in entries:
        if not isinstance(entry, slice):
            axis += np.ndim(values[entry]) if is_mask(values[entry]) else 1
            continue
        place, length = entry.step, shape[axis]
        step = found[place] if isinstance(place, int) else None
        if isinstance(place, int) and isinstance(step, int) and isinstance(length, int):
            longest = max(length, 1)
            found[place] = max(min(step, longest), -longest)
        axis += 1
    return found


def readable(
    array: jax.Array, entries: Sequence[int | slice], indices: Sequence[Index]
) -> jax.Array:
    """The array, or one with entries where an index selects from an axis that has none.

    JAX refuses to trace that.  Nobody uses what is read: the check of the index is false, or the
    place is one of the padding, or of a branch that is not taken.
    """
    axes, missing = tuple(range(np.ndim(array))), [(0, 0)] * np.ndim(array)
    for entry, axis in indexed_axes(axes, entries, indices):
        sizes = np.size(indices[entry]), np.shape(array)[axis]
        if not any(map(export.is_symbolic_dim, sizes)) and sizes[0] > 0 and sizes[1] == 0:
            missing[axis] = (0, 1)
    return jnp.pad(array, missing) if (0, 1) in missing else array


def is_mask(index: object) -> bool:
    """Return True for an array of booleans."""
    return getattr(index, "dtype", None) == np.dtype("bool")


def counts(index: Variable) -> bool:
    """Return True if an index is 0, 1, 2 and so on."""
    if index.owner is None or not isinstance(index.owner.op, ARange):
        return False
    start, _, step = index.owner.inputs
    return _is_literal(start, 0) and _is_literal(step, 1)


def _is_literal(variable: Variable, number: int) -> bool:
    return isinstance(variable, Constant) and bool(variable.data == number)


def check_values(
    values: Index, array: jax.Array, entries: Sequence[int | slice], indices: Sequence[Index]
) -> None:
    """Raise `ValueError` where values do not fit no entries: JAX does not look at them there."""
    index = tuple(indices_from(indices, entries))
    if not any(_is_empty(part) for part in (values, array, *index)):
        return
    selected = jax.eval_shape(lambda: readable(array, entries, indices)[index]).shape
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
    return isinstance(part, slice) or is_mask(part) or np.size(part) == 0


def require_no_stretch(node: Apply, values: Index, shapes: Sequence[tuple[int, ...]]) -> None:
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
