"""A plan as a function that goes straight to compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytensor_jaxlink.runtime.clocks import Function, Recorder
from pytensor_jaxlink.runtime.stats import Stats


@dataclass(slots=True)
class FastPath:
    """A plan as a function that goes straight to compiled code.

    Attributes
    ----------
    call
        The function of the arguments.  It gives a `Result`; or, where the plan is one region, what
        JAX gives: the packed outputs, or a tuple of them and a condition.
    compile
        Compiles for values of all inputs.
    packed
        Whether the outputs are the answer of the function, and no list that is to be taken apart.
    holds
        Whether the condition of a call that gave a tuple is true, for the arguments of that call.
    stats
        What counts.
    in_place
        Calls with fewer bytes of NumPy's get the arrays as they are, and not copies.  0 where one
        result does not tell that nothing reads them any more: it does where there is one program.
    patience
        How many calls may still be waited for before ``in_place`` is 0.
    timed
        Makes the same call with clocks, which give their times to a recorder.
    """

    call: Function
    compile: Callable[[list[object]], None]
    timed: Callable[[Recorder], Function]
    stats: Stats
    packed: bool = False
    holds: Callable[[object, Sequence[object]], bool] | None = None
    in_place: int = 0
    patience: int = 4
