"""The dependencies of code beside the graph: versions, machine, flags, rules of other authors."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax
from pytensor.configdefaults import config
from pytensor.graph.op import Op

from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.graphs.properties import rule_for
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.ops import data_inputs, static_inputs

# PyMC adds rewrites to PyTensor's database, and numpyro draws where it is installed.
_PACKAGES = ("pytensor", "jax", "jaxlib", "numpy", "scipy", "numpyro", "pymc")
_FLAGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)
_OURS = Path(__file__).resolve().parents[2]


@cache
def versions() -> dict[str, Json]:
    """The versions of all that has a part in compiling, and a checksum of this library."""
    found: dict[str, Json] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    digest = hashlib.sha256()
    for path in sorted(_OURS.rglob("*.py")):
        digest.update(path.read_bytes())
    # Not its version: who works on it, or installs it from a repository, changes it under one.
    return found | {"pytensor_jaxlink": digest.hexdigest()}


@cache
def machine() -> str:
    """The target of XLA: the kind of the device and the instructions of the processor."""
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


def flags() -> dict[str, str]:
    """The configuration that rewriting and tracing look at."""
    found = {name: str(getattr(jax.config, name, None)) for name in _FLAGS}
    return found | {"floatX": config.floatX, "cast_policy": config.cast_policy}


def foreign_code(kinds: Iterable[type]) -> dict[str, str]:
    """The checksum of each module that defines a class of Ops or Types, or has a rule for it.

    PyTensor's and our own have versions.

    Raises
    ------
    ArtifactError
        If there is no file to tell whether the code is still the same.
    """
    kinds = list(kinds)
    modules = {kind.__module__ for kind in kinds}
    ops = [  # not `issubclass`: see `rule_for`
        kind for kind in kinds if Op in kind.__mro__
    ]
    for table in _tables():
        modules |= {rule_for(table, kind).__module__ for kind in ops}
    foreign = [m for m in modules if m.partition(".")[0] not in ("pytensor", "pytensor_jaxlink")]
    return {name: _checksum(name) for name in sorted(foreign)}


def _tables() -> list[object]:
    """Where rules for Ops are registered.  PyTensor's table is empty until it is imported."""
    dispatch = sys.modules.get("pytensor.link.jax.dispatch.basic")
    return [static_inputs, data_inputs, *([dispatch.jax_funcify] if dispatch else [])]


def _checksum(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return hashlib.sha256(Path(str(file)).read_bytes()).hexdigest()
    except OSError as error:
        raise ArtifactError(
            f"code of {module} has a part in it, and there is no file of that module by which "
            "later processes could tell that it is the same"
        ) from error
