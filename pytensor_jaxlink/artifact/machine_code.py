"""XLA's code for this machine, kept between processes in a folder of the user's own.

What is kept of a compilation is the file that JAX's compilation cache writes for it.  JAX gets an
empty folder to work in, and the file goes to its place in one step, with its checksum: so other
processes never see half a file, JAX never sees a damaged one, and nothing is JAX's that was not.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxlib.version import __version__ as jaxlib_version

from pytensor_jaxlink.artifact.container import Container
from pytensor_jaxlink.artifact.describing import DataWriter
from pytensor_jaxlink.artifact.folder import Folder
from pytensor_jaxlink.artifact.values import DataReader
from pytensor_jaxlink.runtime import Policy, Windows, compilation_folder, has_compilation_cache

PLACE = "PYTENSOR_JAXLINK_CACHE"
"""The environment variable with the folder; empty, nothing is kept."""

_KIND = "xla"
_LIMIT = 1 << 30
_WRITABLE_BY_OTHERS = 0o022


class MachineCode:
    """The code of one function.

    Parameters
    ----------
    folder
        Where it is kept.
    owner
        A checksum of what it is made of.

    """

    def __init__(self, folder: Folder, owner: str) -> None:
        self._folder, self._owner = folder, owner
        self.name = f"jaxlink_{owner[:24]}"

    @classmethod
    def of_user(cls, owner: str) -> MachineCode | None:
        """The code in the user's folder, or None where that cannot be used."""
        path = user_folder()
        return None if path is None else cls(Folder(path, _LIMIT), owner)

    def kept_by(self, policy: Policy) -> Policy:
        """The policy, which keeps the code and finds it."""
        return replace(policy, name=self.name, windows=Windows(self.window))

    @contextmanager
    def window(self, what: str) -> Iterator[None]:
        """Have JAX find the code for what is compiled inside, or keep it."""
        place = None if has_compilation_cache() else _working_folder()
        if place is None:
            yield
            return
        with place:
            name, path = self._key(what), Path(place.name)
            there = self._folder.read(_KIND, name, _files) or {}
            with suppress(OSError):  # there is no room: then it is compiled
                for file, content in there.items():
                    (path / file).write_bytes(content)
            with compilation_folder(path):
                yield
            with suppress(OSError):
                made = {each.name: each.read_bytes() for each in path.glob(f"*{self.name}*-cache")}
                if made.keys() - there.keys():
                    self._keep(name, made)

    def _key(self, what: str) -> str:
        text = "\n".join([self._owner, machine(), jax.__version__, jaxlib_version, what])
        return hashlib.sha256(text.encode()).hexdigest()

    def _keep(self, name: str, files: Mapping[str, bytes]) -> None:
        data = DataWriter()
        arrays = {file: np.frombuffer(content, np.uint8) for file, content in files.items()}
        document = {"files": data.value(arrays), "data": data.table.entries}
        self._folder.write(_KIND, name, document, data.members)


def _files(container: Container) -> dict[str, bytes]:
    manifest = container.manifest
    found: Any = DataReader(container, manifest["data"]).value(manifest["files"])
    return {Path(name).name: content.tobytes() for name, content in found.items()}


def _working_folder() -> tempfile.TemporaryDirectory[str] | None:
    try:
        return tempfile.TemporaryDirectory(prefix="pytensor_jaxlink_", ignore_cleanup_errors=True)
    except OSError:
        return None  # code is then compiled, and not kept


def user_folder() -> Path | None:
    """The folder, or None where there is to be none, or it is not the user's alone.

    Who can write to it can have this process run code.
    """
    try:
        path = _place()
        if path is None:
            return None
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, RuntimeError):  # there is no home
        return None
    if hasattr(os, "geteuid"):  # elsewhere a home is its owner's alone
        owned = status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS
        return path if owned else None
    return path


def _place() -> Path | None:
    own, caches = os.environ.get(PLACE), os.environ.get("XDG_CACHE_HOME")
    if own is not None:
        return Path(own).absolute() if own else None
    # A relative one is to be ignored, says the XDG Base Directory Specification.
    home = Path(caches) if caches and Path(caches).is_absolute() else Path.home() / ".cache"
    return home / "pytensor_jaxlink"


@cache
def machine() -> str:
    """What XLA compiles for: the kind of the device and the instructions of the processor."""
    parts = [platform.machine(), platform.system(), jax.default_backend()]
    parts.append(jax.devices()[0].device_kind)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    # The model and what it can do (``flags``, on Arm ``Features``), of the first processor.
    wanted = ("model name", "flags", "Features", "CPU part")
    parts += [next((line for line in lines if line.startswith(name)), "") for name in wanted]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
