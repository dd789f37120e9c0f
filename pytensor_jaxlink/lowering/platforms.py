"""Where code may run: rules that are right on CPUs alone ask before they leave out the rest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

import jax

from pytensor_jaxlink.lowering.checks import are_read, in_this_block


class _Asked(threading.local):
    def __init__(self) -> None:
        self.platforms: Sequence[str] = ()


_asked = _Asked()


def for_platforms(platforms: Sequence[str]) -> AbstractContextManager[None]:
    """Code that JAX traces inside the block is exported for these."""
    return in_this_block(_asked, "platforms", platforms)


def on_cpus_alone() -> bool:
    """Return True if the code that JAX traces runs on CPUs and nowhere else.

    Nobody knows that of code that the user traces: ``jax.export`` makes it for any platform.
    """
    only = getattr(jax.config, "jax_platforms", None) in (None, "", "cpu")
    return (
        only
        and jax.default_backend() == "cpu"
        and are_read()
        and all(name == "cpu" for name in _asked.platforms)
    )
