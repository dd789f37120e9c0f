"""The versions of this library and of the packages that have a part in what it compiles."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

# PyMC adds rewrites to PyTensor's database, and numpyro draws where it is installed.
_PACKAGES = ("pytensor", "jax", "jaxlib", "numpy", "scipy", "numpyro", "pymc")


def version_of(package: str) -> str | None:
    """The version of a package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def own_version() -> str:
    """The version of this library that was installed; the build takes it from git."""
    # One that nobody has installed runs from a source tree.
    return version_of("pytensor_jaxlink") or "0+unknown"


@cache
def versions() -> Mapping[str, str]:
    """The versions of this library, of Python and of the packages that are installed."""
    found = {package: number for package in _PACKAGES if (number := version_of(package))}
    return {"pytensor_jaxlink": own_version(), "python": platform.python_version(), **found}
