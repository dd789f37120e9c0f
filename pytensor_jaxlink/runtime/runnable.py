"""A plan with what every way of running it needs: its functions, and its constants.

Constants are moved to the devices once in a process, whichever functions use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np
from jax.sharding import Sharding

from pytensor_jaxlink.plan import (
    Executable,
    HostBranch,
    HostExecuted,
    HostLoop,
    HostStep,
    Plan,
    Region,
    Step,
)
from pytensor_jaxlink.runtime.devices import place_for
from pytensor_jaxlink.runtime.resizing import Resizing
from pytensor_jaxlink.runtime.specialisation import CompiledRegion, Policy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import configuration, device_put_now
from pytensor_jaxlink.sparse_values import from_scipy


@dataclass(frozen=True, eq=False)
class Runnable:
    """A plan with its functions.

    Attributes
    ----------
    plan
        What to run.
    functions
        Those of its steps: of a region a `CompiledRegion`, or, where nothing is compiled, what was
        lowered; of a loop or branch `HostExecuted`; of a host step what was lowered; of a fetch
        None.
    constants
        Its constants.
    shared
        The inputs that several regions take as arrays, and the host does not read.  They are moved
        to the device once; where nothing is compiled, none are.
    stats, policy
        What is counted, and how regions are compiled.
    jit
        Whether they are, or run operation by operation.
    """

    plan: Plan
    functions: tuple[Any, ...]
    constants: Constants
    shared: tuple[int, ...]
    stats: Stats
    policy: Policy
    jit: bool

    @classmethod
    def of(
        cls,
        executable: Executable,
        stats: Stats,
        policy: Policy,
        *,
        jit: bool,
        resizing: Resizing | None = None,
        late: Resizing | None = None,
    ) -> Runnable:
        """The plan with what was lowered for its steps; see `Executor`.

        ``late`` is the way of regions that come after steps that show, None where none does.
        """
        plan = executable.plan
        first = _first_step(plan)

        def ready(step: Step, function: Any) -> Any:
            match step:
                case Region() if jit:
                    way = resizing if step is first or late is None else late
                    return CompiledRegion(plan, step, function, policy, stats, way)
                case HostLoop() | HostBranch():
                    parts = [cls.of(part, stats, policy, jit=jit) for part in function.parts]
                    return HostExecuted(function.node, tuple(parts))
                case _:
                    return function

        steps = zip(plan.steps, executable.functions, strict=True)
        return cls(
            plan,
            tuple(ready(step, function) for step, function in steps),
            Constants(plan, executable.constants, on_device=jit),
            tuple(n for n, count in taken_by_regions(plan).items() if jit and count > 1),
            stats,
            policy,
            jit,
        )


def _first_step(plan: Plan) -> Step | None:
    """The first step that is more than arithmetic on sizes."""
    return next((s for s in plan.steps if not (isinstance(s, HostStep) and s.folded)), None)


def are_typed_late(plan: Plan, count: int) -> bool:
    """Return True if JAX finds the types of some of the first inputs when a step has run."""
    if plan.is_one_region:
        return False
    first = _first_step(plan)
    typed = first.arguments if isinstance(first, Region) else ()
    read = {number for step in plan.steps for number in step.reads}
    return not read.intersection(plan.inputs[:count]) <= set(typed)


def read_on_host(step: Step) -> tuple[int, ...]:
    """The values that a step needs on the host."""
    return step.static if isinstance(step, Region) else step.reads


def static_of(ready: Runnable) -> set[int]:
    """The values from which specialisations are selected, or the sizes that select them."""
    found = {number for region in ready.plan.own_regions for number in region.static}
    for step, function in zip(ready.plan.steps, ready.functions, strict=True):
        by_shape = getattr(function, "reads_shape_only", False)
        if isinstance(step, HostStep) and step.folded and not by_shape:
            found.update(step.arguments)
    return found


def taken_by_regions(plan: Plan) -> dict[int, int]:
    """The inputs that regions take and the host does not read, with the number of the regions."""
    on_host = {number for step in plan.steps for number in read_on_host(step)}
    taken = Counter(number for region in plan.own_regions for number in region.arguments)
    apart = on_host | plan.generators
    return {n: taken[n] for n in plan.inputs if taken[n] and n not in apart}


# -- constants ------------------------------------------------------------------------------------

_SAMPLED = 64  # entries that tell constants apart before they are compared

_known: WeakValueDictionary[tuple[object, ...], Any] = WeakValueDictionary()
_lock = Lock()


def on_device(data: np.ndarray, place: Sharding | None = None) -> jax.Array:
    """A constant as an array on the device, the same array for equal constants.

    Cost: a comparison with the one that has the same type, shape and sampled entries, if any.

    Parameters
    ----------
    data
        The constant.
    place
        The devices, each of which gets all of it.  None: JAX's default device, and JAX may use it
        on others, to which it is then copied in each call.
    """
    key = data.dtype.str, data.shape, _sample(data), place or configuration.jax_default_device
    with _lock:
        found = _known.get(key)
        if found is None or not _equal(np.asarray(found), data):
            found = _known[key] = device_put_now(data, place)
    return found


def _sample(data: np.ndarray) -> bytes:
    flat = data.ravel(order="K") if data.flags.forc else data.ravel()
    return flat[:: max(1, flat.size // _SAMPLED)].tobytes()


def _equal(found: np.ndarray, data: np.ndarray) -> bool:
    """Return True if two arrays have the same bits: 0.0 is not -0.0, and NaN is NaN."""
    if found.itemsize in (1, 2, 4, 8) and found.flags.c_contiguous and data.flags.c_contiguous:
        kind = f"u{found.itemsize}"
        return np.array_equal(found.view(kind), data.view(kind))
    return found.tobytes() == data.tobytes()


class Constants:
    """The constants of one plan, as its regions take them.

    ``data`` are NumPy arrays and SciPy's matrices, by their numbers.  Regions take them from the
    device if ``on_device``: not where a call may be traced, when what JAX moves is a tracer.
    """

    def __init__(self, plan: Plan, data: Mapping[int, object], *, on_device: bool) -> None:
        self.data, self._on_device = data, on_device
        taken = {number for region in plan.own_regions for number in region.arguments}
        self._taken = {n for n in taken & data.keys() if _is_array(plan, n, data[n])}
        self._here: Mapping[int, object] | None = None if on_device else data
        self._placed: dict[tuple[int, Sharding], object] = {}

    def here(self) -> Mapping[int, object]:
        """All of them; what regions take lies on JAX's default device, moved at the first call."""
        if self._here is None:
            moved = {number: _moved(self.data[number], None) for number in self._taken}
            self._here = {**self.data, **moved}
        return self._here

    def at(self, number: int, place: Sharding | None) -> Any:
        """One that a region takes, on the devices of a call; None: on JAX's default device."""
        if place is None:
            return self.here()[number]
        key = number, place
        if key not in self._placed:
            self._placed[key] = _moved(self.data[number], place)
        return self._placed[key]

    def placing(self, numbers: Sequence[int]) -> Callable[[list[object]], None] | None:
        """Make the function that moves constants, among values with these numbers, to the others.

        None where there is none among them.
        """
        positions = [k for k, number in enumerate(numbers) if number in self._taken]
        if not (positions and self._on_device):
            return None

        def place(values: list[object]) -> None:
            where = place_for(values)
            if where is not None:
                for position in positions:
                    values[position] = self.at(numbers[position], where)

        return place


def _is_array(plan: Plan, number: int, data: object) -> bool:
    return isinstance(data, np.ndarray) or number in plan.sparse


def _moved(data: object, place: Sharding | None) -> jax.Array:
    array: Any = data
    if isinstance(data, np.ndarray):
        return on_device(array, place)
    return device_put_now(from_scipy(data), place)
