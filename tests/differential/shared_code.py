"""Equal programs are compiled once: most options of a graph give the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

import jax

from pytensor_jaxlink.runtime import use_compilation_cache
from tests.compilation_cache import restored_cache


@contextmanager
def shared_code(folder: str | PathLike[str]) -> Iterator[None]:
    """Let JAX keep all that it compiles in a folder while the block runs, and then do as before."""
    with restored_cache():
        use_compilation_cache(folder)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        yield
