"""The options of the linker, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

_CHOICES: dict[str, tuple[object, ...]] = {
    "jit": ("selective", True, False),
    "host_ops": ("split", "error", "callback"),
    "checks": ("raise", "ignore"),
    "donate": ("updates", "all", "warn", "none"),
    "outputs": ("jax", "numpy"),
    "on_recompile_limit": ("host", "compile", "error"),
}


@dataclass(frozen=True)
class Options:
    """What `JAXLinker` was asked for."""

    jit: Literal["selective"] | bool = "selective"
    host_ops: Literal["split", "error", "callback"] = "split"
    checks: Literal["raise", "ignore"] = "raise"
    outputs: Literal["jax", "numpy"] = "jax"
    donate: Literal["updates", "all", "warn", "none"] = "updates"
    compiler_options: Mapping[str, Any] | None = None
    compilation_cache: str | PathLike[str] | None = None
    recompile_limit: int = 8
    on_recompile_limit: Literal["host", "compile", "error"] = "host"

    def __post_init__(self) -> None:
        problems = []
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            # 1 == True, but it is not what the option says.
            known = value in choices if isinstance(value, str) else any(value is c for c in choices)
            if not known:
                problems.append(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
        options = self.compiler_options
        if options is not None and not (
            isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
        ):
            problems.append(f"compiler_options={options!r} is not a mapping with names of options")
        folder = self.compilation_cache
        if folder is not None and not isinstance(folder, str | PathLike):
            problems.append(f"compilation_cache={folder!r} is not the name of a folder")
        if type(self.recompile_limit) is not int or self.recompile_limit < 1:
            problems.append(f"recompile_limit={self.recompile_limit!r} is not a positive integer")
        if problems:
            raise ValueError("JAXLinker: " + "; ".join(problems))
