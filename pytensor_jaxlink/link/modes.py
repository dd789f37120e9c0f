"""The mode and the linker that are registered under names."""

from __future__ import annotations

from pytensor.compile.mode import (
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
from pytensor_jaxlink.link.linker import JAXLinker, mode_of
from pytensor_jaxlink.link.results import accept_results
from pytensor_jaxlink.link.start_up_cache import FindEntry, provide
from pytensor_jaxlink.rewriting import register_rewrites as register_rewrites

MODE_NAME, LINKER_NAME = "JAXSELECTIVE", "jaxselective"


def register_with_pytensor(find_entry: FindEntry) -> None:
    """Make the mode ``"JAXSELECTIVE"`` and the linker ``"jaxselective"`` known to PyTensor.

    Parameters
    ----------
    find_entry
        Finds the entry of a graph in the start-up cache, when a function asks for it.
    """
    provide(find_entry)
    ask_linker_for_function_maker()
    register_rewrites()
    rewrite_inner_graphs_as_for_jax(JAXLinker)
    if LINKER_NAME not in predefined_linkers:
        register_linker(LINKER_NAME, JAXLinker())
    if MODE_NAME not in predefined_modes:
        register_mode(MODE_NAME, mode_of(JAXLinker()))
        accept_results()
    accept_in_configuration(MODE_NAME, LINKER_NAME)
