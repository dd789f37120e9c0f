"""Waiting for what JAX computes.

A thread that sleeps until a result is there is woken some 50 µs after it, and most of the calls
that have to wait take less.  So the first look is not the last: for about as long as waking takes
the result is asked for again and again, and only then does the thread go to sleep.  Who spins for
as long as blocking costs waits at most twice as long as who knows the future (Karlin, Manasse,
McGeoch and Owicki, "Competitive randomized algorithms for nonuniform problems", 1994, section 2).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.errors import OWN_FAILURE, FalseConditionError
from pytensor_jaxlink.runtime.typed_jax import ARRAY, Tracer, block_until_ready

_LOOKS = 0 if os.cpu_count() == 1 else 100  # of 0.4 to 0.8 µs
"""How often to look; on one core nobody could compute in the meantime."""

_FEW = 8
"""Up to so many arrays are waited for one by one; JAX's function for all takes 1 µs to begin."""


def waited_for(value: object) -> np.ndarray:
    """An array as a NumPy array, when JAX has computed it on devices of this process."""
    is_ready = getattr(value, "is_ready", None)
    if is_ready is not None and not is_ready():
        _spin(is_ready)
    return np.asarray(value)


def when_ready(value: jax.Array) -> jax.Array:
    """Wait for a value that JAX computes; an error in computing it is raised here."""
    array: Any = value
    if not array.is_ready():
        _spin(array.is_ready)
    return value.block_until_ready()


def wait_for_all(values: Sequence[object]) -> None:
    """The same for those of the values that are JAX's, without looking first."""
    arrays: list[Any] = [value for value in values if type(value) is ARRAY]
    if len(arrays) > _FEW:
        block_until_ready(arrays)
    else:
        for array in arrays:
            array.block_until_ready()


def _spin(is_ready: Callable[[], bool]) -> None:
    """Look again and again at what was not there."""
    for _ in range(_LOOKS):
        if is_ready():
            break


def all_hold(*conditions: object) -> bool:
    """Return True if all conditions are true: booleans, and arrays of no dimensions."""
    # NumPy is faster than asking JAX for a truth value.
    return all(c if type(c) is bool else bool(waited_for(c)) for c in conditions)


def end_if_false(error: Exception, *conditions: object) -> None:
    """Raise `FalseConditionError` if an error may come of a condition that was false before.

    An exception of an Op of the user's ends the call, because the Op is not to run again.  While
    JAX traces, nobody knows a condition.
    """
    if hasattr(error, OWN_FAILURE) or any(isinstance(c, Tracer) for c in conditions):
        return
    if not all_hold(*conditions):
        raise FalseConditionError from error
