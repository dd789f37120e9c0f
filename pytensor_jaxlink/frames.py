"""Which files are the user's, for lines in messages and the place of a warning."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import warnings
from functools import lru_cache
from types import FrameType

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import JAXLinkWarning

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
# Found by name wherever they lie, because a developer's copy is in no folder of packages.
_MACHINERY = ("pytensor", "jax", "jaxlib")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# A notebook, a doctest and an interactive session have no file: their names begin with "<", and
# so do the names of code that libraries generate, which are these.
_GENERATED = (
    "<frozen ",
    "<string>",
    "<__array_function__",
    "<decorator-gen",
    "<the plan of a function>",  # `runtime.codegen`
)


def _standard_library() -> tuple[str, ...]:
    folders = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib")}
    folders |= {os.path.realpath(folder) for folder in folders}
    return tuple(os.path.join(folder, "") for folder in sorted(folders))


_STANDARD = _standard_library()


@lru_cache(maxsize=4096)
def distance(filename: str) -> int | None:
    """How far a file is from the user's code: 0 for that, 1 for other packages.

    None for this package, PyTensor, JAX and Python's own library.  A model written with PyMC was
    not written in PyMC's files; they are better than nothing.
    """
    if filename.startswith("<"):
        return None if filename.startswith(_GENERATED) else 0
    path = os.path.abspath(filename)
    if path.startswith((_PACKAGE, *_machinery())):
        return None
    if any(folder in path for folder in _INSTALLED):
        return 1
    return None if path.startswith(_STANDARD) else 0


def _machinery() -> tuple[str, ...]:
    modules = [sys.modules[name] for name in _MACHINERY if name in sys.modules]
    files = [module.__file__ for module in modules if module.__file__]
    return tuple(os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in files)


def warn_at_user_line(message: str, code: Code) -> None:
    """Warn, at the line of the user's code that is running."""
    best = _user_frame()
    warnings.warn_explicit(
        JAXLinkWarning(message, code=code),
        JAXLinkWarning,
        best.f_code.co_filename,
        best.f_lineno,
        best.f_globals.get("__name__", "<unknown>"),
        best.f_globals.setdefault("__warningregistry__", {}),
    )


def running_line() -> str:
    """``file:line`` of the user's code that is running."""
    frame = _user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _user_frame() -> FrameType:
    here = inspect.currentframe()
    # A frame that holds itself, and through its callers every array of the call, waits for the
    # garbage collector: so this one is left out, and forgotten.
    frame = here and here.f_back
    del here
    nearest: dict[int, FrameType] = {}  # of each rank, the innermost frame
    while frame is not None:
        nearest.setdefault(_rank(frame.f_code.co_filename), frame)
        frame = frame.f_back
    return nearest[min(nearest)]


def _rank(filename: str) -> int:
    found = distance(filename)
    return 2 if found is None else found
