"""Buffers that a call may reuse for its results.

What has been donated is gone, so a buffer is donated only where nothing can be lost by it:

- only one that nobody else holds: no other argument, no output, and for the value of a shared
  variable nobody outside at all (the number of references tells; of memory that NumPy looks at,
  which it does not tell, JAX itself makes a copy);
- only to the last region, after which nothing is run that could fail, and when the conditions of
  the regions before it have been found to hold;
- only if the memory that the region needs is there;
- the region itself gives the old values back where its own condition is false;
- the new values are stored before an interrupt (Ctrl-C) is delivered.

Small arrays are not worth the care, and are copied.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, starmap, tee
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.runtime.devices import ARRAY, constrained_as, sharding_of
from pytensor_jaxlink.runtime.donated import remember_donated
from pytensor_jaxlink.runtime.interrupts import interrupts_wait, store
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.stats import Stats

WORTH_IT = 1 << 20
"""Bytes of a shared variable from which on donating is cheaper than copying."""

_UNUSABLE = "Some donated buffers were not usable"


def _references(values: Sequence[Any], position: int) -> int:
    return sys.getrefcount(values[position])


_OF_OURS = _references([[object()]][0], 0) + 1
"""References to what a cell and the list of a region's arguments hold, and nobody else."""


@dataclass(frozen=True)
class Donatable:
    """What a function may donate.

    Attributes
    ----------
    names
        Of its inputs.
    updated
        For each input that is the value of a shared variable which the call updates: the position
        of its new value among the outputs, and the cell of the variable.
    given
        The inputs that are the caller's.
    show_unusable
        Whether to show JAX's warning that a donated buffer could not be used.
    """

    names: Sequence[str]
    updated: Mapping[int, tuple[int, list[Any]]]
    given: frozenset[int]
    show_unusable: bool


@dataclass(frozen=True)
class Reuse:
    """What the last region of a plan may reuse.

    Attributes
    ----------
    arguments
        The values it takes, and after them the old values of states which it computes without
        looking at the old ones.
    states
        For each argument that is the value of a state which the region updates: the position of the
        new value among its results, and the cell.
    given
        The arguments that are the caller's, with their names.
    others
        The states that are updated to what is known before the region runs: the positions of their
        new values among the outputs, and the cells.
    """

    arguments: tuple[int, ...]
    states: Mapping[int, tuple[int, list[Any]]]
    given: Mapping[int, str]
    others: tuple[tuple[int, list[Any]], ...]

    @classmethod
    def at_the_end(cls, plan: Plan, what: Donatable) -> Reuse | None:
        """What is reused by the last step of a plan; None where nothing can be."""
        if not plan.steps or not isinstance(region := plan.steps[-1], Region):
            return None
        results = {number: place for place, number in enumerate(region.results)}
        last: dict[int, tuple[int, list[Any]]] = {}
        others: list[tuple[int, list[Any]]] = []
        for position, (output, cell) in what.updated.items():
            number = plan.outputs[output]
            if number in results:
                last[plan.inputs[position]] = results[number], cell
            else:
                others.append((output, cell))
        arguments = tuple(dict.fromkeys((*region.arguments, *last)))
        places = {number: place for place, number in enumerate(arguments)}
        names = {plan.inputs[position]: what.names[position] for position in what.given}
        kept = set(plan.outputs)
        given = {places[n]: names[n] for n in arguments if n in names and n not in kept}
        states = {places[number]: found for number, found in last.items()}
        return cls(arguments, states, given, tuple(others)) if states or given else None


