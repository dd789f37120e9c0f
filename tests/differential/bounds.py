"""Bounds by size and by number of calls, lowered: what is for large arrays meets small ones.

Random graphs have small arrays and few calls.  Whether a buffer is donated, data are moved to the
device, a program is traced for its cost or a length gets a program of its own depends on bounds
that they would never reach.
"""

from __future__ import annotations

from types import ModuleType

from pytensor_jaxlink import generators
from pytensor_jaxlink.link import analyses
from pytensor_jaxlink.lowering import arange, indexing, program
from pytensor_jaxlink.lowering.scalars import comparisons
from pytensor_jaxlink.rewriting import counts, hoisting, steps
from pytensor_jaxlink.runtime import (
    beyond,
    cells,
    control,
    devices,
    dispatch,
    donation,
    executor,
    fast_call,
    padding,
    runnable,
    specialisation,
    waiting,
    whole,
)

LOWERED: dict[ModuleType, dict[str, float]] = {
    generators: {"_PENDING": 0},
    analyses: {"WORTH_A_REGION": 0},
    arange: {"_LISTED": 0},
    indexing: {"_SMALL": 0},
    program: {"_SMALL": 0},
    comparisons: {"_LARGE": 0},
    counts: {"_TOO_MANY": 1, "_MOST": 3},
    hoisting: {"_WORTH_IT": 0},
    steps: {"_SMALL": 0, "_WORTH_IT": 0},
    beyond: {"_MOST_KEPT": 0},
    cells: {"_LARGE": 1, "_PATIENCE": 1},
    control: {"_LARGE": 0},
    devices: {"COPIED_FAST": 16},
    dispatch: {"MANY": 1, "_OFTEN": 2, "_SHARE": 2},
    donation: {"WORTH_IT": 0},
    executor: {"COPIED_FAST": 16},
    fast_call: {"COPIED_FAST": 16, "_SMALL": 0, "_MOST_REJECTIONS": 0},
    padding: {"_LONG": 1, "MANY": 1, "_AHEAD": 1, "_COMPILATION": 1},
    runnable: {"_SAMPLED": 1},
    specialisation: {"_LARGE": 0},
    waiting: {"_FEW": 0},
    whole: {"_MOST": 1},
}


def lower_bounds() -> None:
    """Lower them for the rest of the process."""
    for module, bounds in LOWERED.items():
        for name, bound in bounds.items():
            setattr(module, name, bound)
