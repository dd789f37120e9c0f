"""Memory that a loaded function may reuse, as the function that was saved did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.artifact.compiled.regions import NotSavedError
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.errors import DoesNotFitError
from pytensor_jaxlink.runtime import Donatable, Donation, Executor, Policy, Stats, place_for


class Donating:
    """Runs the plan of a function, which is one region, in the memory of its arguments.

    Parameters
    ----------
    donation
        The plan as one function.
    constants
        Its arguments after the inputs.
    states
        The lists that hold the values of the inputs which it updates.
    stats
        Counts calls.
    """

    def __init__(
        self,
        donation: Donation,
        constants: Callable[[Sequence[Any]], tuple[Any, ...]],
        states: Mapping[int, list[Any]],
        stats: Stats,
    ) -> None:
        self._donation, self._constants = donation, constants
        self._states, self._stats = states, stats

    @classmethod
    def of(
        cls, executor: Executor, signature: Signature, storages: Sequence[list[Any]], policy: Policy
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
        policy
            How to compile.
        """
        what = _donatable(executor, signature, storages)
        direct = None if what is None else executor.direct(partial(_fits, signature))
        if what is None or direct is None:
            return None
        traced, constants_at = direct

        def constants(values: Sequence[Any]) -> tuple[Any, ...]:
            return () if constants_at is None else constants_at(place_for(values))

        states = {place: cell for place, (_, cell) in what.updated.items()}
        return cls(Donation(traced, what, policy), constants, states, executor.stats)

    def compile_for(self, values: Sequence[Any]) -> None:
        """Compile for inputs like these, if nobody else will hold those of the states."""
        with jax.enable_x64(True):
            self._donation.compile_for([*values, *self._constants(values)])

    def run(self, values: list[Any]) -> list[Any] | None:
        """The outputs and updates, which have been stored; None where nothing has been done.

        The list must be the only one that holds the values: what somebody else holds stays.
        """
        count = len(values)
        values.extend(self._constants(values))
        try:
            with jax.enable_x64(True):
                chosen = self._donation.choose(values)
                done = self._donation.run(values, chosen) if chosen else None
        except (NotSavedError, DoesNotFitError):
            done = None  # the general way says what is wrong
        del values[count:]
        if done is None:
            return None
        outputs, holds = done
        if holds:
            self._stats.direct += 1
            return list(outputs)
        for place, cell in self._states.items():  # what they were, in new arrays
            values[place] = cell[0]
        return None


def _donatable(
    executor: Executor, signature: Signature, storages: Sequence[list[Any]]
) -> Donatable | None:
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
    return Donatable(names, updated, given, donate == "warn", executor.stats)


def _fits(signature: Signature, position: int, value: Any) -> bool:
    """Whether a value that JAX traces has the type of an input; the code knows its shapes."""
    return value.dtype == np.dtype(signature.inputs[position].type.dtype)