class Donation:
    """Calls a region so that the memory of some of its arguments is reused.

    Parameters
    ----------
    traced
        The region, of its static values and arguments: it gives results and conditions.
    what
        The arguments that may be donated.
    policy
        How to compile.
    stats
        Counts the bytes.
    show_unusable
        Whether to show JAX's warning that a donated buffer could not be used.
    """

    def __init__(
        self,
        traced: Callable[..., tuple[Any, Any]],
        what: Reuse,
        policy: Policy,
        stats: Stats,
        *,
        show_unusable: bool,
    ) -> None:
        self._traced, self._what, self._policy, self._stats = traced, what, policy, stats
        self._show_unusable = show_unusable
        self._states, self._given = tuple(what.states), tuple(what.given)
        self._cells = [cell for _, cell in (*what.states.values(), *what.others)]
        self._pick = _picker([result for result, _ in what.states.values()])
        self._compiled: dict[Any, _Compiled | None] = {}

    def choose(self, values: Sequence[Any]) -> tuple[int, ...]:
        """The positions of the arguments that nobody else holds."""
        chosen = [
            position
            for position in self._states
            if _references(values, position) <= _OF_OURS
            and type(values[position]) is ARRAY
            and values[position].nbytes >= WORTH_IT
        ]
        for position in self._given:
            value = values[position]
            once = sum(value is other for other in values) == 1
            if once and type(value) is ARRAY and not value.is_deleted():
                chosen.append(position)
        return tuple(chosen)

    def run(
        self,
        static: tuple[Any, ...],
        values: Sequence[Any],
        chosen: tuple[int, ...],
        others: Sequence[Any],
    ) -> tuple[Sequence[Any], bool] | None:
        """Call the region, donate the ``chosen`` values, and store the new ones and the ``others``.

        Returns the results, and whether the conditions hold: where not, the shared variables are as
        they were.  None, and nothing done, where nothing of it can be donated.
        """
        key = _key(static, values, chosen)
        try:
            compiled = self._compiled[key]
        except KeyError:
            compiled = self._compiled[key] = self._compile(static, values, chosen)
        if compiled is None:
            return None
        if compiled.needed:
            np.empty(compiled.needed, np.uint8)  # MemoryError now, while nothing is lost
        for position in compiled.donated:
            self._stats.donated_bytes += values[position].nbytes
            if position in self._what.given:
                name = self._what.given[position]
                remember_donated(name, values[position], self._stats.calls + 1)
        if compiled.conditional or not compiled.called:
            compiled.called = True
            with interrupts_wait():
                return self._run_carefully(compiled, values, others)
        # From the call to the last cell that is filled there is no bytecode to interrupt.
        calls, again = tee(starmap(compiled.function, (values,)))
        new = chain.from_iterable(map(self._pick, map(itemgetter(0), calls)))
        store(self._cells, chain(new, others))
        [(results, _)] = again
        return results, True

    def compile_for(self, static: tuple[Any, ...], values: Sequence[Any]) -> None:
        """Compile for values like these, if nobody else will hold those of the states."""
        chosen = tuple(p for p in self._states if getattr(values[p], "nbytes", 0) >= WORTH_IT)
        # What is NumPy's now will have been computed by JAX.
        values = [
            jax.device_put(value) if p in chosen and type(value) is np.ndarray else value
            for p, value in enumerate(values)
        ]
        key = _key(static, values, chosen)
        if chosen and key not in self._compiled:
            self._compiled[key] = self._compile(static, values, chosen)

    def _run_carefully(
        self, compiled: _Compiled, values: Sequence[Any], others: Sequence[Any]
    ) -> tuple[Sequence[Any], bool]:
        """The same where there is a condition to look at, or JAX has to find its way first."""
        results, conditions = compiled.function(*values)
        if all(map(bool, map(np.asarray, conditions))):
            store(self._cells, [*self._pick(results), *others])
            return results, True
        given_back = [self._what.states[position] for position in compiled.donated]
        store([cell for _, cell in given_back], [results[result] for result, _ in given_back])
        return results, False

    def _compile(
        self, static: tuple[Any, ...], values: Sequence[Any], chosen: tuple[int, ...]
    ) -> _Compiled | None:
        """The region compiled for these values, of which the chosen are donated."""
        conditional = False
        places = list(map(sharding_of, values))

        def restoring(*arguments: Any) -> Any:
            nonlocal conditional
            found, conditions = self._traced(static, *arguments)
            conditional, results = bool(conditions), list(found)
            for position, (result, _) in self._what.states.items():
                old, new = arguments[position], results[result]
                if position in chosen:
                    if old.shape != new.shape:
                        raise _CannotDonateError
                    new = jnp.where(conditions[0], new, old) if conditions else new
                results[result] = constrained_as(places[position], old, new)
            return results, conditions

        with warnings.catch_warnings():
            if not self._show_unusable:
                warnings.filterwarnings("ignore", message=_UNUSABLE)
            try:
                function = self._policy.jit(restoring, donate_argnums=chosen)
                lowered = function.lower(*values)
            except _CannotDonateError:
                return None
            if conditional and not set(chosen) <= set(self._states):
                # What the caller gave could not be given back.
                kept = tuple(position for position in chosen if position in self._states)
                return self._compile(static, values, kept) if kept else None
            memory: Any = lowered.compile().memory_analysis()
        needed = 0
        if memory is not None:
            needed = memory.temp_size_in_bytes + memory.output_size_in_bytes
            needed = max(0, needed - memory.alias_size_in_bytes)
        return _Compiled(function, chosen, needed, conditional)


class _CannotDonateError(Exception):
    """A new value has another shape than the old one."""


@dataclass
class _Compiled:
    function: Any
    donated: tuple[int, ...]
    needed: int
    conditional: bool
    called: bool = False


def _key(static: tuple[Any, ...], values: Sequence[Any], chosen: tuple[int, ...]) -> Any:
    kinds = [
        (np.shape(value), getattr(value, "dtype", type(value)), sharding_of(value))
        for value in values
    ]
    return static, chosen, tuple(kinds)


def _picker(positions: Sequence[int]) -> Callable[[Any], Sequence[Any]]:
    """Gives the entries at some positions, without bytecode."""
    if len(positions) > 1:
        return itemgetter(*positions)
    first = positions[0] if positions else sys.maxsize
    return itemgetter(slice(first, first + 1))
