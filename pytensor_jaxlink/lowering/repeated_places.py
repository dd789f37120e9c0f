"""Values that are set at places of which some are repeated: the last one stays.

NumPy writes one value after another, and so does XLA on CPUs.  On GPUs it writes them at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.lowering.index_checks import Index, is_mask
from pytensor_jaxlink.lowering.platforms import on_cpus_alone

Places = Sequence[Index | slice]


def last_of_each_place(array: jax.Array, values: Index, index: Places) -> Index:
    """The values of ``array[index] = values`` so that their order does not count.

    Of the values that go to one place each becomes the last one.  On CPUs they stay as they are.
    It costs three passes over the values and one over an array of integers, unless the places are
    known to differ, or the values not to.  To trace it takes 4 ms.
    """
    places = [entry for entry in index if not isinstance(entry, slice) and np.ndim(entry) > 0]
    if on_cpus_alone() or all(np.size(part) == 1 for part in places) or np.size(values) == 1:
        return values
    if 0 in np.shape(array) or any(map(is_mask, places)):
        return values
    if not any(isinstance(entry, jax.Array) for entry in places) and _differ(array, index):
        return values
    traced = [entry for entry in index if isinstance(entry, jax.Array)]

    def complete(given: Sequence[jax.Array]) -> tuple[Index | slice, ...]:
        arrays = iter(given)
        return tuple(next(arrays) if isinstance(entry, jax.Array) else entry for entry in index)

    selected = jax.eval_shape(lambda a, *given: a[complete(given)], array, *traced).shape

    def in_order(values: jax.Array, *given: jax.Array) -> jax.Array:
        return jnp.broadcast_to(values, selected)

    def at_once(values: jax.Array, *given: jax.Array) -> jax.Array:
        where = complete(given)
        turn = jnp.arange(np.prod(selected, dtype=object)).reshape(selected)
        last = jnp.zeros(np.shape(array), turn.dtype).at[where].max(turn)
        return jnp.broadcast_to(values, selected).ravel()[last[where]]

    return jax.lax.platform_dependent(jnp.asarray(values), *traced, cpu=in_order, default=at_once)


def _differ(array: jax.Array, index: Places) -> bool:
    """Return True if places that are known differ from each other."""
    places = {axis: entry for axis, entry in enumerate(index) if not isinstance(entry, slice)}
    lengths = [np.shape(array)[axis] for axis in places]
    if not all(isinstance(length, int) for length in lengths):
        return False
    entries = np.broadcast_arrays(*map(np.asarray, places.values()))
    counted = [
        entry.ravel() % max(length, 1) for entry, length in zip(entries, lengths, strict=True)
    ]
    return np.unique(np.stack(counted), axis=1).shape[1] == counted[0].size
