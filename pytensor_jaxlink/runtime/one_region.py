"""Plans that are one region of arrays: there is nothing to interpret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Sharding

from pytensor_jaxlink.errors import DoesNotFitError
from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.runtime.devices import place_for
from pytensor_jaxlink.runtime.runnable import Runnable

ConstantsAt = Callable[[Sharding | None], tuple[Any, ...]]
"""Gives the constants of a function on the devices of a call."""


def is_one_region(plan: Plan) -> bool:
    """Whether a plan is one region without static values."""
    match plan.steps:
        case [Region(static=())]:
            return True
        case _:
            return False


class OneRegion:
    """Runs such a plan.  What the region takes are inputs, and after them constants."""

    def __init__(self, ready: Runnable) -> None:
        plan, [region], [function] = ready.plan, ready.plan.regions, ready.functions
        self._ready, self._function, self._inputs = ready, function, len(plan.inputs)
        self._constants = [n for n in region.arguments if n not in plan.inputs]
        places = {n: k for k, n in enumerate((*plan.inputs, *self._constants))}
        self._taken = [places[number] for number in region.arguments]
        self._given = [region.results.index(number) for number in plan.outputs]
        self._as_computed = self._given == list(range(len(region.results)))

    @classmethod
    def of(cls, ready: Runnable) -> OneRegion | None:
        """What runs a plan of this kind; None for all others."""
        return cls(ready) if is_one_region(ready.plan) and _only_arrays(ready.plan) else None

    def run(self, inputs: Sequence[Any]) -> tuple[list[Any], Any]:
        """The outputs and conditions for the values of the inputs; see `Interpreter.run`."""
        stats = self._ready.stats
        stats.general_region_calls[0] += 1
        if self._constants:
            inputs = [*inputs, *self._constants_at(place_for(inputs))]
        arguments = [inputs[place] for place in self._taken]
        for argument in arguments:
            if type(argument) is np.ndarray:
                stats.bytes_to_device += argument.nbytes
        values, conditions = self._function((), *arguments)
        return list(values) if self._as_computed else self._outputs(values), conditions

    def direct(
        self, fits: Callable[[int, Any], bool]
    ) -> tuple[Callable[..., Any], ConstantsAt | None]:
        """The plan as one function that JAX can compile; see `Executor.direct`."""
        traced_region = self._function.traced

        def traced(*values: Any) -> Any:
            given = values[: self._inputs]
            fitting = len(values) == self._inputs + len(self._constants)
            if not fitting or not all(map(fits, range(len(given)), given)):
                raise DoesNotFitError
            results, conditions = traced_region((), *[values[place] for place in self._taken])
            outputs = self._outputs(results)
            return (outputs, *conditions) if conditions else outputs

        if not self._constants:
            return traced, None
        with self._ready.policy.here():
            self._constants_at(None)
        return traced, self._constants_at

    def _outputs(self, results: Sequence[Any]) -> list[Any]:
        return [results[place] for place in self._given]

    def _constants_at(self, place: Sharding | None) -> tuple[Any, ...]:
        return tuple(self._ready.constants.at(number, place) for number in self._constants)


def _only_arrays(plan: Plan) -> bool:
    """Whether the one region of a plan takes inputs and constants, and gives all outputs."""
    [region] = plan.regions
    passed = {*region.arguments, *region.results}
    return (
        set(region.arguments) <= {*plan.inputs, *plan.constants}
        and set(plan.outputs) <= set(region.results)
        and not passed & (plan.generators | plan.sparse)
    )
