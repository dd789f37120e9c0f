"""NumPy arrays for the functions that PyMC's own samplers and optimisers call from Python.

A step method computes with the density in Python, number by number, and an operation on a
`jax.Array` takes some 10 µs more than one on a NumPy array.  Nobody but PyMC sees these results,
and PyMC documents them as NumPy's.  See docs/decisions/numpy_for_step_methods.md.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import wraps
from importlib import import_module
from typing import Any

from pytensor.compile.mode import Mode, get_mode

from pytensor_jaxlink.link.linker import JAXLinker, mode_of
from pytensor_jaxlink.link.results import in_numpy

WITH_MODE = (
    # The density and its gradient, for Hamiltonian samplers and `Model.logp_dlogp_function`.
    ("pymc.model.core", "ValueGradFunction.__init__"),
    ("pymc.step_methods.metropolis", "compile"),
    ("pymc.step_methods.slicer", "compile"),
    ("pymc.smc.kernels", "compile"),
    ("pymc.tuning.scipy_interface", "compile"),  # from PyMC 6.4 on
)
"""The functions of PyMC that compile such a function, and take ``mode``."""

WITH_COMPILE_KWARGS = (
    ("pymc.step_methods.metropolis", "BinaryMetropolis.__init__"),
    ("pymc.step_methods.metropolis", "BinaryGibbsMetropolis.__init__"),
    ("pymc.step_methods.metropolis", "CategoricalGibbsMetropolis.__init__"),
)
"""Those that pass ``compile_kwargs`` to a method of the model, which users call too."""

WITH_ARRAYS = (
    ("pymc.step_methods.hmc.quadpotential", "QuadPotentialDiag.__init__"),
    ("pymc.step_methods.hmc.quadpotential", "QuadPotentialDiagAdapt.__init__"),
)
"""Those that keep a result (the variances of ``init="advi"``, ``pm.NUTS(scaling=...)``) to compute
with, in place too."""


def give_numpy_to_samplers() -> None:
    """Have PyMC, which must have been imported, compute with NumPy arrays at these places.

    A place that this version of PyMC does not have is left out.
    """
    places = (
        (WITH_MODE, _with_mode),
        (WITH_COMPILE_KWARGS, _with_compile_kwargs),
        (WITH_ARRAYS, _with_arrays),
    )
    for named, wrap in places:
        for module, path in named:
            *owners, name = path.split(".")
            owner: Any = _module(module)
            for each in owners:
                owner = getattr(owner, each, None)
            if owner is not None and hasattr(owner, name):
                setattr(owner, name, wrap(getattr(owner, name)))


def _module(name: str) -> object:
    """The module, or None where there is none of this name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


def _with_mode(original: Callable[..., object]) -> Callable[..., object]:
    @wraps(original)
    def function(*args: object, **options: object) -> object:
        options["mode"] = numpy_mode(options.get("mode"))
        return original(*args, **options)

    return function


def _with_compile_kwargs(original: Callable[..., object]) -> Callable[..., object]:
    @wraps(original)
    def function(*args: object, compile_kwargs: Any = None, **options: object) -> object:
        given = compile_kwargs or {}
        mode = numpy_mode(given.get("mode"))
        return original(*args, compile_kwargs={**given, "mode": mode}, **options)

    return function


def _with_arrays(original: Callable[..., object]) -> Callable[..., object]:
    @wraps(original)
    def function(*args: object, **options: object) -> object:
        given = dict(zip(options, in_numpy(list(options.values())), strict=True))
        return original(*in_numpy(list(args)), **given)

    return function


def numpy_mode(mode: object) -> object:
    """The same mode with ``outputs="numpy"`` if it is one of ours, else the mode itself."""
    found: Any = get_mode(mode)
    if isinstance(found, JAXLinker):
        found = mode_of(found)
    linker = getattr(found, "linker", None)
    if not isinstance(linker, JAXLinker):
        return mode
    linker = copy(linker)
    linker.options = replace(linker.options, outputs="numpy")
    return Mode(linker=linker, optimizer=found.provided_optimizer)
