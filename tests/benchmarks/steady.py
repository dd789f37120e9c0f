"""The cost of a call when everything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytensor

from tests.benchmarks.measure import Effort, Timing, interleave
from tests.benchmarks.report import Table, duration, geometric_mean, times
from tests.benchmarks.small_models import MODELS, small_model
from tests.benchmarks.workload import Workload
from tests.benchmarks.workloads import WORKLOADS

BY_HAND, OURS, UPSTREAM, NUMBA = "by hand", "ours", '"JAX"', "NUMBA"
MODES = {OURS: "JAXSELECTIVE", UPSTREAM: "JAX", NUMBA: "NUMBA"}
FLOOR, TRACED = "x + 1", "`jax.jit(f.jax_fn)`"
SMALL = (OURS, UPSTREAM, BY_HAND, FLOOR)
NOT_RUN = "-"
SETTLE = 0.03


def functions_of(workload: Workload, *, trust_input: bool) -> dict[str, Callable[..., Any]]:
    """The hand-written function and the graph in each mode that runs it."""
    functions: dict[str, Callable[..., Any]] = {BY_HAND: jax.jit(workload.by_hand)}
    for name, mode in MODES.items():
        try:
            function = pytensor.function(workload.inputs, workload.outputs, mode=mode)
            function.trust_input = trust_input
            function(*workload.arguments)
        except (NotImplementedError, TypeError):
            # What mode "JAX" says of sizes that it cannot trace.  Ours has to run everything.
            if name == OURS:
                raise
            continue
        functions[name] = function
    return functions


def actions_of(
    workload: Workload, *, on_device: bool = False, trust_input: bool = False
) -> dict[str, Callable[[], Any]]:
    """A call of each candidate; NUMBA gets NumPy arrays in any case."""
    host = workload.arguments
    device = [jax.device_put(array) for array in host] if on_device else host
    functions = functions_of(workload, trust_input=trust_input)
    return {
        name: lambda f=function, a=host if name == NUMBA else device: f(*a)
        for name, function in functions.items()
    }


def _ratio(timing: Timing, name: str, reference: str) -> float:
    return timing.ratio(name, reference) if name in timing.rounds else np.nan


def _cells(ratios: Iterable[float]) -> list[str]:
    return [NOT_RUN if np.isnan(ratio) else times(ratio) for ratio in ratios]


def ten_workloads(effort: Effort, names: Sequence[str] = tuple(WORKLOADS)) -> Table:
    """Value and gradient, inputs on the device."""
    rows, found = [], []
    for name in names:
        workload = WORKLOADS[name]()
        actions = actions_of(workload, on_device=True) | traced_by_the_user(workload)
        # Apart, because of its threads.
        pair = {BY_HAND: actions[BY_HAND], NUMBA: actions.pop(NUMBA)}
        timing = interleave(actions, effort)
        numba = interleave(pair, replace(effort, settle=SETTLE)).ratio(NUMBA, BY_HAND)
        found.append([*(_ratio(timing, c, BY_HAND) for c in (OURS, TRACED, UPSTREAM)), numba])
        rows.append((name, duration(timing.median(BY_HAND)), *_cells(found[-1])))
    means = [geometric_mean(column) for column in zip(*found, strict=True)]
    rows.append(("geometric mean", "", *_cells(means)))
    return Table(
        "Steady state",
        "Ten workloads, value and gradient, with inputs on the device: hand-written `jax.jit`, and "
        f"ratios to it. {NOT_RUN}: does not run in this mode; its mean is over the others.",
        ("workload", BY_HAND, OURS, TRACED, UPSTREAM, NUMBA),
        tuple(rows),
    )


def traced_by_the_user(workload: Workload) -> dict[str, Callable[[], Any]]:
    """A call of what the user's own `jax.jit` makes of our function."""
    function = pytensor.function(workload.inputs, workload.outputs, mode=MODES[OURS])
    jitted = jax.jit(function.jax_fn)
    given = [jax.device_put(array) for array in workload.arguments]
    return {TRACED: lambda: jitted(*given)}


