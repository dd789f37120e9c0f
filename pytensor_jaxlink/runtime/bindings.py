"""Bindings: the functions that the source of a plan calls, for each way in which it is run.

- *Checked* calls take what has been converted already.  Regions count, and know what to do beyond
  the limit of compilations; values may be traced by JAX, where nothing is compiled.
- *Fast* calls go straight to what `jax.jit` made of each region.  Arguments of other types, and
  limits that are reached, show while JAX traces, and stop the call with `NotAcceptedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import (
    FAILED_NODE,
    FAILED_ON_HOST,
    NotAcceptedError,
    NotJittableError,
)
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.plan import (
    CutOff,
    Fetch,
    HostBranch,
    HostExecuted,
    HostLoop,
    HostStep,
    Plan,
    Region,
)
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.clocks import ARGUMENTS, Clock, Function
from pytensor_jaxlink.runtime.codegen import FunctionSource
from pytensor_jaxlink.runtime.control import LoopRun, run_branch
from pytensor_jaxlink.runtime.devices import place_for, to_numpy
from pytensor_jaxlink.runtime.donation import Donation
from pytensor_jaxlink.runtime.keys import as_key
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.reuse import Reuse
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.specialisation import hashable
from pytensor_jaxlink.runtime.typed_jax import ARRAY, Tracer, device_put
from pytensor_jaxlink.runtime.waiting import all_hold, waited_for, when_ready
from pytensor_jaxlink.sparse_values import from_scipy, to_scipy

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.whole import Meet, SharedCode

Run = Callable[..., Result]
"""A plan as a function of the values of its inputs."""


@dataclass(frozen=True)
class Boundary:
    """How a function takes its arguments and hands on its outputs.

    Attributes
    ----------
    accepts
        Whether an array, as JAX traces it, is what the plan takes at a position.
    convert
        Converts an argument that the host reads as it is, or gives None: ask PyTensor.
    cells
        The cells of the inputs that are no arguments, by the positions of these inputs.
    leave
        For the outputs that change their form when they leave, by position, the function.
    """

    accepts: Callable[[int, object], bool]
    convert: Callable[[int, object], object]
    cells: Mapping[int, list[object]]
    leave: Mapping[int, Callable[[object], object]]


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

    def moved(value: object, place: Any) -> object:
        if type(value) is not np.ndarray:
            return value
        stats.bytes_to_device += value.nbytes
        return device_put(value, place)

    def converted(position: int, value: object) -> Any:
        return value

    names: dict[str, Any] = {
        **_constants(ready),
        **_steps(ready, _checked_region, _executed),
        **_common(ready, keys=keys),
        "converted": converted,
        "moved": moved,
        "sent": _as_it_is,
    }
    if clock is not None:
        names |= _behind_clocks(ready, names, clock, _executed, moves=False)
    source = FunctionSource(ready.plan, by_shape=_by_shape(ready), moved=ready.shared)
    return source.function(names)


def fast(
    ready: Runnable,
    boundary: Boundary,
    reuse: Reuse | None = None,
    code: SharedCode | None = None,
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
    code
        Of a plan that is one region and reuses nothing, its code.
    """
    stats = ready.stats

    def sent(value: object) -> object:
        if type(value) is np.ndarray:
            stats.bytes_to_device += value.nbytes
        return value

    def converted(position: int, value: object) -> object:
        found = boundary.convert(position, value)
        if found is None:
            if type(value) is jax.ShapeDtypeStruct:  # of a call to come
                return value
            raise NotAcceptedError
        return found

    def moved(value: object, place: Any) -> object:
        return device_put(value, place) if type(value) is np.ndarray else value

    jitted: dict[int, Any] = {}
    region = partial(_fast_region, boundary=boundary, jitted=jitted, code=code)
    with jax.enable_x64(True), ready.policy.here():
        names = _constants(ready)
    names |= {
        **_steps(ready, region, _executed_uncounted),
        **_common(ready),
        **{f"cell{position}": cell for position, cell in boundary.cells.items()},
        **{f"leave{position}": leave for position, leave in boundary.leave.items()},
        "converted": converted,
        "moved": moved,
        "sent": sent,
    }
    if reuse is not None:
        last = ready.plan.own_regions[-1]
        names["donating"] = Donation(
            _accepting(ready, last, ready.functions[-1], boundary),
            jitted[last.index],
            reuse,
            ready.constants.placing(reuse.arguments),
            ready.policy,
            stats,
        )
    source = FunctionSource(
        ready.plan,
        by_shape=_by_shape(ready),
        moved=ready.shared,
        cells=boundary.cells,
        leaving=boundary.leave,
        reuse=reuse,
    )

    def function(clock: Clock | None = None, *, ahead: bool = False) -> Run:
        bound = names | (_compiling_last(ready, names, jitted) if ahead else {})
        if clock is not None:
            bound |= _behind_clocks(ready, bound, clock, _executed_uncounted, moves=True)
        return source.function(bound)

    return function


