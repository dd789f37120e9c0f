"""The rule of `ARange`: the entries that NumPy gives, and no memory for them while JAX traces."""

from __future__ import annotations

from math import ceil

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import ARange

from pytensor_jaxlink.lowering.coercion import as_dtype, canonical_dtype
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.size_functions import as_integer, is_open

_LISTED = 100_000
"""Entries of a range of real numbers that NumPy lists: the last digits are those of Python, too.

XLA takes longer to compile a program that holds more of them than to compute them.
"""

_LONGEST = 1 << 34
"""Entries that XLA surely takes; for a sum over 2**36 its compiler ends the process (JAX 0.12).

NumPy makes a longer range on the host, or says that there is no memory for it.
"""


@jax_rule.register(ARange)
def _arange(op: ARange, node: Apply, context: Context) -> JaxFunction:
    dtype = np.dtype(op.dtype)

    def arange(start: object, stop: object, step: object) -> ArrayLike:
        bounds = [np.asarray(value).item() for value in (start, stop, step)]
        if any(map(is_open, bounds)):
            return jnp.arange(*map(as_integer, bounds), dtype=canonical_dtype(dtype))
        length = _length(*bounds) if dtype.kind in "iuf" else 0
        if length < 2 or (dtype.kind == "f" and length <= _LISTED):
            return np.arange(*bounds, dtype=dtype)
        wide = canonical_dtype("float32" if dtype == "float16" else dtype)
        if length > _LONGEST:
            raise MemoryError(f"a range of {length} entries is too long for XLA")
        counter = jnp.arange(length, dtype=wide)
        # The others follow from the first two entries, which NumPy rounds to the type.
        entries = np.array([bounds[0], bounds[0] + bounds[2]], dtype).astype(wide)
        first, apart = entries[0], np.diff(entries)[0]
        found = counter if first == 0 and apart == 1 else first + counter * apart
        if dtype.kind == "f" and first == 0 and np.signbit(first) != np.signbit(apart):
            # `0 * apart` has the other sign: -0.0 + 0.0 is 0.0, and XLA takes `0.0 + x` for `x`.
            found = jnp.where(counter == 0, first, found)
        return as_dtype(found, dtype)

    return arange


def _length(start: float, stop: float, step: float) -> int:
    """The number of entries that NumPy gives a range: it divides integers as real numbers, too."""
    return ceil((stop - start) / step)
