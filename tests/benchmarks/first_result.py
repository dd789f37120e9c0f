"""The time until the first result is there, each in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile import maker

from tests.benchmarks.fresh import fresh
from tests.benchmarks.report import Table, duration, times
from tests.benchmarks.workloads import WORKLOADS

BY_HAND, CLOSURE, ARGUMENT = "by hand", "closure", "argument"
MODES = {"ours": "JAXSELECTIVE", '"JAX"': "JAX"}
LARGE = 20_000_000


def _warm_up() -> None:
    """What a process pays once, for whatever it compiles first."""
    x = pt.dvector("x")
    for mode in MODES.values():
        jax.block_until_ready(pytensor.function([x], pt.exp(x), mode=mode)(np.zeros(2)))


def _timed(build: Callable[[], Callable[..., Any]], *arguments: Any) -> dict[str, float]:
    """Seconds to build a function, of its first and its second call, and of rewriting."""
    rewriting = maker.compile_profiling.total_graph_rewrite_time
    marks = [time.perf_counter()]
    function = build()
    for _ in range(2):
        marks.append(time.perf_counter())
        jax.block_until_ready(function(*arguments))
    marks.append(time.perf_counter())
    found = dict(zip(("build", "first", "second"), np.diff(marks).tolist(), strict=True))
    rewriting = maker.compile_profiling.total_graph_rewrite_time - rewriting
    return found | {"total": found["build"] + found["first"], "rewriting": rewriting}


def first_result(name: str, candidate: str) -> dict[str, float]:
    """One workload, by hand or in a mode; the graph and its gradient are there already."""
    workload = WORKLOADS[name]()
    arguments = [jax.device_put(array) for array in workload.arguments]
    _warm_up()

    def build() -> Callable[..., Any]:
        if candidate == BY_HAND:
            return jax.jit(workload.by_hand)
        return pytensor.function(workload.inputs, workload.outputs, mode=MODES[candidate])

    try:
        return _timed(build, *arguments)
    except (NotImplementedError, TypeError):
        if candidate == "ours":
            raise
        return {}  # mode "JAX" cannot run it


def first_with_constant(candidate: str, size: str) -> dict[str, float]:
    """A large constant under ``exp``."""
    constant = np.random.default_rng(0).normal(size=int(size))
    _warm_up()

    def build() -> Callable[..., Any]:
        if candidate == CLOSURE:
            return jax.jit(lambda x: ((jnp.exp(constant) - x) ** 2).sum())
        if candidate == ARGUMENT:
            compiled = jax.jit(lambda x, data: ((jnp.exp(data) - x) ** 2).sum())
            on_device = jax.device_put(constant)
            return lambda x: compiled(x, on_device)
        x = pt.dscalar("x")
        distance = ((pt.exp(constant) - x) ** 2).sum()
        return pytensor.function([x], distance, mode=MODES[candidate])

    return _timed(build, np.array(0.5))


def first_results(repetitions: int, names: Sequence[str] = tuple(WORKLOADS)) -> Table:
    """The workloads; the median of some processes each, which take turns."""
    rows = []
    for name in names:
        found: dict[str, list[dict[str, float]]] = {c: [] for c in (BY_HAND, *MODES)}
        for _ in range(repetitions):
            for candidate, results in found.items():
                results.append(fresh("workload", name, candidate))
        reference = _median(found[BY_HAND], "total")
        row = [name, duration(reference)]
        for candidate in MODES:
            if not all(found[candidate]):
                row += ["-", "-", "-"]
                continue
            total, rewriting = (_median(found[candidate], k) for k in ("total", "rewriting"))
            row += [duration(total), duration(rewriting), times((total - rewriting) / reference)]
        rows.append(tuple(row))
    columns = [
        f"{mode}: {column}"
        for mode in MODES
        for column in ("total", "rewriting", "(total - rewriting) / by hand")
    ]
    return Table(
        "Time to the first result",
        "From a function or graph to its first result, in a fresh process in which something small "
        "was compiled before; data are arguments. Rewriting is PyTensor's, whichever the mode.",
        ("workload", BY_HAND, *columns),
        tuple(rows),
    )


def _median(results: Sequence[dict[str, float]], key: str) -> float:
    return float(np.median([result[key] for result in results]))


def large_constant(size: int = LARGE) -> Table:
    """The large constant: ours, upstream's, and by hand closed over and as an argument."""
    candidates = (*MODES, CLOSURE, ARGUMENT)
    found = {candidate: fresh("constant", candidate, str(size)) for candidate in candidates}
    reference = found["ours"]
    rows = [
        (
            candidate,
            *(duration(result[key]) for key in ("build", "first", "second")),
            times(result["first"] / reference["first"]),
            times(result["total"] / reference["total"]),
        )
        for candidate, result in found.items()
    ]
    return Table(
        "A large constant",
        f"`((exp(c) - x) ** 2).sum()` with {size:,} elements in `c`, which is a constant of the "
        "graph, is closed over by a jitted function, or is its argument.",
        ("", "build", "first call", "second call", "first call / ours", "build + first / ours"),
        tuple(rows),
    )
