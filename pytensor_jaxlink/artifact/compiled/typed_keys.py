"""Typed keys of random bits: saved code takes and gives their data."""

from __future__ import annotations

from typing import Any

import jax


def implementation_of(value: Any) -> str | None:
    """The implementation of an array of typed keys, None for other arrays."""
    is_key = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
    return str(jax.random.key_impl(value)) if is_key else None


def data_of(value: jax.Array) -> jax.Array:
    """The data of an array of typed keys; other arrays as they are."""
    return value if implementation_of(value) is None else jax.random.key_data(value)


def with_implementation(value: Any, implementation: str | None) -> Any:
    """An array as `data_of` was given it."""
    if implementation is None:
        return value
    return jax.random.wrap_key_data(value, impl=implementation)
