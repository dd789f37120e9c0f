"""Runs a plan on values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from pytensor_jaxlink.errors import FAILED_NODE, DoesNotFitError, NotJittableError
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.plan import Fetch, HostBranch, HostLoop, HostStep, Plan, Region, Step
from pytensor_jaxlink.runtime.constants import on_device
from pytensor_jaxlink.runtime.control import run_branch, run_loop
from pytensor_jaxlink.runtime.devices import (
    explicit_mesh,
    note_explicit_axes,
    place_for,
    run_in_auto,
    to_numpy,
)
from pytensor_jaxlink.runtime.donation import Donation
from pytensor_jaxlink.runtime.keys import as_key
from pytensor_jaxlink.runtime.last_region import LastRegion
from pytensor_jaxlink.runtime.reuse import Donatable, Reuse
from pytensor_jaxlink.runtime.specialisation import CompiledRegion, Policy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.straight import (
    Boundary,
    Source,
    hashable,
    is_one_region,
    is_straight,
    straight,
)
from pytensor_jaxlink.sparse_values import from_scipy, to_scipy

Rescue = Callable[[Sequence[Any], BaseException | None], Sequence[Any]]


class Executor:
    """A plan with its functions: call it with the values of the inputs.

    Parameters
    ----------
    plan
        What to run.
    functions
        The function of each step: of a region ``(static, *arrays) -> (results, conditions)``, of a
        host step ``(*values) -> results``, of a fetch None; of a loop or branch that is driven from
        the host an object with its ``node`` (for errors) and, for each of its plans, ``parts`` that
        have the ``functions`` and ``constants`` of the plan.
    constants
        The data of the plan's constants.  Those that regions take are moved to the device once.
    jit
        Whether regions are compiled, or run operation by operation.
    rescue
        Called with the inputs, and the exception where there is one, when a region cannot be
        traced or one of its conditions is false; it finishes the call or raises.
    policy
        How often a region is compiled, and what happens beyond that.

    Notes
    -----
    Values of one call live in two lists, ``arrays`` (what regions take and give) and ``host``
    (sizes that NumPy computes with), so one executor may run in many threads.
    """

    def __init__(
        self,
        plan: Plan,
        functions: Sequence[Any],
        constants: Mapping[int, Any],
        stats: Stats,
        *,
        jit: bool,
        rescue: Rescue | None,
        policy: Policy | None = None,
    ) -> None:
        self.plan, self.stats, self._rescue = plan, stats, rescue
        self._constants = constants
        self.policy = policy = policy or Policy()
        self._template: list[Any] = [None] * len(plan.names)
        for number, data in constants.items():
            self._template[number] = data
        self._moved_once = _shared_by_regions(plan) if jit else ()
        self._placed: dict[tuple[int, Sharding], Any] = {}  # constants, on the devices of calls
        # Not without jit: the call may be traced, and what JAX moves then is a tracer.
        self._constants_on_device = not jit
        if jit:
            functions = [
                CompiledRegion(plan, step, function, policy, stats)
                if isinstance(step, Region)
                else function
                for step, function in zip(plan.steps, functions, strict=True)
            ]
        self._jit, self._functions = jit, functions
        self._driven_executors: list[Executor] = []
        self._steps = [
            self._prepare(step, function)
            for step, function in zip(plan.steps, functions, strict=True)
        ]
        self._run_call = self._run
        self._one_region: CompiledRegion | None = None
        if is_one_region(plan) and _only_arrays(plan):
            self._one_region = functions[0] if jit else None
            self._run_call = self._call_of_one_region(plan.regions[0], functions[0])

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the plan.  Returns outputs and updates, as they come: on the device or not."""
        mesh = explicit_mesh(inputs)
        if mesh is not None:
            return run_in_auto(self, inputs, mesh)
        if jax.config.jax_enable_x64 and self.policy.device is None:
            return self._guarded(inputs)
        with jax.enable_x64(True), self.policy.here():
            return self._guarded(inputs)

    def _guarded(self, inputs: Sequence[Any]) -> list[Any]:
        self.stats.general_calls += 1
        try:
            outputs, conditions = self._run_call(inputs)
        except Exception as error:
            if self._rescue is None or not hasattr(error, FAILED_NODE):
                raise
            return list(self._rescue(inputs, error))
        if conditions and self._rescue is not None and not _all_hold(conditions):
            return list(self._rescue(inputs, None))
        return outputs

    def compile_for(
        self, signatures: Sequence[Sequence[tuple[Any, Any]]], committed: Iterable[int] = ()
    ) -> None:
        """Compile regions ahead of calls, and keep the code as the policy says.

        Parameters
        ----------
        signatures
            For each region of the plan the static values and arguments, as `Stats.signatures` has
            them.
        committed
            The numbers of inputs that lie on a device and are to stay there.  So do the results of
            code made by `jax.export`, and what goes with such arrays to a region.
        """
        with jax.enable_x64(True), self.policy.here():
            where = jax.device_put(np.zeros(())).sharding
            lying = set(committed)
            following = set(self._moved_once) if lying else set[int]()
            following.update(self._constants)
            for step, function in zip(self.plan.steps, self._functions, strict=True):
                if not isinstance(step, Region):
                    continue
                placed = lying | following if lying & set(step.arguments) else ()
                for static, arguments in signatures[step.index]:
                    pairs = zip(step.arguments, arguments, strict=True)
                    kinds = [_lying(each, where) if n in placed else each for n, each in pairs]
                    function.compile_for(static, kinds)
                lying.update(step.results)
            for executor in self._driven_executors:
                executor.compile_for(signatures)

    def direct(
        self, fits: Callable[[int, Any], bool]
    ) -> tuple[Callable[..., Any], Callable[[Sharding | None], tuple[Any, ...]] | None] | None:
        """The whole plan as one function that JAX can compile, where it is one region of arrays.

        Returns a function of the inputs and constants, and one that gives these constants on the
        devices of a call (None where there are none).  The first gives the list of outputs; or,
        where there are conditions, a tuple of the list and one boolean.

        Parameters
        ----------
        fits
            Whether an input, as JAX traces it, is what the plan takes at a position.
        """
        if self._one_region is None:
            return None
        with self.policy.here():
            self._move_constants()
        plan, [region] = self.plan, self.plan.regions
        constants = [number for number in region.arguments if number not in plan.inputs]
        places = {number: k for k, number in enumerate((*plan.inputs, *constants))}
        taken = [places[number] for number in region.arguments]
        given = [region.results.index(number) for number in plan.outputs]

        def prepare(values: Sequence[Any]) -> list[Any]:
            given = values[: len(plan.inputs)]
            if len(values) != len(places) or not all(map(fits, range(len(given)), given)):
                raise DoesNotFitError
            return [values[place] for place in taken]

        function = self._one_region.direct(prepare, lambda values: [values[k] for k in given])
        if not constants:
            return function, None
        return function, lambda place: tuple(self._constant(n, place) for n in constants)

    def straight(self, boundary: Boundary) -> Callable[..., Any] | None:
        """The plan as one Python function of the inputs, or None where it drives loops.

        It gives what is packed of the outputs, or, with conditions, a tuple of that and a boolean.
        """
        if not self._jit or not is_straight(self.plan):
            return None
        return self._written(boundary, None)

    def donating(self, boundary: Boundary, what: Donatable) -> LastRegion | None:
        """The plan as a function that reuses memory, or None where it has no use for that."""
        if not self._jit or not is_straight(self.plan):
            return None
        reuse = Reuse.at_the_end(self.plan, what)
        if reuse is None:
            return None
        before = self._written(boundary, reuse.arguments)
        region: Any = self.plan.steps[-1]
        compiled, taken = self._functions[-1], len(region.arguments)
        traced = compiled.checked(self._checked(region, boundary.fits))
        constants = [k for k, n in enumerate(reuse.arguments) if n in self.plan.constants]

        def placed(*values: Any) -> Any:
            ready = before(*values)
            if ready is not None:
                self._place_constants(constants, reuse.arguments, ready[1])
            return ready

        def region_of(static: tuple[Any, ...], *arguments: Any) -> Any:
            return traced(static, *arguments[:taken])

        donation = Donation(
            region_of, reuse, self.policy, self.stats, show_unusable=what.show_unusable
        )
        plain = compiled.jitted(region_of)
        before_it = placed if constants else before
        policy, pack = self.policy, boundary.pack
        return LastRegion(self.plan, before_it, plain, donation, reuse, policy, pack)

    def _written(self, boundary: Boundary, last: tuple[int, ...] | None) -> Callable[..., Any]:
        """The function of the plan, or of what is before its last region with these arguments."""
        with self.policy.here():
            self._move_constants()
        names = {f"h{number}": data for number, data in self._constants.items()}
        names |= {f"a{number}": self._template[number] for number in self._constants}
        by_shape = set()
        for place, (step, function) in enumerate(
            zip(self.plan.steps, self._functions, strict=True)
        ):
            if isinstance(step, Region):
                compiled = function.jitted(function.checked(self._checked(step, boundary.fits)))
                names[f"region{step.index}"] = self._with_constants(step, compiled)
            elif function is not None:
                names[f"step{place}"] = function
                if getattr(function, "reads_shape_only", False):
                    by_shape.add(place)
        source = Source(self.plan, frozenset(by_shape), self._moved_once, last)
        return straight(source, names, self.stats, boundary)

    def _with_constants(self, region: Region, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of a region, whose constants follow the other arguments."""
        first = 1 if region.static else 0
        numbers = [*[-1] * first, *region.arguments]
        positions = [k for k, number in enumerate(numbers) if number in self.plan.constants]
        if not positions:
            return function

        def call(*arguments: Any) -> Any:
            given = list(arguments)
            self._place_constants(positions, numbers, given)
            return function(*given)

        return call

    def _checked(
        self, region: Region, fits: Callable[[int, Any], bool]
    ) -> Callable[[Sequence[Any]], bool]:
        """Whether the inputs among the arguments of a region fit."""
        inputs = {number: position for position, number in enumerate(self.plan.inputs)}
        pairs = [(k, inputs[n]) for k, n in enumerate(region.arguments) if n in inputs]

        def check(arguments: Sequence[Any]) -> bool:
            x64: bool = jax.config.jax_enable_x64
            return x64 and all(fits(position, arguments[k]) for k, position in pairs)

        return check

    def _call_of_one_region(self, region: Region, function: Any) -> Callable[[Sequence[Any]], Any]:
        """The same as `_run`, without what one region that takes only arrays does not need."""
        inputs = self.plan.inputs
        constants = [number for number in region.arguments if number not in inputs]
        stats, places = self.stats, {n: k for k, n in enumerate((*inputs, *constants))}
        results = {number: k for k, number in enumerate(region.results)}
        taken = [places[number] for number in region.arguments]
        given = [results[number] for number in self.plan.outputs]
        ordered = given == list(range(len(results)))

        def run(inputs: Sequence[Any]) -> tuple[list[Any], Any]:
            stats.general_region_calls[0] += 1
            if constants:
                if not self._constants_on_device:
                    self._move_constants()
                place = place_for(inputs)
                inputs = [*inputs, *[self._constant(number, place) for number in constants]]
            arguments = [inputs[place] for place in taken]
            for argument in arguments:
                if type(argument) is np.ndarray:
                    stats.bytes_to_device += argument.nbytes
            values, conditions = function((), *arguments)
            return list(values) if ordered else [values[place] for place in given], conditions

        return run

    def trace(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the plan on values that may be traced by JAX, in the types that JAX now has."""
        try:
            outputs, _ = self._run(inputs, keys=True)
        except Exception as error:
            note_explicit_axes(error, inputs)
            raise
        return outputs

    def _run(self, inputs: Sequence[Any], *, keys: bool = False) -> tuple[list[Any], list[Any]]:
        if not self._constants_on_device:
            self._move_constants()
        arrays = self._template.copy()
        host: dict[int, Any] = {}
        conditions: list[Any] = []
        for number, value in zip(self.plan.inputs, inputs, strict=True):
            arrays[number] = value
        for number in self._moved_once:
            value = arrays[number]
            if type(value) is np.ndarray:
                self.stats.bytes_to_device += value.nbytes
                arrays[number] = jax.device_put(value, place_for(inputs))
        for step in self._steps:
            step(arrays, host, conditions)
        outputs = [arrays[number] for number in self.plan.outputs]
        if self.plan.generators and not keys:
            outputs = [
                generator_of_key(value)
                if number in self.plan.generators and not _is_generator(value)
                else value
                for number, value in zip(self.plan.outputs, outputs, strict=True)
            ]
        if self.plan.sparse:
            outputs = [to_scipy(value) for value in outputs]
        return outputs, conditions

    def _move_constants(self) -> None:
        """Put the constants that regions take as arguments on the device, once."""
        for number in {n for region in self.plan.regions for n in region.arguments}:
            value = self._template[number]
            if number in self.plan.sparse:
                self._template[number] = jax.device_put(from_scipy(value))
            elif isinstance(value, np.ndarray):
                self._template[number] = on_device(value)
        self._constants_on_device = True

    def _constant(self, number: int, place: Sharding | None) -> Any:
        """A constant that a region takes as an argument, where the other arguments are."""
        if place is None:
            return self._template[number]
        key = number, place
        if key not in self._placed:
            value = self._template[number]
            if isinstance(value, jax.Array):
                self._placed[key] = on_device(np.asarray(value), place)
            else:
                self._placed[key] = jax.device_put(value, place)
        return self._placed[key]

    def _place_constants(
        self, positions: Sequence[int], numbers: Sequence[int], arguments: list[Any]
    ) -> None:
        """Replace the constants among the arguments of a region by those where the others are."""
        place = place_for(arguments) if self._constants_on_device else None
        if place is not None:
            for position in positions:
                arguments[position] = self._constant(numbers[position], place)

    # -- steps ---------------------------------------------------------------------------------

    def _prepare(self, step: Any, function: Any) -> Callable[..., None]:
        match step:
            case Fetch(value):
                return self._fetch(value)
            case HostStep(_, arguments, results, folded=True):
                return self._fold(arguments, results, function)
            case HostStep():
                return self._host_step(step, function)
            case HostLoop() | HostBranch():
                return self._driven(step, function)
            case Region():
                return self._region(step, function)
        raise TypeError(f"not a step of a plan: {step!r}")

    def _fetch(self, number: int) -> Callable[..., None]:
        def fetch(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            host[number] = self._to_host(number, arrays[number])

        return fetch

    def _fold(
        self, arguments: tuple[int, ...], results: tuple[int, ...], function: Any
    ) -> Callable[..., None]:
        by_shape = getattr(function, "reads_shape_only", False)

        def fold(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            if by_shape:
                values = [arrays[number] for number in arguments]
            else:
                values = [self._host_value(number, arrays, host) for number in arguments]
            host.update(zip(results, function(*values), strict=True))

        return fold

    def _host_step(self, step: HostStep, function: Any) -> Callable[..., None]:
        def run(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            values = [
                host[number] if number in host else self._to_host(number, arrays[number])
                for number in step.arguments
            ]
            self.stats.host_steps += 1
            for number, value in zip(step.results, function(*values), strict=True):
                arrays[number] = value

        return run

    def _driven(self, step: HostLoop | HostBranch, function: Any) -> Callable[..., None]:
        executors = [
            Executor(
                plan,
                part.functions,
                part.constants,
                self.stats,
                jit=self._jit,
                rescue=None,
                policy=self.policy,
            )
            for plan, part in zip(step.inner, function.parts, strict=True)
        ]
        self._driven_executors += executors
        bodies = [executor._run for executor in executors]

        def run(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            values = [
                host[number] if number in host else self._driven_value(number, arrays[number])
                for number in step.arguments
            ]
            self.stats.host_steps += 1
            try:
                if isinstance(step, HostLoop):
                    loop = step.layout, step.measured, bodies[0]
                    results, found = run_loop(*loop, values, self.stats)
                else:
                    results, found = run_branch((bodies[0], bodies[1]), values[0], values[1:])
            except Exception as error:
                if not hasattr(error, FAILED_NODE):
                    setattr(error, FAILED_NODE, function.node)
                raise
            for number, value in zip(step.results, results, strict=True):
                arrays[number] = value
            conditions += found

        return run

    def _driven_value(self, number: int, value: Any) -> Any:
        """A value for a loop or a branch: arrays stay where they are."""
        concrete = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
        if concrete and number not in self.plan.generators:
            return value
        return self._to_host(number, value)

    def _region(self, region: Region, function: Any) -> Callable[..., None]:
        stats, index = self.stats, region.index
        numbers, results, generators = region.arguments, region.results, self.plan.generators
        keyed = [number for number in numbers if number in generators]
        sparse = [number for number in numbers if number in self.plan.sparse]
        constants = [k for k, number in enumerate(numbers) if number in self.plan.constants]

        selecting = region.static

        def run(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            static = ()
            if selecting:
                static = tuple(
                    [hashable(self._host_value(number, arrays, host)) for number in selecting]
                )
            for number in keyed:
                arrays[number] = as_key(arrays[number])
            for number in sparse:
                arrays[number] = from_scipy(arrays[number])
            arguments = [arrays[number] for number in numbers]
            if constants:
                self._place_constants(constants, numbers, arguments)
            stats.general_region_calls[index] += 1
            for argument in arguments:
                if type(argument) is np.ndarray:
                    stats.bytes_to_device += argument.nbytes
            values, checks = function(static, *arguments)
            for number, value in zip(results, values):  # noqa: B905 -- a hot loop
                arrays[number] = value
            if checks:
                conditions += checks

        return run

    # -- values --------------------------------------------------------------------------------

    def _host_value(self, number: int, arrays: list[Any], host: dict[int, Any]) -> Any:
        if number not in host:
            host[number] = self._to_host(number, arrays[number])
        return host[number]

    def _to_host(self, number: int, value: Any) -> Any:
        if type(value) is np.ndarray:
            return value
        if number in self.plan.generators:
            return value if _is_generator(value) else generator_of_key(as_key(value))
        if number in self.plan.sparse:
            return to_scipy(value)
        if isinstance(value, jax.core.Tracer):
            raise NotJittableError(self._not_static(number))
        return to_numpy(value, self.stats) if isinstance(value, jax.Array) else value

    def _not_static(self, number: int) -> str:
        name = self.plan.names[number]
        if number in self.plan.inputs:
            position = self.plan.inputs.index(number)
            return (
                f"JAX traces argument {position}, {name!r}, and the function needs its value "
                "while it is traced. Pass it as a static argument: "
                "jax.jit(f.jax_fn, static_argnums=f.static_argnums)."
            )
        return (
            f"the value of {name} is computed by JAX and needed on the host, so the function "
            "cannot run inside one jax.jit (or vmap, or grad). f.explain() says where and why."
        )


def _lying(kind: Any, where: Sharding) -> Any:
    """The kind of an argument that lies somewhere."""
    return jax.tree_util.tree_map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), kind
    )


def _shared_by_regions(plan: Plan) -> tuple[int, ...]:
    """The inputs that several regions take as arrays; what the host reads too stays there."""
    on_host = {number for step in plan.steps for number in _read_on_host(step)}
    taken = Counter(number for region in plan.regions for number in region.arguments)
    return tuple(
        number
        for number in plan.inputs
        if taken[number] > 1 and number not in on_host and number not in plan.generators
    )


def _read_on_host(step: Step) -> tuple[int, ...]:
    return step.static if isinstance(step, Region) else step.reads


def _only_arrays(plan: Plan) -> bool:
    """Whether the one region of a plan takes inputs and constants, and gives all outputs."""
    [region] = plan.regions
    passed = {*region.arguments, *region.results}
    return (
        set(region.arguments) <= {*plan.inputs, *plan.constants}
        and set(plan.outputs) <= set(region.results)
        and not passed & (plan.generators | plan.sparse)
    )


def _all_hold(conditions: Sequence[Any]) -> bool:
    """Whether no condition is false, by one copy from the device."""
    [first, *rest] = conditions
    return bool(np.asarray(jax.numpy.stack(conditions).all() if rest else first))


def _is_generator(value: Any) -> bool:
    return isinstance(value, np.random.Generator)
