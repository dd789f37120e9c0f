"""The files of a start-up cache.

Each is written beside its place, under a name that says what it is for, and then renamed; so
processes need no locks.  The folder may be the user's and hold other things: only files with the
names that are written here are ever counted, changed or deleted.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pytensor_jaxlink.artifact.abandoned import delete_abandoned
from pytensor_jaxlink.artifact.container import Container, Member, write_container
from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError

# Nobody else gives such names.  Versions before this one wrote plans apart from code.
_OWN = re.compile(r"(code|plan)-[0-9a-f]{64}\.jaxlink")
_KEPT = 0.9  # of the limit is what eviction leaves, so that not each file that is written evicts

Result = TypeVar("Result")


class Folder:
    """A folder with a bound on its size; it is made when something is written."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit = path, limit

    def read(self, name: str, make: Callable[[Container], Result]) -> Result | None:
        """The object that ``make`` makes of a file, or None where no whole file is there.

        A file that is damaged is deleted.
        """
        path = self._path(name)
        try:
            with path.open("rb") as file:
                container = Container(file, str(path))
                if container.manifest.get("name") != name:
                    raise container.error("it has the name of another file")
                result = make(container)
            with contextlib.suppress(OSError):
                os.utime(path)  # it is used
        except OSError:
            return None  # it is not there, or not any more
        except Exception:  # whatever is wrong with it, it is made anew
            _delete(path)
            return None
        return result

    def write(
        self, name: str, document: Mapping[str, Json], members: Mapping[str, Member]
    ) -> str | None:
        """Write a file.  Returns why that cannot be done, with its code, or None."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            manifest = {"name": name, **document}
            write_container(self._path(name), manifest, members, durable=False)
            self.evict()
        except OSError as error:
            return Code.NO_FOLDER.mark(str(error))
        except ArtifactError as error:
            return str(error)
        return None

    def makes(self, name: str) -> bool:
        """Make a folder in this one.  Returns whether it can be written to."""
        path = self.path / name
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(path, os.W_OK | os.X_OK)

    def _path(self, name: str) -> Path:
        """The file with a name, which is a checksum."""
        file = f"code-{name}.jaxlink"
        assert _OWN.fullmatch(file), f"{file!r} would never be deleted"
        return self.path / file

    def evict(self) -> None:
        """Delete the files used least recently, until the folder is within its limit."""
        with os.scandir(self.path) as entries:
            found = list(entries)
        delete_abandoned(found, _OWN)
        files = [(status, Path(each.path)) for each in found if (status := _status(each))]
        total = sum(status.st_size for status, _ in files)
        if total <= self.limit:
            return
        for status, path in sorted(files, key=lambda each: each[0].st_mtime_ns):
            if total <= self.limit * _KEPT:
                return
            _delete(path)
            total -= status.st_size


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """The size and age of a file of ours; None for all else."""
    if _OWN.fullmatch(entry.name) is None or not entry.is_file(follow_symlinks=False):
        return None
    with contextlib.suppress(OSError):  # another process has deleted it
        return entry.stat(follow_symlinks=False)
    return None


def _delete(path: Path) -> None:
    """Delete a file, unless another process has done it."""
    with contextlib.suppress(OSError):
        path.unlink()
