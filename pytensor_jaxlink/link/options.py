"""The options of the linker, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import problem_of_folder, problem_of_options

_DEVICE = re.compile(r"[a-z_]+(:\d+)?")

_CHOICES: dict[str, tuple[object, ...]] = {
    "jit": ("selective", True, False),
    "host_ops": ("split", "error", "callback"),
    "checks": ("raise", "ignore"),
    "donate": ("updates", "all", "warn", "none"),
    "dynamic": ("auto", True, False),
    "outputs": ("jax", "numpy"),
    "on_recompile_limit": ("host", "compile", "error"),
}


PLACES = ("compilation_cache", "cache_dir", "cache_limit")
"""The options that say where this machine keeps things, and not what a function does."""

KEPT_IN_FILES = (
    "jit",
    "host_ops",
    "checks",
    "outputs",
    "donate",
    "dynamic",
    "recompile_limit",
    "on_recompile_limit",
)
"""The options that a loaded function takes from its file.  None names a place."""


@dataclass(frozen=True)
class Options:
    """The options of a `JAXLinker`."""

    jit: Literal["selective"] | bool = "selective"
    host_ops: Literal["split", "error", "callback"] = "split"
    checks: Literal["raise", "ignore"] = "raise"
    outputs: Literal["jax", "numpy"] = "jax"
    donate: Literal["updates", "all", "warn", "none"] = "updates"
    compiler_options: Mapping[str, Any] | None = None
    compilation_cache: str | PathLike[str] | None = None
    recompile_limit: int = 8
    on_recompile_limit: Literal["host", "compile", "error"] = "host"
    cache_dir: str | PathLike[str] | None = None
    cache_limit: int = 1 << 30
    device: str | None = None
    dynamic: Literal["auto"] | bool = "auto"
    buckets: Sequence[int] | Callable[[int], int] | None = None

    def __post_init__(self) -> None:
        problems: list[str | None] = []
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            # 1 == True, but it is not what the option says.
            known = value in choices if isinstance(value, str) else any(value is c for c in choices)
            if not known:
                problems.append(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
        problems.append(problem_of_options(self.compiler_options))
        problems.append(problem_of_folder("compilation_cache", self.compilation_cache))
        problems.append(problem_of_folder("cache_dir", self.cache_dir))
        for name in ("recompile_limit", "cache_limit"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                problems.append(f"{name}={value!r} is not a positive integer")
        problems += _problems_of_buckets(self.buckets)
        if self.device is not None and not _DEVICE.fullmatch(str(self.device)):
            problems.append(
                f"device={self.device!r} is no jax.Device, platform ('cpu') or device of one "
                f"('gpu:1'); {Remedy.SHARDED_ARGUMENTS.text()}"
            )
        found = [problem for problem in problems if problem is not None]
        if found:
            raise ValueError(Code.OPTIONS.mark("JAXLinker: " + "; ".join(found)))


def _problems_of_buckets(buckets: Any) -> list[str]:
    if buckets is None or callable(buckets):
        return []
    lengths = list(buckets) if isinstance(buckets, Sequence) else []
    if lengths and all(type(length) is int and length > 0 for length in lengths):
        return []
    return [
        f"buckets={buckets!r} is neither a sequence of positive integers nor a function that gives "
        "the length to which one is padded"
    ]
