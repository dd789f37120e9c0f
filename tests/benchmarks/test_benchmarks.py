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
from tests.benchmarks import files
from tests.benchmarks.calls import LENGTH, REFERENCE, adders, host_steps, other_calls
from tests.benchmarks.growth import steppers
from tests.benchmarks.small_models import MODELS, small_model
from tests.benchmarks.workload import Workload
from tests.benchmarks.workloads import WORKLOADS
from tests.edges.known import OLD

pytestmark = pytest.mark.skipif(OLD, reason="speed is judged on the newest stack")


@pytest.fixture(autouse=True)
def _64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def check(workload: Workload, arguments: list[Any], benchmark: Any) -> Any:
    function = pytensor.function(workload.inputs, workload.outputs, mode="JAXSELECTIVE")
    found = benchmark(lambda: jax.block_until_ready(function(*arguments)))
    expected = jax.tree.leaves(jax.jit(workload.by_hand)(*arguments))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    assert len(function.plan.regions) == 1
    assert function.explain().graph_break_count == 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name: str, benchmark: Any) -> None:
    workload = WORKLOADS[name]()
    assert workload.name == name
    check(workload, [jax.device_put(argument) for argument in workload.arguments], benchmark)


@pytest.mark.parametrize("model", [model for model in MODELS if model[0] < 200], ids=str)
def test_small_model(model: tuple[int, int, str], benchmark: Any) -> None:
    workload = small_model(*model)
    check(workload, list(workload.arguments), benchmark)


@pytest.mark.parametrize("on_device", [False, True], ids=["numpy", "jax"])
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("name", [REFERENCE, "ours"])
def test_call(name: str, count: int, on_device: bool, benchmark: Any) -> None:
    arguments: list[Any] = [np.arange(LENGTH) + float(k) for k in range(count)]
    expected = 2 * sum(arguments)
    if on_device:
        arguments = [jax.device_put(argument) for argument in arguments]
    function = adders(count)[name]
    found = benchmark(lambda: jax.block_until_ready(function(*arguments)))
    np.testing.assert_allclose(found, expected)


def test_calls_with_more() -> None:
    for by_hand, ours in other_calls().values():
        for _ in range(3):
            np.testing.assert_allclose(ours(), by_hand())


@pytest.mark.parametrize("name", ["split by hand", "ours", "pure_callback"])
def test_host_step(name: str, benchmark: Any) -> None:
    functions, argument = host_steps(100)
    found = benchmark(lambda: jax.block_until_ready(functions[name](argument)))
    np.testing.assert_allclose(found, functions["split by hand"](argument))


@pytest.mark.parametrize("name", steppers())
def test_update(name: str, benchmark: Any) -> None:
    run, free = steppers()[name]()
    jax.block_until_ready(run())
    state = benchmark.pedantic(lambda: jax.block_until_ready(run()))
    np.testing.assert_allclose(state[:2], 0.1 * 0.999 + 0.1)
    free()


def test_small_functions_cross_few_files() -> None:
    """`python -m tests.benchmarks.files --files` lists them."""
    most = {"build": 25, "save, load and call": 45, "warm call": 1}
    found = files.measured()
    files_of = {name: len(crossing.files) for name, crossing in found.items()}
    assert all(files_of[name] <= bound for name, bound in most.items()), files_of
    assert all(files_of[name] > bound // 2 for name, bound in most.items()), "lower the bounds"
    assert found["warm call"].files.total() == 1