def _accepting(ready: Runnable, region: Region, function: Any, boundary: Boundary) -> Any:
    """A region, to be traced; the inputs among its arguments are checked only then."""
    generators = ready.plan.generators
    inputs = {n: k for k, n in enumerate(ready.plan.inputs) if n not in generators}
    pairs = [(k, inputs[n]) for k, n in enumerate(region.arguments) if n in inputs]

    def traced(static: tuple[object, ...], *arguments: object, meet: Meet | None = None) -> object:
        has_types = ready.policy.has_types()
        if not has_types or not all(
            boundary.accepts(position, arguments[k]) for k, position in pairs
        ):
            raise NotAcceptedError
        return function.traced(static, *arguments, meet=meet)

    return traced


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
        "host": _host(ready),
        "generator": _as_it_is if keys else _as_generator,
        "matrix": to_scipy,
    }


def _steps(ready: Runnable, region: Any, executed: Any) -> dict[str, Any]:
    """The function of each step."""
    names: dict[str, Any] = {}
    for place, (step, function) in enumerate(zip(ready.plan.steps, ready.functions, strict=True)):
        if isinstance(step, Region):
            names[f"region{step.index}"] = region(ready, step, function)
        elif isinstance(step, HostLoop | HostBranch):
            names[f"step{place}"] = executed(ready, step, function)
        elif isinstance(step, CutOff):
            names[f"step{place}"] = _cutting(ready, step)
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


# -- regions ---------------------------------------------------------------------------------------


def _checked_region(ready: Runnable, region: Region, function: Any) -> Callable[..., object]:
    """A region that counts."""
    stats, index = ready.stats, region.index
    prepare, first = _preparing(ready, region), 1 if region.static else 0

    def call(*given: object) -> Any:
        static, arguments = (given[0] if first else ()), list(given[first:])
        if prepare is not None:
            prepare(arguments)
        stats.general_region_calls[index] += 1
        for argument in arguments:
            if type(argument) is np.ndarray:
                stats.bytes_to_device += argument.nbytes
        return function(static, *arguments)

    return call


def _fast_region(
    ready: Runnable,
    region: Region,
    function: Any,
    *,
    boundary: Boundary,
    jitted: dict[int, Any],
    code: SharedCode | None,
) -> Callable[..., object]:
    """A region as `jax.jit` made it, which is also noted by its number."""
    traced = _accepting(ready, region, function, boundary)
    if code is None:
        compiled = function.jitted(traced)
    else:
        compiled = code.jit(ready.policy.jit, lambda: "region", partial(traced, ()))
    jitted[region.index] = compiled
    prepare, first = _preparing(ready, region), 1 if region.static else 0
    if prepare is None:
        return compiled

    def call(*given: object) -> Any:
        arguments = list(given[first:])
        prepare(arguments)
        return compiled(*given[:first], *arguments)

    return call


def _compiling_last(
    ready: Runnable, names: Mapping[str, Any], jitted: Mapping[int, Any]
) -> dict[str, Function]:
    """The names for a function that compiles the last region instead of running it."""
    if "donating" in names:
        return {"donating": names["donating"].compile}
    [region] = ready.plan.own_regions
    steps = [f"step{place}" for place in range(len(ready.plan.steps))]  # cuts
    found: dict[str, Function] = dict.fromkeys(steps, _first)
    found |= {name: _as_it_is for name in names if name.startswith("leave")}
    found[f"region{region.index}"] = _compiling(ready, region, jitted[region.index])
    return found


def _compiling(ready: Runnable, region: Region, compiled: Any) -> Callable[..., object]:
    """A region that is compiled for its arguments, and gives the kinds of its results."""
    prepare, first = _preparing(ready, region), 1 if region.static else 0

    def ahead(*given: object) -> object:
        arguments = list(given[first:])
        if prepare is not None:
            prepare(arguments)
        lowered = compiled.lower(*given[:first], *arguments)
        lowered.compile()
        return lowered.out_info

    return ahead


