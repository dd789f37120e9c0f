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
from pytensor_jaxlink.artifact.start_up.folder import Folder, delete, touch
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
        self._there: set[str] = set()
        self._known: dict[str, dict[str, str]] = {}

    def use(self) -> None:
        """Let JAX keep them here, unless it has been told another place."""
        if jax.config.jax_compilation_cache_dir is None:
            use_compilation_cache(self._path)

    def check(self, name: str) -> None:
        """Look at the executables of a graph; note those that are made from now on."""
        if name in self._known:
            return
        if not self._known:
            self._there = self._names()
            atexit.register(self.note)
        known = self._folder.read(_KIND, name, _checksums, self.clear) or {}
        for file, checksum in known.items():
            path = self._path / file
            found = _checksum(path)
            if found is None or found == checksum:
                touch(path)
            else:
                delete(path)
                self._there.discard(file)
        self._known[name] = known

    def clear(self) -> None:
        """Delete them all, where nothing tells any more which of them are whole."""
        for file in self._names():
            delete(self._path / file)
        self._there = set()

    def note(self) -> None:
        """Keep the checksums of what has been made since."""
        new = {file: _checksum(self._path / file) for file in self._names() - self._there}
        made = {file: checksum for file, checksum in sorted(new.items()) if checksum}
        for name, known in self._known.items() if made else ():
            self._folder.write(_KIND, name, {"checksums": {**known, **made}}, {})

    def _names(self) -> set[str]:
        try:
            return {path.name for path in self._path.iterdir()}
        except OSError:
            return set()


def _checksums(container: Container) -> dict[str, str]:
    found: Any = container.manifest["checksums"]
    if not all(Path(name).name == name for name in found):
        raise ValueError("a name of a file that is a path")
    return {str(name): str(checksum) for name, checksum in found.items()}


def _checksum(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
