"""Draws at the edges of what distributions take, against the Python linker."""

from __future__ import annotations

import pytest

from tests.edges import random


def test_every_distribution_has_a_case() -> None:
    cases = {*random.scalar_cases(), *(kind for kind, *_ in random.OTHERS.values())}
    host = {f"pymc.{name}" for name in random.HOST_ONLY}
    assert {*random.family()} - cases - host == {"pytensor.ScipyRandomVariable"}


# The others run by ``python -m tests.edges random``.
@pytest.mark.parametrize(
    "name", [name for name in random.scalar_cases() if name not in random.FULL_ONLY]
)
def test_scalar_parameters(name: str) -> None:
    assert random.differences(name) == []


@pytest.mark.parametrize("name", [name for name in random.OTHERS if name not in random.FULL_ONLY])
def test_other_parameters(name: str) -> None:
    assert random.differences_of_others(name) == []


@pytest.mark.parametrize("name", ["NormalRV", "BernoulliRV", "IntegersRV"])
def test_sizes(name: str) -> None:
    assert random.differences_of_sizes(f"pytensor.{name}") == []


@pytest.mark.parametrize("name", ["BinomialRV", "HyperGeometricRV"])
def test_arrays(name: str) -> None:
    assert random.differences_of_arrays(f"pytensor.{name}") == []
