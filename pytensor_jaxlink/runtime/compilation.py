"""JAX's persistent compilation cache."""

from __future__ import annotations

from os import PathLike, fspath

import jax
from jax.experimental.compilation_cache import compilation_cache


def use_compilation_cache(folder: str | PathLike[str]) -> None:
    """Let JAX keep all that it compiles in a folder, and find it there.

    JAX's default keeps only what took a second to compile, which few regions do.
    """
    name = fspath(folder)
    if jax.config.jax_compilation_cache_dir == name:
        return
    compilation_cache.set_cache_dir(name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # it may have been found to be off before
