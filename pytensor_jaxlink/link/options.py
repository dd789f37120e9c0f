"""The options of the linker, checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

_CHOICES: dict[str, tuple[object, ...]] = {
    "jit": ("selective", True, False),
    "host_ops": ("split", "error"),
    "checks": ("raise", "ignore"),
    "outputs": ("jax", "numpy"),
}


@dataclass(frozen=True)
class Options:
    """What `JAXLinker` was asked for."""

    jit: Literal["selective"] | bool = "selective"
    host_ops: Literal["split", "error"] = "split"
    checks: Literal["raise", "ignore"] = "raise"
    outputs: Literal["jax", "numpy"] = "jax"

    def __post_init__(self) -> None:
        problems = [
            f"{option.name}={getattr(self, option.name)!r} is not one of "
            + ", ".join(map(repr, _CHOICES[option.name]))
            for option in fields(self)
            if not any(
                getattr(self, option.name) is c or _equal(getattr(self, option.name), c)
                for c in _CHOICES[option.name]
            )
        ]
        if problems:
            raise ValueError("JAXLinker: " + "; ".join(problems))


def _equal(value: object, choice: object) -> bool:
    return isinstance(value, str) and value == choice
