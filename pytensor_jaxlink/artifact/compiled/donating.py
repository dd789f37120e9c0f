"""Memory that a loaded function may reuse, as the function that was saved did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.artifact.compiled.regions import NotSavedError
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.errors import DoesNotFitError
from pytensor_jaxlink.runtime import Boundary, Donatable, Executor, LastRegion, Stats, all_hold


class Donating:
    """Runs the plan of a function, whose last step is a region, in the memory of its arguments.

    Parameters
    ----------
    plan
        The plan with its last region.
    states
        The lists that hold the values of the shared variables among the inputs.
    stats
        Counts calls.
    """

    def __init__(self, plan: LastRegion, states: Mapping[int, list[Any]], stats: Stats) -> None:
        self._plan, self._states, self._stats = plan, states, stats

    @classmethod
    def of(
        cls, executor: Executor, signature: Signature, storages: Sequence[list[Any]]
    ) -> Donating | None:
        """What donates for a function, or None where it has nothing to donate.

        Parameters
        ----------
        executor
            Runs the plan.
        signature
            Says what may be donated: the option ``donate``, and which inputs are mutable.
        storages
            The list that holds the value of each input.
        """
        what = _donatable(signature, storages)
        if what is None:
            return None
        boundary = Boundary(partial(_fits, signature), _as_given, as_array, list)
        plan = executor.donating(boundary, what)
        inputs = enumerate(signature.inputs)
        states = {place: storages[place] for place, each in inputs if each.cell is not None}
        return None if plan is None else cls(plan, states, executor.stats)

    def compile_for(self, values: Sequence[Any]) -> None:
        """Compile for inputs like these, if nobody else will hold those of the states."""
        with jax.enable_x64(True):
            self._plan.compile_for(list(values))

    def run(self, values: list[Any]) -> list[Any] | None:
        """The outputs and updates; None where another way has to be taken.

        The list must be the only one that holds the values: what somebody else holds stays.
        """
        given = list(values)
        for place in self._states:
            given[place] = None
        try:
            with jax.enable_x64(True):
                done: Any = self._plan(values)
        except (NotSavedError, DoesNotFitError):
            done = None, False  # the general way says what is wrong
        finally:
            for place, cell in self._states.items():
                given[place] = cell[0]
            values[:] = given
        outputs, condition = done if type(done) is tuple else (done, True)
        if not all_hold(condition):
            return None
        self._stats.direct += 1
        return outputs


def _donatable(signature: Signature, storages: Sequence[list[Any]]) -> Donatable | None:
    donate = signature.options.get("donate", "updates")
    inputs = list(enumerate(signature.inputs))
    kept = [each for _, each in inputs if each.cell is None and (each.default or each.updated)]
    if donate == "none" or kept:
        return None
    count = len(signature.outputs)
    updated = {
        place: (count + position, storages[place])
        for position, place in enumerate(place for place, each in inputs if each.updated)
    }
    given = frozenset(
        place
        for place, each in inputs
        if each.cell is None and (donate != "updates" or each.mutable)
    )
    if not updated and not given:
        return None
    names = [each.name or each.type.text for _, each in inputs]
    return Donatable(names, updated, given, donate == "warn")


def _fits(signature: Signature, position: int, value: Any) -> bool:
    """Whether a value that JAX traces has the type of an input; the code knows its shapes."""
    return value.dtype == np.dtype(signature.inputs[position].type.dtype)


def _as_given(position: int, value: Any) -> Any:
    """An input, which has been converted before."""
    return value


def as_array(value: Any) -> Any:
    """An output as a `jax.Array`."""
    if isinstance(value, jax.Array):
        return value
    with jax.enable_x64(True):
        return jnp.array(value)
