"""Every value that the host needs has a way to get there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from tests.helpers import black_box, check_against_python

CASES: dict[str, Any] = {
    "distinct": lambda values, x: x[: pt.unique(values).shape[0]],
    "gradient": lambda values, x: pt.grad((x[: pt.unique(values).shape[0]] ** 2).sum(), x),
    "arange": lambda values, x: pt.arange(pt.unique(values).shape[0]) * 2,
}


@pytest.mark.parametrize("name", CASES)
def test_a_size_computed_in_a_region_from_integers_of_a_host_step(name: str) -> None:
    """The size is integer arithmetic, which the host could do if it had all the arrays."""
    numbers, x = pt.lvector("numbers"), pt.dvector("x")
    sort, start = black_box(np.sort), pt.cast(numbers, "float64")
    last = pytensor.scan(sort, outputs_info=[start], n_steps=2, return_updates=False)[-1]
    outputs = CASES[name](last, x)
    calls = [(np.array(given), np.arange(5.0)) for given in ([2, 1, 2], [1], [4, 3, 2, 1])]
    check_against_python([numbers, x], outputs, *calls)
