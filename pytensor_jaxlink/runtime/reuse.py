"""The memory that a call may reuse: of the function's inputs, of the last region's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytensor_jaxlink.plan import Plan, Region


@dataclass(frozen=True)
class Donatable:
    """The values that a function may donate.

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
    updated: Mapping[int, tuple[int, list[object]]]
    given: frozenset[int]
    show_unusable: bool


@dataclass(frozen=True)
class Reuse:
    """The memory that the last region of a plan may reuse.

    Attributes
    ----------
    arguments
        The values it takes, and after them the old values of states which it computes without
        looking at the old ones.
    taken
        The number of those that it takes.
    states
        For each argument that is the value of a state which the region updates: the position of the
        new value among its results, and the cell.
    given
        The arguments that are the caller's, with their names.
    others
        The states that are updated to what is known before the region runs: the positions of their
        new values among the outputs, and the cells.
    show_unusable
        As `Donatable` has it.
    """

    arguments: tuple[int, ...]
    taken: int
    states: Mapping[int, tuple[int, list[object]]]
    given: Mapping[int, str]
    others: tuple[tuple[int, list[object]], ...]
    show_unusable: bool

    @classmethod
    def at_the_end(cls, plan: Plan, what: Donatable) -> Reuse | None:
        """The memory that the last step of a plan reuses; None where there is none."""
        if not plan.steps or not isinstance(region := plan.steps[-1], Region):
            return None
        results = {number: place for place, number in enumerate(region.results)}
        last: dict[int, tuple[int, list[object]]] = {}
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
        if not (states or given):
            return None
        taken, show = len(region.arguments), what.show_unusable
        return cls(arguments, taken, states, given, tuple(others), show)
