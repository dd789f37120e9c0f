"""XLA's executables: JAX's persistent compilation cache, in a folder of the start-up cache.

JAX writes its files where they are to stay, never looks whether they are whole beyond unpacking
them, and never writes one again; so which of them a graph has made is kept with their checksums,
and a file that is damaged is deleted before JAX sees it.
"""

from __future__ import annotations

import atexit
import hashlib
from pathlib import Path
from typing import Any

import jax

from pytensor_jaxlink.artifact.container import Container
from pytensor_jaxlink.artifact.folder import Folder, delete, touch
from pytensor_jaxlink.runtime import use_compilation_cache

_KIND = "executables"


class Executables:
    """The executables of one folder.

    Parameters
    ----------
    folder
        The start-up cache.
    machine
        What they are compiled for: those of another processor are not even looked at.
    """

    def __init__(self, folder: Folder, machine: str) -> None:
        self._folder = folder
        self._path = folder.path / f"xla-{machine[:16]}"
        self._known: dict[str, dict[str, str]] = {}

    def use(self) -> None:
        """Let JAX keep them here, unless it has been told another place."""
        if jax.config.jax_compilation_cache_dir is None:
            use_compilation_cache(self._path)

    def check(self, name: str) -> None:
        """Look at the executables of a graph before JAX does."""
        if name in self._known:
            return
        if not self._known:
            atexit.register(self.note)
        known = self._folder.read(_KIND, name, _checksums, self.clear) or {}
        for path in self._of(name):
            touch(path)
            if known.get(path.name) not in (None, _checksum(path)):
                del known[path.name]
                delete(path)
        self._known[name] = known

    def clear(self) -> None:
        """Delete them all, where nothing tells any more which of them are whole."""
        for path in self._path.glob("*"):
            delete(path)

    def note(self) -> None:
        """Keep the checksums of what has been made since."""
        for name, known in self._known.items():
            found = {path.name: _checksum(path) for path in self._of(name)}
            made = {file: checksum for file, checksum in found.items() if checksum}
            if made.keys() - known.keys():
                self._folder.write(_KIND, name, {"checksums": {**known, **made}}, {})

    def _of(self, name: str) -> list[Path]:
        return sorted(self._path.glob(f"*{name_of(name)}*"))


def name_of(graph: str) -> str:
    """What the functions of a graph are called, so that their executables can be told."""
    return f"jaxlink_{graph[:24]}"


def _checksums(container: Container) -> dict[str, str]:
    found: Any = container.manifest["checksums"]
    return {str(name): str(checksum) for name, checksum in found.items()}


def _checksum(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
