"""The benchmarks compute what they are compared with.

``pytest tests/benchmarks --benchmark-enable --benchmark-only`` times them; without the options each
runs once, and is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytensor
import pytest

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from tests.benchmarks.workloads import WORKLOADS


@pytest.fixture(autouse=True)
def _64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name: str, benchmark: Any) -> None:
    workload = WORKLOADS[name]()
    assert workload.name == name
    function = pytensor.function(workload.inputs, workload.outputs, mode="JAXSELECTIVE")
    arguments = [jax.device_put(argument) for argument in workload.arguments]
    found = benchmark(lambda: jax.block_until_ready(function(*arguments)))
    expected = jax.tree.leaves(jax.jit(workload.by_hand)(*arguments))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    assert function.explain().graph_break_count == 0
    assert len(function.plan.regions) == 1
