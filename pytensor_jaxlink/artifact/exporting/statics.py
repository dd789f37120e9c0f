"""Static values that a file gets code for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pytensor_jaxlink.lowering import Lowered
from pytensor_jaxlink.plan import HostStep, Region
from pytensor_jaxlink.runtime import hashable


def static_values(lowered: Lowered, given: Mapping[int, object]) -> dict[int, tuple[object, ...]]:
    """For each region whose static values follow from the given inputs, these values.

    Inputs are given by number, None for those that are not known.
    """
    known: dict[int, object] = {
        number: np.asarray(value) for number, value in given.items() if value is not None
    }
    known.update(lowered.constants)
    found: dict[int, tuple[object, ...]] = {}
    for step, function in zip(lowered.plan.steps, lowered.functions, strict=True):
        run: Any = function
        match step:
            case HostStep(_, arguments, results, folded=True):
                if all(number in known for number in arguments):
                    outputs = run(*(known[number] for number in arguments))
                    known.update(zip(results, outputs, strict=True))
            case Region(index, static) if all(number in known for number in static):
                found[index] = tuple(hashable(known[number]) for number in static)
    return found