def _preparing(ready: Runnable, region: Region) -> Callable[[list[object]], None] | None:
    """A function that changes arguments to the forms that a region takes; None if all have them.

    Generators become keys, matrices their arrays, and constants go to where the others are.
    """
    plan, numbers = ready.plan, region.arguments
    forms = [
        (k, as_key if n in plan.generators else from_scipy)
        for k, n in enumerate(numbers)
        if n in plan.generators or n in plan.sparse
    ]
    place = ready.constants.placing(numbers)
    if not forms:
        return place

    def prepare(arguments: list[object]) -> None:
        for position, form in forms:
            arguments[position] = form(arguments[position])
        if place is not None:
            place(arguments)

    return prepare


# -- the host --------------------------------------------------------------------------------------


def _host(ready: Runnable) -> Callable[[object, int], object]:
    """The function that gives a value as the host reads it."""
    plan, stats = ready.plan, ready.stats
    special = plan.generators | plan.sparse

    def host(value: object, number: int) -> Any:
        if type(value) is ARRAY and number not in special:
            return to_numpy(value, stats)
        if number in plan.generators:
            return _as_generator(value)
        if number in plan.sparse:
            return to_scipy(value)
        if isinstance(value, Tracer):
            raise _not_static(plan, number)
        return value

    return host


def _cutting(ready: Runnable, step: CutOff) -> Callable[[Any, tuple[Any, ...]], object]:
    """Indexes a result.

    By NumPy, because JAX compiles a program for each length.  A new length took it 70 ms on an
    H100, and NumPy 3 ms for 8 MB and 90 ms for 80 MB, to the host and back.  On a CPU, where
    nothing moves, it was 130 ms against 8 ms for 8 MB.
    """
    plan, stats, number = ready.plan, ready.stats, step.arguments[0]
    where = plan.lines.get(step.results[0])

    def cut(value: Any, key: tuple[Any, ...]) -> object:
        if isinstance(value, Tracer):
            raise _not_static(plan, number)
        try:
            part = to_numpy(value, stats)[key]
        except Exception as error:  # as PyTensor raises it, of a mask that does not fit
            if where is not None:
                error.add_note(f"while running {step.operation} on the host, written at {where}")
            setattr(error, FAILED_ON_HOST, True)
            raise
        if type(value) is ARRAY and value.committed and len(value.sharding.device_set) == 1:
            return device_put(part.copy(), value.sharding)
        return part

    return cut


def _as_it_is(value: object) -> object:
    return value


def _first(value: object, key: object) -> object:
    return value


def _as_generator(value: object) -> object:
    """A generator; what a region drew with it is there, or raises its error, when it leaves."""
    if isinstance(value, np.random.Generator):
        return value
    key = as_key(value)
    if type(key) is ARRAY:
        # A generator belongs to no device, so that functions on different devices share it.
        key = waited_for(key) if key.committed else when_ready(key)
    return generator_of_key(key)


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
    generators, host = ready.plan.generators, _host(ready)

    def run(*given: object) -> tuple[Sequence[object], Sequence[object]]:
        values = [
            value if type(value) is ARRAY and number not in generators else host(value, number)
            for number, value in zip(step.arguments, given, strict=True)
        ]
        try:
            if isinstance(step, HostLoop):
                return LoopRun(step.layout, bodies[0], values, ready.stats).run(step.measured)
            return run_branch(bodies, values[0], values[1:])
        except Exception as error:
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

    def run(*arguments: object) -> Any:
        found = execute(*arguments)
        for index in regions:
            stats.general_region_calls[index] -= 1
        return found

    return run


def _not_static(plan: Plan, number: int) -> NotJittableError:
    name = plan.names[number]
    if number in plan.inputs:
        position = plan.inputs.index(number)
        return NotJittableError(
            f"JAX traces argument {position}, {name!r}, and the function needs its value "
            f"while it is traced. {Remedy.STATIC_ARGUMENT.text()}.",
            code=Code.TRACED_SIZE,
        )
    return NotJittableError(
        f"the value of {name} is computed by JAX and needed on the host, so the function "
        "cannot run inside one jax.jit (or vmap, or grad). f.explain() says where and why."
    )
