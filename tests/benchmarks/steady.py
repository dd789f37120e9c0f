"""The cost of a call when everything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import pytensor

from tests.benchmarks.measure import Effort, Timing, interleave
from tests.benchmarks.report import Table, duration, geometric_mean, times
from tests.benchmarks.small_models import SIZES, small_model
from tests.benchmarks.workload import Workload
from tests.benchmarks.workloads import WORKLOADS

BY_HAND, OURS, UPSTREAM, NUMBA = "by hand", "ours", '"JAX"', "NUMBA"
MODES = {OURS: "JAXSELECTIVE", UPSTREAM: "JAX", NUMBA: "NUMBA"}
NOT_RUN = "-"


def functions_of(workload: Workload, arguments: Sequence[Any]) -> dict[str, Callable[..., Any]]:
    """The hand-written function and the graph in each mode that runs it."""
    functions: dict[str, Callable[..., Any]] = {BY_HAND: jax.jit(workload.by_hand)}
    for name, mode in MODES.items():
        try:
            function = pytensor.function(workload.inputs, workload.outputs, mode=mode)
            function(*arguments)
        except (NotImplementedError, TypeError):
            # What mode "JAX" says of sizes that it cannot trace.  Ours has to run everything.
            if name == OURS:
                raise
            continue
        functions[name] = function
    return functions


def time_workload(workload: Workload, effort: Effort, *, on_device: bool) -> Timing:
    """All candidates side by side; NUMBA gets NumPy arrays in any case."""
    host = workload.arguments
    device = [jax.device_put(array) for array in host] if on_device else host
    actions = {}
    for name, function in functions_of(workload, host).items():
        arguments = host if name == NUMBA else device
        actions[name] = lambda f=function, a=arguments: f(*a)
    return interleave(actions, effort)


def _ratio(timing: Timing, name: str, reference: str) -> float:
    return timing.ratio(name, reference) if name in timing.rounds else np.nan


def _cells(ratios: Iterable[float]) -> list[str]:
    return [NOT_RUN if np.isnan(ratio) else times(ratio) for ratio in ratios]


def ten_workloads(effort: Effort, names: Sequence[str] = tuple(WORKLOADS)) -> Table:
    """Value and gradient, inputs on the device."""
    rows, found = [], []
    for name in names:
        timing = time_workload(WORKLOADS[name](), effort, on_device=True)
        found.append([_ratio(timing, candidate, BY_HAND) for candidate in MODES])
        rows.append((name, duration(timing.median(BY_HAND)), *_cells(found[-1])))
    means = [geometric_mean(column) for column in zip(*found, strict=True)]
    rows.append(("geometric mean", "", *_cells(means)))
    return Table(
        "Steady state",
        "Ten workloads, value and gradient, with inputs on the device: hand-written `jax.jit`, and "
        f"ratios to it. {NOT_RUN}: does not run in this mode; its mean is over the others.",
        ("workload", BY_HAND, *MODES),
        tuple(rows),
    )


def small_densities(
    effort: Effort, sizes: Sequence[tuple[int, int]] = SIZES
) -> tuple[Table, list[tuple[int, int, Timing]]]:
    """Log densities of PyMC's size, and the timings for the plot."""
    timings = [
        (nodes, data, time_workload(small_model(nodes, data), effort, on_device=False))
        for nodes, data in sizes
    ]
    candidates = (OURS, UPSTREAM, BY_HAND)
    found = [[_ratio(timing, name, NUMBA) for name in candidates] for *_, timing in timings]
    rows = [
        (f"{nodes} nodes, {data} data", duration(timing.median(NUMBA)), *_cells(ratios))
        for (nodes, data, timing), ratios in zip(timings, found, strict=True)
    ]
    rows.append(("median", "", *_cells(np.nanmedian(found, axis=0))))
    table = Table(
        "Small log densities",
        "Value and gradient of models as PyMC makes them: one NumPy vector in, data as constants. "
        "NUMBA's time, and ratios to it; by hand is a bare `jax.jit`.",
        ("model", NUMBA, OURS, UPSTREAM, BY_HAND),
        tuple(rows),
    )
    return table, timings
