"""Conditions that need not be checked again.

To check a condition is to wait for the call.  What lies in a `jax.Array` does not change, so a
condition that holds for some arrays holds for them in the next call too: the group numbers of a
regression are checked once, and later calls return while XLA still computes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.typed_jax import ARRAY
from pytensor_jaxlink.runtime.waiting import waited_for

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr


class Condition:
    """The condition of a compiled function, and the arrays for which it was found to hold.

    Parameters
    ----------
    function
        The function; where it gives a tuple, the second entry is its condition.
    policy
        How it is compiled.
    repeatable
        Whether the same arguments give the same condition: what runs on the host may fail once.

    Attributes
    ----------
    compiled
        What `jax.jit` makes of the function.
    """

    def __init__(self, function: Callable[..., Any], policy: Policy, *, repeatable: bool) -> None:
        def traced(*values: Any) -> Any:
            self._traces += 1
            return function(*values)

        self._traces = 0
        self.compiled = policy.jit(traced)
        self._policy, self._repeatable = policy, repeatable
        # For each combination of shapes the arguments that the condition depends on.
        self._decisive: dict[Any, tuple[int, ...]] = {}
        # One that was not a `jax.Array`: while it is none nothing can be recorded.
        self._new: int | None = None
        # One object, because several threads may call the function.
        self._known: tuple[Any, tuple[tuple[int, Any], ...]] | None = None

    def result(
        self, found: tuple[Any, Any], values: Sequence[Any], others: Sequence[Any] = ()
    ) -> Result:
        """The result of a call, with the condition only where it is false.

        Parameters
        ----------
        found
            What the function gave: outputs and a condition.
        values
            The arguments of that call.
        others
            Those that followed, and are the same in all calls.
        """
        outputs, condition = found
        return Result(outputs, () if self._holds(condition, values, others) else (False,))

    def _holds(self, condition: Any, values: Sequence[Any], others: Sequence[Any]) -> bool:
        known = self._known
        if known is not None:
            for position, array in known[1]:
                if array() is not values[position]:
                    break
            else:
                # Looking at shapes takes longer than anything else here.
                if self._traces == 1 or known[0] == _shapes(values):
                    return True
        found = bool(waited_for(condition))
        new = self._new
        if found and self._repeatable and (new is None or type(values[new]) is ARRAY):
            self._known = self._decisive_arguments(values, others)
        return found

    def _decisive_arguments(self, values: Sequence[Any], others: Sequence[Any]) -> Any:
        shapes = _shapes(values)
        if shapes not in self._decisive:
            with self._policy.here():  # JAX finds what it has traced
                jaxpr = self.compiled.trace(*values, *others).jaxpr.jaxpr
            count = len(values)
            self._decisive[shapes] = tuple(k for k in _sources_of_last(jaxpr) if k < count)
        decisive = self._decisive[shapes]
        for position in decisive:
            if type(values[position]) is not ARRAY:
                self._new = position
                return None
        return shapes, tuple((position, weakref.ref(values[position])) for position in decisive)


def _shapes(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([getattr(value, "shape", ()) for value in values])


def _sources_of_last(jaxpr: Jaxpr) -> list[int]:
    """The positions of the inputs that the last output is computed from."""
    from jax.extend.core import Literal  # imports Pallas: 3 % of `import jax`, for loaded functions

    needed = {v for v in jaxpr.outvars[-1:] if not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(v for v in equation.invars if not isinstance(v, Literal))
    return [position for position, variable in enumerate(jaxpr.invars) if variable in needed]
