"""The last region of a plan, in the memory of the values that it replaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pytensor_jaxlink.runtime.bindings import Boundary, accepting
from pytensor_jaxlink.runtime.devices import placed_as
from pytensor_jaxlink.runtime.donation import Donation
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.reuse import Reuse
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.waiting import all_hold, wait_for_all

_FALSE = Result(None, (False,))


class LastRegion:
    """Runs the last region of a plan, and donates to it what can be donated in each call."""

    def __init__(
        self, ready: Runnable, boundary: Boundary, reuse: Reuse, *, show_unusable: bool
    ) -> None:
        plan, function = ready.plan, ready.functions[-1]
        self._policy, self._place = ready.policy, ready.constants.placing(reuse.arguments)
        self._last = region = plan.own_regions[-1]
        traced, taken = accepting(ready, region, function, boundary), len(region.arguments)

        def of_all(static: tuple[object, ...], *arguments: object) -> Any:
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
        self._stores = bool(reuse.states or reuse.others)

    def __call__(
        self,
        static: tuple[object, ...],
        arguments: list[object],
        others: list[object],
        conditions: Sequence[object],
    ) -> Result:
        """The result of the plan.  Where memory was donated the updates have been stored.

        Parameters
        ----------
        static, arguments
            Those of the region.  A value that somebody else holds is not donated.
        others
            The outputs of the plan that the region does not compute.
        conditions
            Those of the steps before.
        """
        if conditions and not all_hold(*conditions):
            return _FALSE
        if self._place is not None:
            self._place(arguments)
        new: Sequence[object] = ()
        if self._others:
            places, cells = zip(*self._others, strict=True)
            new = ready_as([cell[0] for cell in cells], [others[place] for place in places])
        done = self._donation.run(static, arguments, new)
        if done is None:
            results, conditions = self._region(*((static,) if static else ()), *arguments)
            return Result(self._outputs(results, others), conditions)
        results, holds = done
        return Result(self._outputs(results, others), (), self._stores) if holds else _FALSE

    def compile(
        self,
        static: tuple[object, ...],
        arguments: list[object],
        others: list[object],
        conditions: Sequence[object],
    ) -> Result:
        """Compile the region for a call with these values, in the place of running it."""
        if not conditions or all_hold(*conditions):
            if self._place is not None:
                self._place(arguments)
            self._region.lower(*((static,) if static else ()), *arguments).compile()
            self._donation.compile_for(static, arguments)
        return _FALSE

    def _outputs(self, results: Sequence[object], others: Sequence[object]) -> list[object]:
        known = [*results, *others]
        return [known[place] for place in self._order]


def ready_as(old: Iterable[object], new: Iterable[object]) -> list[object]:
    """New values of states, spread over the devices as the old ones are, when all are there."""
    values = [placed_as(*pair) for pair in zip(old, new, strict=True)]
    wait_for_all(values)
    return values
