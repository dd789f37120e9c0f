"""JAX's compilation cache, which is that of the process: set for a while, and then as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax.experimental.compilation_cache import compilation_cache


@contextmanager
def restored_cache() -> Iterator[None]:
    """Let the block configure the cache, and restore the configuration after it."""
    names = [name for name in jax.config.values if "cache" in name]
    before = {name: getattr(jax.config, name) for name in names}
    try:
        yield
    finally:
        changed = {n: value for n, value in before.items() if getattr(jax.config, n) != value}
        for name, value in changed.items():
            jax.config.update(name, value)
        if changed:
            compilation_cache.reset_cache()
