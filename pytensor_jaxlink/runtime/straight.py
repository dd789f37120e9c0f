"""A plan of several steps as one Python function, written for it.

What an interpreter of the plan would decide at each step (where a value is, what reads it, whether
a region has static values) is decided once, and a call runs nothing but the steps: see
`runtime.source`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.errors import DoesNotFitError
from pytensor_jaxlink.plan import HostBranch, HostLoop, Region
from pytensor_jaxlink.runtime.devices import place_for, to_numpy
from pytensor_jaxlink.runtime.interpreter import driver
from pytensor_jaxlink.runtime.runnable import Driven, Runnable
from pytensor_jaxlink.runtime.source import Source
from pytensor_jaxlink.runtime.specialisation import hashable
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.waiting import all_hold


@dataclass(frozen=True)
class Boundary:
    """What a function does with its inputs and outputs.

    Attributes
    ----------
    fits
        Whether an input, as JAX traces it, is what the plan takes at a position.
    fit
        Gives an input that the host reads as it goes on, or None where it does not fit.
    to_jax
        Makes a `jax.Array` of an output that no region computed.
    pack
        Gives what the caller gets for the list of outputs.
    """

    fits: Callable[[int, Any], bool]
    fit: Callable[[int, Any], Any]
    to_jax: Callable[[Any], Any]
    pack: Callable[[list[Any]], Any]


def straight(
    ready: Runnable, boundary: Boundary, last: tuple[int, ...] | None = None
) -> Callable[..., Any] | None:
    """The function of a plan, of its inputs; None where not all of its values are arrays.

    Parameters
    ----------
    last
        The arguments of the last region, for a function that ends before it.

    Returns
    -------
    callable
        Gives what is packed of the outputs, or, with conditions, a tuple of that and one boolean.
        Where it ends before the last region: its static values, its arguments and the outputs that
        it does not compute, or None where a condition is false.
    """
    plan = ready.plan
    if not ready.jit or plan.generators or plan.sparse:
        return None
    with ready.policy.here():
        names = {f"a{number}": value for number, value in ready.constants.here().items()}
    names |= {f"h{number}": data for number, data in ready.constants.data.items()}
    by_shape = set[int]()
    for place, (step, function) in enumerate(zip(plan.steps, ready.functions, strict=True)):
        if isinstance(step, Region):
            names[f"region{step.index}"] = _region(ready, step, function, boundary)
        elif isinstance(step, HostLoop | HostBranch):
            names[f"step{place}"] = _driven(ready, step, function)
        elif function is not None:
            names[f"step{place}"] = function
            if getattr(function, "reads_shape_only", False):
                by_shape.add(place)
    source = Source(plan, frozenset(by_shape), ready.shared, last)
    namespace = {**names, **_helpers(ready.stats, boundary)}
    exec(compile(str(source), "<the plan of a function>", "exec"), namespace)
    return namespace["run"]


def fitting(ready: Runnable, region: Region, function: Any, boundary: Boundary) -> Any:
    """A region, to be traced; the inputs among its arguments are looked at only then."""
    inputs = {number: position for position, number in enumerate(ready.plan.inputs)}
    pairs = [(k, inputs[n]) for k, n in enumerate(region.arguments) if n in inputs]

    def traced(static: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        x64: bool = jax.config.jax_enable_x64
        if not x64 or not all(boundary.fits(position, arguments[k]) for k, position in pairs):
            raise DoesNotFitError
        return function.traced(static, *arguments)

    return traced


def _region(
    ready: Runnable, region: Region, function: Any, boundary: Boundary
) -> Callable[..., Any]:
    """A region, compiled; its constants are put where the other arguments are."""
    compiled = function.jitted(fitting(ready, region, function, boundary))
    first = 1 if region.static else 0
    place = ready.constants.placing([*[-1] * first, *region.arguments])
    if place is None:
        return compiled

    def call(*arguments: Any) -> Any:
        given = list(arguments)
        place(given)
        return compiled(*given)

    return call


def _driven(ready: Runnable, step: HostLoop | HostBranch, driven: Driven) -> Callable[..., Any]:
    """A loop or a branch; `Stats.direct` counts its regions once in each call, whatever ran."""
    drive, stats = driver(step, driven, ready.stats), ready.stats
    regions = [region.index for inner in step.inner for _, region in inner.located_regions()]

    def run(*arguments: Any) -> Any:
        found = drive(*arguments)
        for index in regions:
            stats.general_region_calls[index] -= 1
        return found

    return run


def _helpers(stats: Stats, boundary: Boundary) -> dict[str, Any]:
    """What the source calls."""

    def sent(value: Any) -> Any:
        if type(value) is np.ndarray:
            stats.bytes_to_device += value.nbytes
        return value

    def fitted(position: int, value: Any) -> Any:
        found = boundary.fit(position, value)
        if found is None and type(value) is not jax.ShapeDtypeStruct:  # of a call to come
            raise DoesNotFitError
        return found

    def moved(value: Any, place: Any) -> Any:
        return jax.device_put(value, place) if type(value) is np.ndarray else value

    functions = (to_numpy, sent, fitted, moved, hashable, all_hold, place_for)
    return {
        **{function.__name__: function for function in functions},
        "stats": stats,
        "to_jax": boundary.to_jax,
        "pack": boundary.pack,
    }
