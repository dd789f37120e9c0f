"""The mode and the linker that are registered under names."""

from __future__ import annotations

from copy import copy
from typing import Any

from pytensor.compile.mode import (
    Mode,
    predefined_linkers,
    predefined_modes,
    register_linker,
    register_mode,
)

from pytensor_jaxlink.compat import (
    accept_in_configuration,
    ask_linker_for_function_maker,
    rewrite_inner_graphs_as_for_jax,
)
from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.link.results import accept_results
from pytensor_jaxlink.link.start_up_cache import OpenCache, provide
from pytensor_jaxlink.rewriting import default_query
from pytensor_jaxlink.rewriting import register as register_rewrites

MODE_NAME, LINKER_NAME = "JAXSELECTIVE", "jaxselective"


def mode_of(linker: JAXLinker) -> Mode:
    """The mode that runs ``linker`` after the rewrites that suit it."""
    return Mode(linker=linker, optimizer=default_query())


def with_inplace(mode: Mode) -> Mode:
    """The mode, with the rewrites to operations in place where ``mode`` includes them by name.

    They are of no use to JAX, so the linker excludes them.  Somebody who asks for them wants inputs
    that are declared mutable to be overwritten.
    """
    query: Any = mode.provided_optimizer
    if "inplace" not in getattr(query, "include", ()):
        return mode
    linker: Any = copy(mode.linker)
    linker.incompatible_rewrites = [n for n in linker.incompatible_rewrites if n != "inplace"]
    return Mode(linker=linker, optimizer=query)


def register(open_cache: OpenCache) -> None:
    """Make the mode ``"JAXSELECTIVE"`` and the linker ``"jaxselective"`` known to PyTensor.

    Parameters
    ----------
    open_cache
        Opens the start-up cache in a folder, when a function asks for it.
    """
    provide(open_cache)
    ask_linker_for_function_maker()
    register_rewrites()
    rewrite_inner_graphs_as_for_jax(JAXLinker)
    if LINKER_NAME not in predefined_linkers:
        register_linker(LINKER_NAME, JAXLinker())
    if MODE_NAME not in predefined_modes:
        register_mode(MODE_NAME, mode_of(JAXLinker()))
        accept_results()
    accept_in_configuration(MODE_NAME, LINKER_NAME)
