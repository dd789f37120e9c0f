"""A plan whose last region reuses memory: what runs before it, the region, and the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytensor_jaxlink.runtime.devices import ARRAY, placed_as
from pytensor_jaxlink.runtime.donation import Donation
from pytensor_jaxlink.runtime.reuse import Donatable, Reuse
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.straight import Boundary, fitting, straight


class Stored(list[Any]):
    """Outputs and updates of a call, which have been stored."""


class LastRegion:
    """Calls a plan, and donates to its last region what can be donated in each call.

    Parameters
    ----------
    ready
        The plan.
    before
        Runs all other steps: gives the static values of the region, its arguments, and the outputs
        that it does not compute; None where a condition is false.
    boundary
        What the function does with its inputs and outputs.
    reuse, show_unusable
        What may be donated, and whether to show JAX's warning that it could not be used.
    """

    def __init__(
        self,
        ready: Runnable,
        before: Callable[..., Any],
        boundary: Boundary,
        reuse: Reuse,
        *,
        show_unusable: bool,
    ) -> None:
        plan, function = ready.plan, ready.functions[-1]
        self._before, self._pack, self._policy = before, boundary.pack, ready.policy
        self._place = ready.constants.placing(reuse.arguments)
        self._last = region = plan.own_regions[-1]
        traced, taken = fitting(ready, region, function, boundary), len(region.arguments)

        def of_all(static: tuple[Any, ...], *arguments: Any) -> Any:
            return traced(static, *arguments[:taken])

        self._region = function.jitted(of_all)
        self._donation = Donation(
            of_all, reuse, ready.policy, ready.stats, show_unusable=show_unusable
        )
        results = region.results
        elsewhere = [k for k, number in enumerate(plan.outputs) if number not in results]
        places = {output: place for place, output in enumerate(elsewhere)}
        self._others = tuple((places[output], cell) for output, cell in reuse.others)
        self._order = [
            len(results) + places[k] if k in places else results.index(number)
            for k, number in enumerate(plan.outputs)
        ]
        self._updates = bool(reuse.states or reuse.others)
        self._as_computed = self._order == list(range(len(results)))

    @classmethod
    def of(cls, ready: Runnable, boundary: Boundary, what: Donatable) -> LastRegion | None:
        """The plan as such a function; None where nothing can be donated."""
        reuse = Reuse.at_the_end(ready.plan, what)
        before = None if reuse is None else straight(ready, boundary, reuse.arguments)
        if reuse is None or before is None:
            return None
        return cls(ready, before, boundary, reuse, show_unusable=what.show_unusable)

    def __call__(self, values: list[Any]) -> Any:
        """Run the plan on the values of its inputs, which are taken out of the list.

        Whoever holds them still would keep them from being donated.  Gives what is packed of the
        outputs, or a tuple of that and whether the conditions hold.  What was donated has been
        stored if they do.
        """
        ready = self._before(*values)
        values.clear()
        if ready is None:
            return None, False
        static, arguments, others = ready
        del ready
        if self._place is not None:
            self._place(arguments)
        new: Sequence[Any] = ()
        if self._others:
            new = [ready_as(cell[0], others[place]) for place, cell in self._others]
        done = self._donation.run(static, arguments, new)
        if done is not None:
            results, holds = done
            # Without the outputs: a traceback would hold them, and what is held is not donated.
            if not holds:
                return None, False
            outputs = self._outputs(results, others)
            return Stored(outputs) if self._updates else outputs
        results, conditions = self._region(*((static,) if static else ()), *arguments)
        outputs = self._outputs(results, others)
        return (outputs, *conditions) if conditions else outputs

    def compile_for(self, values: list[Any]) -> None:
        """Compile the last region for a call with these values; the others run."""
        ready = self._before(*values)
        if ready is not None:
            static, arguments, _ = ready
            if self._place is not None:
                self._place(arguments)
            taken = arguments[: len(self._last.arguments)]
            with self._policy.kept((self._last.index, static), taken):
                self._region.lower(*((static,) if static else ()), *arguments).compile()
            self._donation.compile_for(static, arguments)

    def _outputs(self, results: Sequence[Any], others: Sequence[Any]) -> Any:
        known = [*results, *others]
        return self._pack(known if self._as_computed else [known[place] for place in self._order])


def ready_as(old: Any, new: Any) -> Any:
    """A new value of a state, spread over the devices as the old one is, when it is there."""
    if type(old) is ARRAY:
        new = placed_as(old, new)
    return new.block_until_ready() if type(new) is ARRAY else new
