"""The files that a writer leaves when it is killed: their names, and how they go."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

_FORM = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}")
_SECONDS = 3600.0
"""A file to which nobody has written for so long has no writer any more.

Its writer may run on another machine that shares the folder, so no process is asked for.
"""


def temporary_of(path: Path) -> Path:
    """The name of a file while it is written, beside its place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def delete_abandoned(entries: Iterable[os.DirEntry[str]], names: re.Pattern[str]) -> None:
    """Delete the temporary files of writers that died.

    Parameters
    ----------
    entries
        A folder.  Temporary files of other names than ours are left alone.
    names
        The names of the files that were to be written.
    """
    for entry in entries:
        form = _FORM.fullmatch(entry.name)
        if form is None or names.fullmatch(form["name"]) is None:
            continue
        with contextlib.suppress(OSError):  # another process has deleted it
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            if age > _SECONDS and entry.is_file(follow_symlinks=False):
                Path(entry.path).unlink()
