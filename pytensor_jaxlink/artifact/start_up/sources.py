"""The code that a graph is compiled by or from: ours, and that of modules of others."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from pytensor.graph.op import Op

from pytensor_jaxlink.artifact.graphs.properties import rule_for
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.ops import data_inputs, is_foreign_module, static_inputs

_OURS = Path(__file__).resolve().parents[2]


@cache
def own_code() -> str:
    """The checksum of this library.

    Its version will not do: who works on it, or installs it from a repository, changes it under
    one.
    """
    digest = hashlib.sha256()
    for path in sorted(_OURS.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def foreign_code(kinds: Iterable[type], named: Iterable[str] = ()) -> dict[str, str]:
    """The checksum of each module that the values of a graph depend on.

    These are the modules that define a class of Ops or Types or one of its bases, or have a rule
    for it, and the modules ``named``.  PyTensor's and our own have versions.  Raises
    `ArtifactError` where there is no file of a module.
    """
    kinds = list(kinds)
    modules = {*named, *(module for kind in kinds for module in _modules_of(kind))}
    ops = [  # not `issubclass`: see `rule_for`
        kind for kind in kinds if Op in kind.__mro__
    ]
    for table in _tables():
        modules |= {rule_for(table, kind).__module__ for kind in ops}
    return {name: _checksum(name) for name in sorted(filter(_may_change, modules))}


def _modules_of(kind: type) -> Iterator[str]:
    """The modules of a class and its bases, whose methods it may have."""
    return (each.__module__ for each in kind.__mro__)


def _may_change(module: str) -> bool:
    """Return True for a module that no version in the key stands for."""
    return is_foreign_module(module) and module not in sys.builtin_module_names


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
