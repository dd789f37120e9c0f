"""JAX's compilation cache, and the options of XLA."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from pytensor_jaxlink.runtime.typed_jax import configuration, reset_cache, set_cache_dir


def problem_of_options(options: object) -> str | None:
    """The problem of options for XLA, or None."""
    given: Any = options
    names: list[object] = list(given) if isinstance(options, Mapping) else [None]
    if options is None or all(isinstance(name, str) for name in names):
        return None
    return f"compiler_options={options!r} is not a mapping with names of options"


def problem_of_folder(option: str, folder: object) -> str | None:
    """The problem of an option that names a folder, or None."""
    if folder is None or isinstance(folder, str | PathLike):
        return None
    return f"{option}={folder!r} is not the name of a folder"


def use_compilation_cache(folder: str | PathLike[str], limit: int | None = None) -> None:
    """Set the folder of JAX's compilation cache, for the rest of the process.

    JAX may keep ``limit`` bytes there; None leaves it to JAX's configuration.
    """
    name = fspath(folder)
    if configuration.jax_compilation_cache_dir == name:
        return
    set_cache_dir(name)
    # JAX's default keeps only what took a second to compile, which few regions do.
    configuration.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if limit is not None:
        configuration.update("jax_compilation_cache_max_size", limit)
    reset_cache()  # JAX looks at its options once, when it compiles first


def has_compilation_cache() -> bool:
    """Return True if JAX has a compilation cache, or has been told to have none."""
    named = configuration.jax_compilation_cache_dir is not None
    return named or not configuration.jax_enable_compilation_cache
