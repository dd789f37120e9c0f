"""Where JAX keeps what XLA has compiled: for the whole process, or while a window is open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from os import PathLike, fspath
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

Window = Callable[[str], AbstractContextManager[None]]
"""Opens a window for what a text describes."""

_FOLDER = "jax_compilation_cache_dir"
_EVERYTHING = {
    # JAX's defaults keep only what took a second to compile, which few regions do.
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_compilation_cache_max_size": -1,
    "jax_persistent_cache_enable_xla_caches": "none",
}
_lock = threading.RLock()


def problem_of_options(options: Any) -> str | None:
    """What is wrong with options for XLA, or None."""
    if options is None or (
        isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
    ):
        return None
    return f"compiler_options={options!r} is not a mapping with names of options"


def use_compilation_cache(folder: str | PathLike[str]) -> None:
    """Let JAX keep all that it compiles in a folder, and find it there, from now on."""
    name = fspath(folder)
    if jax.config.jax_compilation_cache_dir == name:
        return
    compilation_cache.set_cache_dir(name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # it may have been found to be off before


def has_compilation_cache() -> bool:
    """Whether the user has told JAX where to keep what it compiles, or not to keep it."""
    with _lock:  # or it would be the folder of another thread's window
        named = jax.config.jax_compilation_cache_dir is not None
        return named or not jax.config.jax_enable_compilation_cache


@contextmanager
def compilation_folder(folder: str | PathLike[str]) -> Iterator[None]:
    """Let JAX keep what it compiles in a folder while the block runs, and then do as before.

    JAX's configuration is that of the process: one block runs at a time, and what another thread
    compiles meanwhile goes to the same folder.
    """
    wanted = {_FOLDER: fspath(folder), **_EVERYTHING}
    wanted = {name: value for name, value in wanted.items() if hasattr(jax.config, name)}
    with _lock:
        before = {name: getattr(jax.config, name) for name in wanted}
        try:
            _configure(wanted)
            yield
        finally:
            # What somebody else has set meanwhile stays.
            same = {name for name in wanted if getattr(jax.config, name) == wanted[name]}
            _configure({name: value for name, value in before.items() if name in same})


def _configure(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # it has been opened where it was


class Windows:
    """The windows in which JAX keeps the code of a function, one for each thread that compiles.

    JAX compiles after it has traced, in the same call: what is traced opens the window, and who
    made the call closes it.  (A trace that stops to have one opened is no way: JAX's fast path is
    lost for the arguments of a call that has failed.)

    Parameters
    ----------
    window
        Opens one; None where no code is kept.

    Attributes
    ----------
    open
        Those that are open, by thread; empty in every call of what has been compiled.
    """

    def __init__(self, window: Window | None = None) -> None:
        self._window = window
        self._lasting: set[int] = set()  # the threads whose window is that of a block
        self.open: dict[int, ExitStack] = {}

    def enter(self, what: str) -> None:
        """Open a window in this thread, and close that of an earlier trace."""
        thread = threading.get_ident()
        if self._window is not None and thread not in self._lasting:
            self.leave()
            stack = self.open[thread] = ExitStack()
            stack.enter_context(self._window(what))

    def leave(self) -> None:
        """Close the window of this thread, if there is one."""
        stack = self.open.pop(threading.get_ident(), None)
        if stack is not None:
            stack.close()

    @contextmanager
    def around(self, what: str) -> Iterator[None]:
        """A window around the block, unless it is in one."""
        thread = threading.get_ident()
        if thread in self._lasting:
            yield
            return
        try:
            self.enter(what)
            self._lasting.add(thread)
            yield
        finally:
            self._lasting.discard(thread)
            self.leave()
