"""Rules for indexing.  PyTensor's own do the work; here bounds become integers, indices are checked.

JAX clamps or drops what lies out of range; PyTensor's Python linker raises `IndexError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor import subtensor
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule


def _is_mask(index: Any) -> bool:
    return getattr(index, "dtype", None) == np.dtype("bool")


def _check_range(index: Any, length: int) -> None:
    """Require that every entry of an integer index lies in ``[-length, length)``."""
    if np.size(index) == 0:
        return
    if isinstance(index, np.ndarray | np.generic):
        if np.any(index < -length) or np.any(index >= length):
            raise IndexError(f"an index is out of bounds for an axis with size {length}")
        return
    if not jnp.issubdtype(index.dtype, jnp.unsignedinteger):
        require(index >= -length)
    require(index < length)


def _indexed_axes(shape: tuple[int, ...], entries: Any, values: Any) -> Iterator[tuple[Any, int]]:
    """The integer indices, each with the length of the axis it selects from."""
    axis = 0
    for entry in entries:
        if isinstance(entry, slice):
            axis += 1
            continue
        index = values[entry]
        if _is_mask(index):
            axis += np.ndim(index)
            continue
        yield index, shape[axis]
        axis += 1


def _with_integer_bounds(entries: Any, values: tuple[Any, ...]) -> list[Any]:
    """The index values with slice bounds as Python integers, which is what JAX slices by."""
    bounds = {
        part
        for entry in entries
        if isinstance(entry, slice)
        for part in (entry.start, entry.stop, entry.step)
        if part is not None
    }
    return [
        int(value) if position in bounds else value for position, value in enumerate(values)
    ]


def _indexing_rule(node: Apply, context: Context, first_index: int) -> JaxFunction:
    entries = node.op.idx_list
    function = upstream_rule(node)

    def index(array: Any, *rest: Any) -> Any:
        data, indices = rest[: first_index - 1], rest[first_index - 1 :]
        if context.checks:
            for position, length in _indexed_axes(np.shape(array), entries, indices):
                _check_range(position, length)
        return function(array, *data, *_with_integer_bounds(entries, indices))

    return index


@jax_rule.register(Subtensor)
@jax_rule.register(AdvancedSubtensor)
def _subtensor(op: Op, node: Apply, context: Context) -> JaxFunction:
    return _indexing_rule(node, context, first_index=1)


@jax_rule.register(IncSubtensor)
@jax_rule.register(AdvancedIncSubtensor)
def _inc_subtensor(op: Op, node: Apply, context: Context) -> JaxFunction:
    return _indexing_rule(node, context, first_index=2)


def _first_axis_rule(op: Op, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node)

    def index(array: Any, *rest: Any) -> Any:
        if context.checks:
            _check_range(rest[-1], np.shape(array)[0])
        return function(array, *rest)

    return index


# PyTensor before 3.1 has separate Ops for one vector of integers on the first axis.
for _name in ("AdvancedSubtensor1", "AdvancedIncSubtensor1"):
    if isinstance(_op := getattr(subtensor, _name, None), type):
        jax_rule.register(_op)(_first_axis_rule)
