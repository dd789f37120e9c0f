"""The result of a run of a plan: the one form in which it is handed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Result(NamedTuple):
    """The result of a run.

    Attributes
    ----------
    outputs
        The outputs of the plan, updates included.  Where a condition is known to be false they may
        be None.
    conditions
        Booleans that have to hold for the outputs to count.  Nobody has waited for them yet.
    stored
        Whether the updates are in their cells already.
    """

    outputs: Any
    conditions: Sequence[object] = ()
    stored: bool = False
