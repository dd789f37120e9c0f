"""Bindings: the functions that the source of a plan calls, for each way in which it is run.

- *Checked* calls take what has been converted already.  Regions count, and know what to do beyond
  the limit of compilations; values may be traced by JAX, where nothing is compiled.
- *Fast* calls go straight to what `jax.jit` made of each region.  Arguments of other types, and
  limits that are reached, show while JAX traces, and stop the call with `NotAcceptedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Sharding

from pytensor_jaxlink.errors import FAILED_NODE, NotAcceptedError
from pytensor_jaxlink.plan import (
    CutOff,
    Fetch,
    HostBranch,
    HostExecuted,
    HostLoop,
    HostStep,
    Region,
)
from pytensor_jaxlink.runtime.boundary import Boundary
from pytensor_jaxlink.runtime.clocks import ARGUMENTS, Clock, Function
from pytensor_jaxlink.runtime.codegen import FunctionSource
from pytensor_jaxlink.runtime.control import LoopRun, run_branch
from pytensor_jaxlink.runtime.devices import detached, place_for
from pytensor_jaxlink.runtime.donation import Donation
from pytensor_jaxlink.runtime.host_bindings import (
    as_generator,
    as_matrix,
    cutting,
    fetching,
    not_static,
)
from pytensor_jaxlink.runtime.region_bindings import (
    DonatingOrNot,
    accepting,
    checked_region,
    checking,
    compiling_region,
    fast_region,
)
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.reuse import Reuse
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.static_values import hashable
from pytensor_jaxlink.runtime.typed_jax import ARRAY, IS_TRACED, device_put
from pytensor_jaxlink.runtime.waiting import all_hold, end_if_false

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.whole import SharedCode


Run = Callable[..., Result]
"""A plan as a function of the values of its inputs."""


def checked(ready: Runnable, *, keys: bool = False, clock: Clock | None = None) -> Run:
    """The plan as a function of the values of all its inputs.

    Parameters
    ----------
    ready
        The plan with its functions.
    keys
        Whether generators among the outputs stay the keys that regions make of them.
    clock
        The clocks of the steps, where somebody profiles them.
    """
    stats = ready.stats

    def moved(value: object, place: Sharding | None) -> object:
        if type(value) is not np.ndarray:
            return value
        stats.bytes_to_device += value.nbytes
        return device_put(value, place)

    def converted(position: int, value: object) -> object:
        return value

    names: dict[str, Any] = {
        **_constants(ready),
        **_steps(ready, checked_region, _executed),
        **_common(ready, keys=keys),
        "converted": converted,
        "moved": moved,
        "sent": detached,
    }
    if clock is not None:
        names |= _behind_clocks(ready, names, clock, _executed, moves=False)
    source = FunctionSource(ready.plan, by_shape=_by_shape(ready), moved=ready.shared)
    return source.function(names)


def fast(
    ready: Runnable,
    boundary: Boundary,
    reuse: Reuse | None,
    codes: Mapping[int, SharedCode],
) -> Callable[..., Run]:
    """The plan as a function of its arguments, for the clocks that it is to have.

    What is made so several times is compiled once.  A function that is made ``ahead`` of calls
    compiles its last region, and does not run it; only the last may be cut then.

    Parameters
    ----------
    ready
        The plan with its functions, which are compiled.
    boundary
        How the function takes its arguments.
    reuse
        The memory that the last region reuses.
    codes
        The codes of regions that equal plans may have too.
    """
    stats = ready.stats

    def sent(value: object) -> object:
        if type(value) is np.ndarray:
            stats.bytes_to_device += value.nbytes
        return detached(value)  # an Op may give an array of its own, and write into it again

    def converted(position: int, value: object) -> object:
        found = boundary.convert(position, value)
        if found is None:
            if type(value) is jax.ShapeDtypeStruct:  # of a call to come
                return value
            raise NotAcceptedError
        return found

    def moved(value: object, place: Sharding | None) -> object:
        return device_put(value, place) if type(value) is np.ndarray else value

    jitted: dict[int, Any] = {}
    region = partial(fast_region, boundary=boundary, jitted=jitted, codes=codes)
    with jax.enable_x64(True), ready.policy.here():
        names = _constants(ready)
    names |= {
        **_steps(ready, region, _executed_uncounted),
        **_common(ready),
        **{f"kept{position}": kept for position, kept in boundary.kept.items()},
        **{f"leave{position}": leave for position, leave in boundary.leave.items()},
        "converted": converted,
        "moved": moved,
        "sent": sent,
    }
    if reuse is not None:
        last = ready.plan.own_regions[-1]
        donation = Donation(
            accepting(ready, last, ready.functions[-1], boundary),
            jitted[last.index],
            reuse,
            ready.constants.placing(reuse.arguments),
            ready.policy,
            stats,
        )
        check, is_first = checking(ready, last, boundary), last is ready.plan.steps[0]
        names["donating"] = (
            donation
            if is_first
            else DonatingOrNot(donation, ready.functions[-1], reuse.taken, check)
        )
    source = FunctionSource(
        ready.plan,
        by_shape=_by_shape(ready),
        moved=ready.shared,
        kept=boundary.kept,
        leaving=boundary.leave,
        reuse=reuse,
    )

    def function(clock: Clock | None = None, *, ahead: bool = False) -> Run:
        bound = names | (_compiling_last(ready, names, jitted) if ahead else {})
        if clock is not None:
            bound |= _behind_clocks(ready, bound, clock, _executed_uncounted, moves=True)
        return source.function(bound)

    return function


# -- names -----------------------------------------------------------------------------------------


def _constants(ready: Runnable) -> dict[str, Any]:
    """The constants, where regions take them and on the host."""
    names = {f"a{number}": value for number, value in ready.constants.here().items()}
    return names | {f"h{number}": data for number, data in ready.constants.data.items()}


def _common(ready: Runnable, *, keys: bool = False) -> dict[str, Any]:
    """The names that all bindings share."""
    return {
        "Result": Result,
        "stats": ready.stats,
        "hashable": hashable,
        "place_for": place_for,
        "all_hold": all_hold,
        "end_if_false": end_if_false,
        "host": fetching(ready),
        "generator": _as_it_is if keys else as_generator,
        "matrix": as_matrix,
    }


def _steps(ready: Runnable, region: Function, executed: Function) -> dict[str, Function]:
    """The function of each step."""
    names: dict[str, Function] = {}
    for place, (step, function) in enumerate(zip(ready.plan.steps, ready.functions, strict=True)):
        if isinstance(step, Region):
            names[f"region{step.index}"] = region(ready, step, function)
        elif isinstance(step, HostLoop | HostBranch):
            names[f"step{place}"] = executed(ready, step, function)
        elif isinstance(step, CutOff):
            names[f"step{place}"] = cutting(ready, step)
        elif function is not None:
            names[f"step{place}"] = function
    return names


def _by_shape(ready: Runnable) -> list[int]:
    return [k for k, each in enumerate(ready.functions) if getattr(each, "reads_shape_only", False)]


def _behind_clocks(
    ready: Runnable, names: Mapping[str, Function], clock: Clock, executed: Function, *, moves: bool
) -> dict[str, Function]:
    """The names of steps, transfers and conversions, behind their clocks; nothing is compiled."""
    plan = ready.plan
    found = {"host": clock.host(names["host"])}
    found["converted"] = clock.timed(ARGUMENTS, names["converted"])
    found["moved"] = clock.moved(names["moved"])
    for place, (step, function) in enumerate(zip(plan.steps, ready.functions, strict=True)):
        match step:
            case Region(index):
                donates = step is plan.steps[-1] and "donating" in names
                name = "donating" if donates else f"region{index}"
                # Arguments that may be donated stay as they are: that decides about it.
                takes = step.arguments if moves and not donates else ()
                found[name] = clock.region(step, names[name], takes)
            case HostLoop() | HostBranch():
                run = executed(ready, step, function, clock)
                found[f"step{place}"] = clock.step(step, run)
            case HostStep() | CutOff():
                found[f"step{place}"] = clock.step(step, names[f"step{place}"])
            case Fetch():
                pass
    for position, number in enumerate(plan.outputs):
        if (name := f"leave{position}") in names:
            found[name] = clock.crossing(plan.names[number], names[name])
    return found


def _compiling_last(
    ready: Runnable, names: Mapping[str, Any], jitted: Mapping[int, Any]
) -> dict[str, Function]:
    """The names for a function that compiles the last region instead of running it."""
    if "donating" in names:
        return {"donating": names["donating"].compile}
    [region] = ready.plan.own_regions
    steps = [f"step{place}" for place in range(len(ready.plan.steps))]  # cuts
    found: dict[str, Function] = dict.fromkeys(steps, _first)
    found |= dict.fromkeys(["matrix", "generator"], _as_it_is)
    found |= {name: _as_it_is for name in names if name.startswith("leave")}
    found[f"region{region.index}"] = compiling_region(ready, region, jitted)
    return found


def _as_it_is(value: object) -> object:
    return value


def _first(value: object, key: object) -> object:
    return value


def _executed(
    ready: Runnable,
    step: HostLoop | HostBranch,
    function: HostExecuted[Runnable],
    clock: Clock | None = None,
) -> Callable[..., object]:
    """A loop or a branch: gives results and conditions for the values of its arguments.

    Arrays stay where they are.  An error names the node, so that PyTensor's own can be run.
    """
    bodies = [
        checked(part, clock=None if clock is None else clock.part(step, which))
        for which, part in enumerate(function.parts)
    ]
    generators, host = ready.plan.generators, fetching(ready)

    def run(*given: object) -> tuple[Sequence[object], Sequence[object]]:
        values = [
            value if type(value) is ARRAY and number not in generators else host(value, number)
            for number, value in zip(step.arguments, given, strict=True)
        ]
        try:
            if isinstance(step, HostLoop):
                return LoopRun(step, bodies[0], values, ready.stats).run()
            return run_branch(bodies, values[0], values[1:])
        except Exception as error:
            if isinstance(error, IS_TRACED) and not hasattr(error, FAILED_NODE):
                raise not_static(ready.plan, step.results[0]) from error  # a body gave it
            if not hasattr(error, FAILED_NODE):
                setattr(error, FAILED_NODE, function.node)
            raise

    return run


def _executed_uncounted(
    ready: Runnable,
    step: HostLoop | HostBranch,
    function: HostExecuted[Runnable],
    clock: Clock | None = None,
) -> Callable[..., object]:
    """The same for fast calls: `Stats.direct` counts each region once a call, whatever ran."""
    execute, stats = _executed(ready, step, function, clock), ready.stats
    regions = [region.index for inner in step.inner for _, region in inner.located_regions()]

    def run(*arguments: object) -> object:
        found = execute(*arguments)
        for index in regions:
            stats.general_region_calls[index] -= 1
        return found

    return run
