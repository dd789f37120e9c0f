"""Equal programs are compiled once: most options of a graph give the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

import jax
from jax.experimental.compilation_cache import compilation_cache

from pytensor_jaxlink.runtime import use_compilation_cache


@contextmanager
def shared_code(folder: str | PathLike[str]) -> Iterator[None]:
    """Let JAX keep all that it compiles in a folder while the block runs, and then do as before."""
    names = [name for name in jax.config.values if "cache" in name]
    before = {name: getattr(jax.config, name) for name in names}
    use_compilation_cache(folder)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
