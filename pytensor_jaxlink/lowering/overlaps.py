"""Writes to a block of an array, of values that are read from the same array: ``x[1:] = x[:-1]``.

XLA's CPU compiler writes such a block in place, in the loop that computes the values.  Where the
array is reshaped before or after, it overlooks that the values read what the loop overwrites, and
they are computed from new entries instead of old ones: https://github.com/openxla/xla/issues/49176
(JAX 0.10 to 0.12).  Until that is mended, the values of such writes are stored first.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, AllocEmpty
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pytensor_jaxlink.lowering.rule import JaxFunction
from pytensor_jaxlink.ops import DynamicSlice, DynamicUpdateSlice

_BARRIERS_LAST = jax.__version_info__ >= (0, 12)
"""XLA of JAX 0.10 and 0.11 removes barriers on a CPU before it fuses."""

_WRITES = frozenset((DynamicUpdateSlice, IncSubtensor))
_SAME_MEMORY = _WRITES | {DimShuffle, Reshape, SpecifyShape, Subtensor}
"""The Ops whose result XLA may keep where their first input is; a slice may take everything."""


def kept_apart(node: Apply, write: JaxFunction) -> JaxFunction:
    """The JAX function of a node that writes ``x[place] = value``, right where the two overlap.

    Parameters
    ----------
    node
        The node.  Its inputs are the array, the value and the place.
    write
        The function of these inputs.

    Notes
    -----
    It costs a pass over the value; before JAX 0.12, where barriers do not last, over the array.
    """
    if not reads_what_it_writes(node):
        return write

    def write_apart(array: jax.Array, value: ArrayLike, *place: ArrayLike) -> jax.Array:
        # The default backend does not tell where code that is traced will run.
        if not any(isinstance(given, Tracer) for given in (array, value)):
            return write(array, value, *place)
        if _BARRIERS_LAST:
            return write(array, jax.lax.optimization_barrier(value), *place)
        nothing = jnp.zeros(np.shape(array), array.dtype)
        here = write(nothing, jnp.ones((), array.dtype), *place) != 0
        return jnp.where(here, write(jnp.where(here, array, nothing), value, *place), array)

    return write_apart


def reads_what_it_writes(node: Apply) -> bool:
    """Return True if the value that a node writes depends on other entries of the array.

    Cost: a walk through the graph that computes the value.
    """
    array, value = node.inputs[:2]
    if _writes_one_entry(node.op, array) or _has_equal_entries(array):
        return False
    memory = _same_memory(array)
    seen = set[tuple[Variable, bool]]()
    stack = [(value, True)]
    while stack:
        variable, entry_by_entry = stack.pop()
        if variable in memory:
            return True
        if (variable, entry_by_entry) in seen or variable.owner is None:
            continue
        seen.add((variable, entry_by_entry))
        inputs = variable.owner.inputs
        if isinstance(variable.owner.op, Scan):  # a loop stores its results
            continue
        if entry_by_entry and _reads_the_same_place(variable.owner, node):
            inputs = inputs[1:]
        entry_by_entry &= isinstance(variable.owner.op, Elemwise)
        stack += [(each, entry_by_entry) for each in inputs]
    return False


def _same_memory(array: Variable) -> set[Variable]:
    """The arrays that may be where an array is, itself among them.

    Classes are looked up exactly: of a thousand writes each goes back to the first.
    """
    found = {array}
    while (node := array.owner) is not None and type(node.op) in _SAME_MEMORY:
        array = node.inputs[0]
        found.add(array)
    return found


def _has_equal_entries(array: Variable) -> bool:
    """Return True if an array was filled, and nothing has been written to it: old is new there."""
    while (node := array.owner) is not None and type(node.op) in _SAME_MEMORY - _WRITES:
        array = node.inputs[0]
    if node is None or not isinstance(node.op, Alloc | AllocEmpty):
        return False
    return isinstance(node.op, AllocEmpty) or all(node.inputs[0].type.broadcastable)


def _writes_one_entry(op: Op, array: Variable) -> bool:
    entries = getattr(op, "idx_list", ())
    return len(entries) == array.type.ndim and not any(isinstance(e, slice) for e in entries)


def _reads_the_same_place(reader: Apply, writer: Apply) -> bool:
    """Return True if a node reads of the array what another one writes to it."""
    match reader.op, writer.op:
        case Subtensor(), IncSubtensor():
            same = reader.op.idx_list == writer.op.idx_list
        case DynamicSlice(), DynamicUpdateSlice():
            same = reader.op.axis == writer.op.axis
        case _:
            same = False
    place = [writer.inputs[0], *writer.inputs[2:]]
    return same and all(
        one is other or (isinstance(one, Constant) and one.equals(other))
        for one, other in zip(reader.inputs, place, strict=True)
    )
