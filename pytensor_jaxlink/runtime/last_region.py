"""A plan whose last region reuses memory: what runs before it, the region, and the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime.devices import ARRAY, placed_as
from pytensor_jaxlink.runtime.donation import Donation
from pytensor_jaxlink.runtime.reuse import Reuse
from pytensor_jaxlink.runtime.specialisation import Policy


class Stored(list[Any]):
    """Outputs and updates of a call, which have been stored."""


class LastRegion:
    """Calls a plan, and donates to its last region what can be donated in each call.

    Parameters
    ----------
    plan
        The plan.
    before
        Runs all other steps: gives the static values of the region, its arguments, and the outputs
        that it does not compute; None where a condition is false.
    region
        The region without donation, compiled.
    donation
        The region with donation.
    reuse
        What may be donated.
    policy
        How the region is compiled.
    pack
        Gives what the caller gets for the list of outputs.
    """

    def __init__(
        self,
        plan: Plan,
        before: Callable[..., Any],
        region: Any,
        donation: Donation,
        reuse: Reuse,
        policy: Policy,
        pack: Callable[[list[Any]], Any],
    ) -> None:
        self._before, self._region, self._donation = before, region, donation
        self._pack, self._policy, self._last = pack, policy, plan.regions[-1]
        results = self._last.results
        elsewhere = [k for k, number in enumerate(plan.outputs) if number not in results]
        places = {output: place for place, output in enumerate(elsewhere)}
        self._others = tuple((places[output], cell) for output, cell in reuse.others)
        order = [
            len(results) + places[k] if k in places else results.index(number)
            for k, number in enumerate(plan.outputs)
        ]
        self._updates = bool(reuse.states or reuse.others)
        self._as_computed = order == list(range(len(results)))
        self._order = order

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
