"""The files that a writer leaves when it is killed: their names, and how they go."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any = None
with contextlib.suppress(ImportError):  # not on Windows
    import fcntl

_FORM = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}")
_SECONDS = 3600.0
"""A file to which nobody has written for so long has no writer, on whatever machine."""

_JUST_MADE = 2.0  # seconds, in which a writer takes its lock


@contextmanager
def writing(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new temporary file for the place of another: its name, and the file, which is locked.

    The system takes the lock from a writer that dies.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with temporary.open("x+b") as file:
        lock = os.dup(file.fileno())  # holds when the file is closed, to be renamed
        try:
            _lock(lock)
            yield temporary, file
        finally:
            file.close()
            temporary.unlink(missing_ok=True)
            os.close(lock)


def _lock(handle: int) -> bool | None:
    """Take the lock of a file; returns whether that worked, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _has_no_writer(path: Path, age: float) -> bool:
    if age < _JUST_MADE:
        return False
    handle = os.open(path, os.O_RDWR)
    try:
        free = _lock(handle)
        return age > _SECONDS if free is None else free
    finally:
        os.close(handle)


def delete_abandoned(entries: Iterable[os.DirEntry[str]], names: re.Pattern[str]) -> None:
    """Delete the temporary files of writers that died, for files of these names, among entries."""
    for entry in entries:
        form = _FORM.fullmatch(entry.name)
        if form is None or names.fullmatch(form["name"]) is None:
            continue
        with contextlib.suppress(OSError):  # another process has deleted it
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            path = Path(entry.path)
            if entry.is_file(follow_symlinks=False) and _has_no_writer(path, age):
                path.unlink()
