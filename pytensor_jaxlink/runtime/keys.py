"""Generators as arguments of functions that JAX traces.

A NumPy generator in a pytree becomes its key, so that ``jax.jit(f.jax_fn)(x, *shared_values)``
takes the value of a shared generator like that of any other shared variable.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.generators import (
    KeyGenerator,
    generator_of_key,
    held_key,
    key_of_generator,
)
from pytensor_jaxlink.runtime.typed_jax import Tracer, register_pytree_node


def as_key(value: Any) -> Any:
    """A generator in any of its forms as a key of two 32-bit words.

    The forms: a NumPy generator, a key of `jax.random.key` or its data, and the dictionary that
    PyTensor's JAX mode makes of a generator.
    """
    if isinstance(value, np.random.Generator):
        key = held_key(value)
        return key_of_generator(value) if key is None else key
    state: Any = value
    if isinstance(value, dict):
        if "jax_state" not in state:  # PyTensor's type takes any dictionary, and no draw does
            raise AttributeError("a draw takes a generator, found a dictionary of another kind")
        return state["jax_state"]
    if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(value)
    return value


def _flatten(generator: np.random.Generator) -> tuple[tuple[object], None]:
    return (key_of_generator(generator),), None


def _unflatten(_: None, children: tuple[Any]) -> object:
    [key] = children
    concrete = isinstance(key, np.ndarray | jax.Array) and not isinstance(key, Tracer)
    return generator_of_key(key) if concrete else children[0]


for kind in (np.random.Generator, KeyGenerator):
    with suppress(ValueError):  # somebody has registered generators before us: theirs stays
        register_pytree_node(kind, _flatten, _unflatten)
