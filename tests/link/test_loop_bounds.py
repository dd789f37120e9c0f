"""Entries of a loop that do not exist: the exception of the Python linker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from tests.helpers import compile_both
from tests.link.test_dynamic_sizes import answer, assert_same

X, N, K = pt.dvector("x"), pt.lscalar("n"), pt.lscalar("k")
START = pt.zeros((), dtype="float64")
OVER = pytensor.scan(
    lambda a, s: s * 1.5 + a, sequences=[X], outputs_info=[START], return_updates=False
)
STEPS = pytensor.scan(lambda s: s * 1.5 + 1, outputs_info=[X[0]], n_steps=N, return_updates=False)
READ: dict[str, Any] = {
    "an entry": OVER[K],
    "its gradient": pt.grad(OVER[K], X),
    "an entry of n steps": STEPS[K],
    "the last of n steps": STEPS[-1],
    "all of n steps": STEPS * 1,
}


@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=str)
@pytest.mark.parametrize("name", READ)
def test_which_exception(name: str, options: dict[str, Any]) -> None:
    """`IndexError` for steps below zero, `ValueError` where a buffer has a negative length."""
    f, reference = compile_both([X, N, K], READ[name], JAXLinker(**options))
    for length, n, k in ((4, 3, 1), (4, 3, -5), (1, 3, -5), (4, -1, 0), (4, -2, 0), (1, 0, -4)):
        given = np.arange(1.0, length + 1), n, k
        assert_same(answer(f, given), answer(reference, given))