def _with_floor(workload: Workload) -> dict[str, Callable[[], Any]]:
    """The candidates, and what JAX takes for any call with such an argument."""
    nothing = jax.jit(lambda vector: vector + 1)
    [vector] = workload.arguments
    return {**actions_of(workload, trust_input=True), FLOOR: lambda: nothing(vector)}


def small_densities(effort: Effort, models: Sequence[tuple[int, int, str]] = MODELS) -> Table:
    """Log densities of PyMC's size, called as PyMC calls them."""
    workloads = [small_model(*model) for model in models]
    timings = [interleave(_with_floor(w), effort) for w in workloads]
    found = [[_ratio(timing, name, NUMBA) for name in SMALL] for timing in timings]
    rows = [
        (workload.name, duration(timing.median(NUMBA)), *_cells(ratios))
        for workload, timing, ratios in zip(workloads, timings, found, strict=True)
    ]
    rows.append(("median", "", *_cells(np.nanmedian(found, axis=0))))
    return Table(
        "Small log densities",
        "Value and gradient of models as PyMC makes them: one NumPy vector in, data as constants, "
        "`trust_input`. NUMBA's time, and ratios to it; by hand is a bare `jax.jit`. XLA hands "
        "parts of such a graph to its threads, and waking one takes longer than computing: with "
        "more than one core, by hand too, these times jump between multiples of that. The last "
        "column is a bare jitted `x + 1` of the same vector: no call of JAX is faster than that.",
        ("model", NUMBA, *SMALL),
        tuple(rows),
    )


TOGETHER = 16
"""Calls that nobody waits for before the last of them."""


def pymc_densities(effort: Effort, names: Sequence[str] = ()) -> Table:
    """Joint log densities of PyMC models with their gradients, beside mode "JAX"."""
    head = (UPSTREAM, "waited", "not waited", "jax.Array: waited", "jax.Array: not waited")
    title = "PyMC models"
    try:
        from tests.benchmarks.pymc_models import MODELS, pymc_model
    except ModuleNotFoundError as missing:
        needs = "Needs PyMC: `pip install 'pytensor_jaxlink[pymc]'`."
        return Table(title, f"{needs} ({missing})", ("model", *head), ())
    rows, found = [], []
    for name in names or MODELS:
        timings = [interleave(turn, effort) for turn in _pymc_turns(pymc_model(name))]
        found.append([timing.ratio(OURS, UPSTREAM) for timing in timings])
        rows.append((name, duration(timings[0].median(UPSTREAM)), *_cells(found[-1])))
    rows.append(("median", "", *_cells(np.median(found, axis=0))))
    return Table(
        title,
        'Joint log density and gradient, one input a variable. The time of mode "JAX" with NumPy '
        "arrays, waited for, and the ratios of ours to it: with NumPy arrays and with arrays of "
        f"JAX, each call waited for, and {TOGETHER} calls before the first is waited for. "
        "`pymc.compile` makes both functions: where a parameter is not valid, both give -inf.",
        ("model", *head),
        tuple(rows),
    )


def _pymc_turns(model: Any) -> list[dict[str, Callable[[], Any]]]:
    """The calls of both modes: with NumPy arrays and arrays of JAX, waited for or not."""
    import pymc

    logp, variables = model.logp(), model.value_vars
    outputs = [logp, *pytensor.grad(logp, model.continuous_value_vars)]
    functions = {
        name: pymc.compile(variables, outputs, mode=MODES[name]) for name in (OURS, UPSTREAM)
    }
    start = model.initial_point(0)
    arrays = [np.asarray(start[v.name], dtype=v.dtype) for v in variables]
    turns = []
    for given in (arrays, [jax.device_put(array) for array in arrays]):
        for function in functions.values():  # until what is waited for has been noticed
            jax.block_until_ready([function(*given) for _ in range(300)])
        once = {name: lambda f=f, g=given: f(*g) for name, f in functions.items()}
        many = {n: lambda c=call: [c() for _ in range(TOGETHER)] for n, call in once.items()}
        turns += [once, many]
    return turns
