"""The value of a shared variable for those who ask for it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from pytensor_jaxlink.runtime.forks import from_parent, is_forked_child
from pytensor_jaxlink.runtime.typed_jax import ARRAY


def lend(cell: list[object]) -> object:
    """The value for who borrows it and may write into it, so that functions see that."""
    cell[0] = value = value_of_state(cell[0], False, False)
    return value


def value_of_state(value: object, borrow: bool, return_internal_type: bool) -> Any:
    """The value as everybody can read it: a NumPy array where the variable holds one of JAX.

    Parameters
    ----------
    value
        What the variable holds.
    borrow
        Give no copy where none is needed.  On a CPU the array is then a read-only view.
    return_internal_type
        Give the array of JAX, on its devices.

    Raises
    ------
    ForkedProcessError
        In a forked process, if the value lies on a device, or was being computed.
    """
    if is_forked_child():
        value = from_parent(value)
    if type(value) is not ARRAY or return_internal_type:
        return value if borrow else deepcopy(value)
    return np.asarray(value) if borrow else np.array(value)
