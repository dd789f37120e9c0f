"""The code that a graph is compiled by or from: ours, and that of modules of others."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import cast

from pytensor.compile.mode import Mode
from pytensor.graph.op import Op
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.misc.ordered_set import OrderedSet

from pytensor_jaxlink.artifact.graphs.properties import rule_for
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.link.start_up_cache import STARTED
from pytensor_jaxlink.ops import data_inputs, is_foreign_module, static_inputs

_OURS = Path(__file__).resolve().parents[2]
_PYTHONS = sysconfig.get_path("stdlib")
_COLLECTIONS = (list, tuple, set, frozenset, OrderedSet)


@cache
def own_code() -> str:
    """The checksum of this library.

    Its version will not do: who works on it, or installs it from a repository, changes it under
    one.  Raises `ArtifactError` if it changed while this process ran.
    """
    digest = hashlib.sha256()
    for path in sorted(_OURS.rglob("*.py")):
        digest.update(_source(path))
    return digest.hexdigest()


def foreign_code(kinds: Iterable[type], named: Iterable[str] = ()) -> dict[str, str]:
    """The checksum of each module that the values of a graph depend on.

    These are the modules that define a class of Ops or Types or one of its bases, or have a rule
    for it, and the modules ``named``.  PyTensor's and our own have versions.  Raises
    `ArtifactError` where there is no file of a module, or it changed while this process ran.
    """
    kinds = list(kinds)
    modules = {*named, *(module for kind in kinds for module in _modules_of(kind))}
    ops = [  # not `issubclass`: see `rule_for`
        kind for kind in kinds if Op in kind.__mro__
    ]
    for table in _tables():
        modules |= {rule_for(table, kind).__module__ for kind in ops}
    return {name: _checksum(name) for name in sorted(filter(_may_change, modules))}


Tagged = Mapping[str, Sized]
"""The rewrites of a database, by their tags."""


@dataclass(frozen=True)
class _Searched:
    """The modules that were found, and the databases with the number of their entries then."""

    modules: frozenset[str]
    databases: Sequence[Tagged]
    entries: int

    @property
    def is_valid(self) -> bool:
        """Return True if no rewrite has been registered since."""
        return self.entries == _entries(self.databases)


_searched: dict[object, _Searched] = {}


def modules_of_rewrites(mode: Mode) -> frozenset[str]:
    """The modules of others that the rewrites of a mode come from, by their classes and functions.

    A `PatternNodeRewriter` does not tell where it comes from.

    Cost: 5 ms for the first function, and where rewrites have been registered since.
    """
    query = mode.provided_optimizer
    if not isinstance(query, RewriteDatabaseQuery):
        return frozenset()
    query = query.including(*mode.linker.required_rewrites)
    key = mode.optdb, *map(tuple, (query.include, query.require, query.exclude))
    found = _searched.get(key)
    if found is None or not found.is_valid:
        found = _searched[key] = _search(mode.optdb, query)
    return found.modules


def _entries(databases: Sequence[Tagged]) -> int:
    return sum(sum(map(len, tagged.values())) for tagged in databases)


def _search(database: object, query: RewriteDatabaseQuery) -> _Searched:
    found: set[str] = set()
    seen: set[int] = set()
    databases: list[Tagged] = []
    waiting: list[object] = [database]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, FunctionType):
            found.add(part.__module__)
        elif isinstance(part, dict):
            waiting += part.values()
        elif type(part) in _COLLECTIONS:
            waiting += cast("Iterable[object]", part)
        elif modules := _of_rewrite(type(part)):
            found |= modules
            waiting += _attributes(part, query)
            tagged: Tagged | None = getattr(part, "__db__", None)
            if tagged is not None:
                databases.append(tagged)
    return _Searched(frozenset(filter(_may_change, found)), databases, _entries(databases))


def _attributes(part: object, query: RewriteDatabaseQuery) -> Iterator[object]:
    """The attributes of a rewrite; of a database of rewrites those that a query selects.

    `RewriteDatabase.query` makes rewriters of them, which takes a tenth of a second in a new
    process.
    """
    attributes = dict(getattr(part, "__dict__", {}))
    tagged = attributes.pop("__db__", {})
    chosen = {each for tag in query.include for each in tagged.get(tag, ())}
    for tag in query.require:
        chosen.intersection_update(tagged.get(tag, ()))
    for tag in query.exclude:
        chosen.difference_update(tagged.get(tag, ()))
    yield from attributes.values()
    yield from chosen


@cache
def _of_rewrite(kind: type) -> frozenset[str]:
    """The modules of a class of rewrites or their parts; none for other classes."""
    modules = frozenset(_modules_of(kind))
    is_one = any(module.startswith("pytensor.graph.rewriting.") for module in modules)
    return modules if is_one else frozenset()


def _modules_of(kind: type) -> Iterator[str]:
    """The modules of a class and its bases, whose methods it may have."""
    return (each.__module__ for each in kind.__mro__)


def _may_change(module: str) -> bool:
    """Return True for a module that no version in the key stands for."""
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or _PYTHONS
    is_pythons = top in sys.stdlib_module_names and file.startswith(_PYTHONS)
    return is_foreign_module(module) and not is_pythons


def _tables() -> list[object]:
    """Where rules for Ops are registered.  PyTensor's table is empty until it is imported."""
    dispatch = sys.modules.get("pytensor.link.jax.dispatch.basic")
    return [static_inputs, data_inputs, *([dispatch.jax_funcify] if dispatch else [])]


def _checksum(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return hashlib.sha256(_source(Path(str(file)))).hexdigest()
    except OSError as error:
        raise ArtifactError(
            f"code of {module} has a part in it, and there is no file of that module by which "
            "later processes could tell that it is the same"
        ) from error


def _source(path: Path) -> bytes:
    """The bytes of a file, which are those that this process has imported."""
    source, found = path.read_bytes(), path.stat()
    if max(found.st_mtime, found.st_ctime) > STARTED:  # a file put in its place may be older
        raise ArtifactError(
            f"{path} changed after this process started, which may have imported other code than "
            "later processes find there"
        )
    return source
