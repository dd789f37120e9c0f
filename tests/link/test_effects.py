"""Ops of the user's run as seldom as they can where a call fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.compat import ifelse
from tests.helpers import black_box

X, N = pt.dvector("x"), pt.lscalar("n")


def counted() -> tuple[Any, list[int]]:
    runs: list[int] = []

    def noted(values: np.ndarray) -> np.ndarray:
        runs.append(1)
        if values[0] < 0:
            raise KeyError("negative")
        return values + 1

    return black_box(noted), runs


def test_an_exception_of_its_own_ends_the_call() -> None:
    box, runs = counted()
    f = pytensor.function([X, N], [box(pt.exp(X) - 2), X[N]], mode=JAXLinker())
    with pytest.raises(KeyError):
        f(np.array([-5.0, 1.0]), 7)
    assert len(runs) == 1


@pytest.mark.parametrize("dynamic", ["auto", False])
def test_the_fallback_runs_it_once(dynamic: Any) -> None:
    box, runs = counted()
    y = ifelse(N > 5, box(pt.exp(X)).sum() + X[N], X.sum())
    f = pytensor.function([X, N], y, mode=JAXLinker(dynamic=dynamic))
    f(np.ones(8), 6)
    runs.clear()
    with pytest.raises(IndexError):
        f(np.ones(8), 9)
    assert len(runs) == 1  # in the plan: in the fallback the index comes first


def test_the_exception_of_another_operation() -> None:
    """The fallback does not look for the operation that raises first in the Python linker."""
    box, runs = counted()
    f = pytensor.function([X, N], [box(pt.exp(X)) - 2, X[N]], mode=JAXLinker())
    for _ in range(2):
        f(np.ones(8), 6)
    runs.clear()
    with pytest.raises(IndexError):
        f(np.ones(8), 9)
    assert len(runs) == 1
