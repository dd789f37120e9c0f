"""Runs the steps of a plan one after another, whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.errors import FAILED_NODE, NotJittableError
from pytensor_jaxlink.generators import generator_of_key
from pytensor_jaxlink.plan import Fetch, HostBranch, HostLoop, HostStep, Plan, Region, Step
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.control import run_branch, run_loop
from pytensor_jaxlink.runtime.devices import place_for, to_numpy
from pytensor_jaxlink.runtime.keys import as_key
from pytensor_jaxlink.runtime.runnable import Driven, Runnable
from pytensor_jaxlink.runtime.specialisation import hashable
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.sparse_values import from_scipy, to_scipy

Run = Callable[[list[Any], dict[int, Any], list[Any]], None]
"""Runs a step of one call.

The values of the call are in the list (what regions take and give) and in the dictionary (what
NumPy computes with); conditions are added to the last list.
"""


class Interpreter:
    """Runs a plan.

    Notes
    -----
    All that belongs to one call is local to it, so one interpreter may run in many threads.
    """

    def __init__(self, ready: Runnable) -> None:
        self._ready, self._plan, self._stats = ready, ready.plan, ready.stats
        self._template: list[Any] = []
        steps = zip(ready.plan.steps, ready.functions, strict=True)
        self._steps = [self._prepare(step, function) for step, function in steps]

    def run(self, inputs: Sequence[Any], *, keys: bool = False) -> tuple[list[Any], list[Any]]:
        """Run the plan on the values of its inputs: gives the outputs, and the conditions.

        Parameters
        ----------
        keys
            Whether generators among the outputs stay the keys that regions make of them.
        """
        arrays = (self._template or self._start()).copy()
        host: dict[int, Any] = {}
        conditions: list[Any] = []
        for number, value in zip(self._plan.inputs, inputs, strict=True):
            arrays[number] = value
        for number in self._ready.shared:
            value = arrays[number]
            if type(value) is np.ndarray:
                self._stats.bytes_to_device += value.nbytes
                arrays[number] = jax.device_put(value, place_for(inputs))
        for step in self._steps:
            step(arrays, host, conditions)
        outputs = [arrays[number] for number in self._plan.outputs]
        if self._plan.generators and not keys:
            outputs = [
                generator_of_key(value)
                if number in self._plan.generators and not _is_generator(value)
                else value
                for number, value in zip(self._plan.outputs, outputs, strict=True)
            ]
        if self._plan.sparse:
            outputs = [to_scipy(value) for value in outputs]
        return outputs, conditions

    def _start(self) -> list[Any]:
        """The values that each call starts with: the constants."""
        template: list[Any] = [None] * len(self._plan.names)
        for number, value in self._ready.constants.here().items():
            template[number] = value
        self._template = template
        return template

    # -- steps ---------------------------------------------------------------------------------

    def _prepare(self, step: Step, function: Any) -> Run:
        match step:
            case Fetch(value):
                return self._fetch(value)
            case HostStep(folded=True):
                return self._fold(step, function)
            case HostStep():
                return self._host_step(step, function)
            case HostLoop() | HostBranch():
                return self._driven(step, function)
            case Region():
                return self._region(step, function)

    def _fetch(self, number: int) -> Run:
        def fetch(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            host[number] = self._to_host(number, arrays[number])

        return fetch

    def _fold(self, step: HostStep, function: Any) -> Run:
        by_shape = getattr(function, "reads_shape_only", False)

        def fold(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            if by_shape:
                values = [arrays[number] for number in step.arguments]
            else:
                values = [self._host_value(number, arrays, host) for number in step.arguments]
            host.update(zip(step.results, function(*values), strict=True))

        return fold

    def _host_step(self, step: HostStep, function: Any) -> Run:
        def run(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            values = [
                host[number] if number in host else self._to_host(number, arrays[number])
                for number in step.arguments
            ]
            self._stats.host_steps += 1
            for number, value in zip(step.results, function(*values), strict=True):
                arrays[number] = value

        return run

    def _driven(self, step: HostLoop | HostBranch, driven: Driven) -> Run:
        drive = driver(step, driven, self._stats)

        def run(arrays: list[Any], host: dict[int, Any], conditions: list[Any]) -> None:
            values = [
                host[number] if number in host else self._driven_value(number, arrays[number])
                for number in step.arguments
            ]
            self._stats.host_steps += 1
            results, found = drive(*values)
            for number, value in zip(step.results, results, strict=True):
                arrays[number] = value
            conditions += found

        return run

    def _region(self, region: Region, function: Any) -> Run:
        stats, index, plan = self._stats, region.index, self._plan
        numbers, results, selecting = region.arguments, region.results, region.static
        keyed = [number for number in numbers if number in plan.generators]
        sparse = [number for number in numbers if number in plan.sparse]
        place = self._ready.constants.placing(numbers)

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
            if place is not None:
                place(arguments)
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

    def _driven_value(self, number: int, value: Any) -> Any:
        """A value for a loop or a branch: arrays stay where they are."""
        concrete = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
        if concrete and number not in self._plan.generators:
            return value
        return self._to_host(number, value)

    def _to_host(self, number: int, value: Any) -> Any:
        if type(value) is np.ndarray:
            return value
        if number in self._plan.generators:
            return value if _is_generator(value) else generator_of_key(as_key(value))
        if number in self._plan.sparse:
            return to_scipy(value)
        if isinstance(value, jax.core.Tracer):
            raise NotJittableError(_not_static(self._plan, number))
        return to_numpy(value, self._stats) if isinstance(value, jax.Array) else value


def driver(
    step: HostLoop | HostBranch, driven: Driven, stats: Stats
) -> Callable[..., tuple[list[Any], list[Any]]]:
    """What runs a loop or a branch: gives results and conditions for the values of its arguments.

    Arrays may lie on the device.  An error names the node, so that PyTensor's own can be run.
    """
    bodies = [Interpreter(part).run for part in driven.parts]

    def drive(*values: Any) -> tuple[list[Any], list[Any]]:
        try:
            if isinstance(step, HostLoop):
                return run_loop(step.layout, step.measured, bodies[0], values, stats)
            return run_branch((bodies[0], bodies[1]), values[0], values[1:])
        except Exception as error:
            if not hasattr(error, FAILED_NODE):
                setattr(error, FAILED_NODE, driven.node)
            raise

    return drive


def _not_static(plan: Plan, number: int) -> str:
    name = plan.names[number]
    if number in plan.inputs:
        position = plan.inputs.index(number)
        return (
            f"JAX traces argument {position}, {name!r}, and the function needs its value "
            f"while it is traced. {Remedy.STATIC_ARGUMENT.text()}."
        )
    return (
        f"the value of {name} is computed by JAX and needed on the host, so the function "
        "cannot run inside one jax.jit (or vmap, or grad). f.explain() says where and why."
    )


def _is_generator(value: Any) -> bool:
    return isinstance(value, np.random.Generator)
