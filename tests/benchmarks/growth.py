"""What adds up over many calls: compilations, and copies of a state."""

from __future__ import annotations

import gc
import inspect
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt

from pytensor_jaxlink import JAXLinker
from tests.benchmarks.fresh import forget_peak, fresh, resident
from tests.benchmarks.measure import Effort, interleave, seconds
from tests.benchmarks.report import Table, duration, times

STATE = 2_000_000  # float64: 16 MB
UPDATES = 200
PAUSE = 0.002
DONATED, COPIED = "by hand, donated", "by hand, not donated"
Stepper = tuple[Callable[[], Any], Callable[[], None]]


ONE_LENGTH, FROM_THE_START = "ours, one length", "ours, dynamic=True"
Lengths = tuple[list[Any], list[Any], Callable[[np.random.Generator, int], list[np.ndarray]]]


def _one_vector() -> Lengths:
    x = pt.dvector("x")
    logp = (-0.5 * (x - x.mean()) ** 2 - pt.exp(-x)).sum()
    return [x], [logp, pt.grad(logp, x)], lambda rng, length: [rng.normal(size=length)]


def _regression_with_groups(groups: int = 10) -> Lengths:
    """Two vectors of data and the numbers of the groups, all of the length that changes."""
    intercepts, slope, log_sigma = pt.dvector("intercepts"), pt.dscalar("slope"), pt.dscalar("s")
    x, y, group = pt.dvector("x"), pt.dvector("y"), pt.lvector("group")
    residual = (y - intercepts[group] - slope * x) / pt.exp(log_sigma)
    prior = (intercepts**2).sum() + slope**2 + log_sigma**2
    logp = (-0.5 * residual**2 - log_sigma).sum() - 0.5 * prior
    parameters = [intercepts, slope, log_sigma]

    def arguments(rng: np.random.Generator, length: int) -> list[np.ndarray]:
        data = [rng.normal(size=length), rng.normal(size=length)]
        return [
            np.ones(groups),
            np.ones(()),
            np.zeros(()),
            *data,
            rng.integers(groups, size=length),
        ]

    return [*parameters, x, y, group], [logp, *pytensor.grad(logp, parameters)], arguments


def many_lengths(calls: int = 1_000) -> Table:
    """Arguments of as many lengths as there are calls."""
    models = {"one vector": _one_vector(), "regression with groups": _regression_with_groups()}
    rows = [row for name, model in models.items() for row in _many_lengths(name, model, calls)]
    return Table(
        "Many lengths",
        f"{calls:,} calls with {calls:,} lengths: log density and gradient, once of one vector, "
        "once of a regression with two vectors of data and the numbers of the groups. Compiling "
        "counts as part of the call that causes it. One length: as many calls of the mean length.",
        ("", "", "build", "all calls", "/ NUMBA", "/ one length", "compilations", "warnings"),
        tuple(rows),
    )


def _many_lengths(name: str, model: Lengths, calls: int) -> list[tuple[str, ...]]:
    inputs, outputs, arguments = model
    build: dict[str, Any] = {
        ONE_LENGTH: "JAXSELECTIVE",
        "ours": "JAXSELECTIVE",
        FROM_THE_START: JAXLinker(dynamic=True),
        "NUMBA": "NUMBA",
    }
    functions: dict[str, Any] = {}
    building = {}
    # NUMBA would find on disk what it compiled yesterday.
    with pytensor.config.change_flags(numba__cache=False):
        for each, mode in build.items():
            start = time.perf_counter()
            functions[each] = pytensor.function(inputs, outputs, mode=mode)
            building[each] = time.perf_counter() - start
    rng = np.random.default_rng(0)
    values = [arguments(rng, length) for length in rng.permutation(calls) + 1]
    mean = arguments(rng, calls // 2)
    total: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        for changing in values:
            for each, function in functions.items():
                given = mean if each == ONE_LENGTH else changing
                total[each] += seconds(lambda f=function, a=given: jax.block_until_ready(f(*a)))
    warned = sum(warning.category.__name__ == "JAXLinkWarning" for warning in raised)
    counts = {}
    for each in ("ours", FROM_THE_START):
        stats = functions[each].stats
        padded = [] if stats.padded is None else stats.padded.compilations
        counts[each] = str([*stats.compilations, *padded]), str(warned)
    return [
        (
            name,
            each,
            duration(building[each]),
            duration(total[each]),
            times(total[each] / total["NUMBA"]),
            times(total[each] / total[ONE_LENGTH]),
            *counts.get(each, ("[1]", "0")),
        )
        for each in functions
    ]


def steppers() -> dict[str, Callable[[], Stepper]]:
    """Ways to update a state; each gives a step and how to let go of the state."""
    choices = {"ours": {}}
    # Donation came later than this benchmark's first version; without it there is one of ours.
    if "donate" in inspect.signature(JAXLinker).parameters:
        choices = {f'ours, donate="{choice}"': {"donate": choice} for choice in ("updates", "none")}
    found: dict[str, Callable[[], Stepper]] = {
        DONATED: lambda: _by_hand((0,)),
        COPIED: lambda: _by_hand(()),
    }
    for name, options in choices.items():
        found[name] = lambda options=options: _shared(options)
    return found


def _by_hand(donated: tuple[int, ...]) -> Stepper:
    step = jax.jit(lambda state, x: state * 0.999 + x, donate_argnums=donated)
    held = [jax.device_put(np.zeros(STATE))]
    x = np.array(0.1)

    def run() -> Any:
        held[0] = step(held[0], x)
        return held[0]

    return run, held.clear


def _shared(options: dict[str, Any]) -> Stepper:
    state, x = pytensor.shared(np.zeros(STATE)), pt.dscalar("x")
    linker: Any = JAXLinker(**options)
    held = [pytensor.function([x], [], updates={state: state * 0.999 + x}, mode=linker)]
    value = np.array(0.1)

    def run() -> Any:
        held[0](value)
        return state.get_value(borrow=True, return_internal_type=True)

    def free() -> None:
        held.clear()
        state.set_value(np.zeros(1), borrow=True)

    return run, free


def peak_of_updates(name: str) -> dict[str, float]:
    """How many copies of the state the process held at most, while the state was updated.

    What the process holds without the state is measured afterwards.  XLA frees on threads of its
    own: without a pause there would be as many copies as these are behind.
    """
    run, free = steppers()[name]()
    for _ in range(3):
        jax.block_until_ready(run())
    forget_peak()
    for _ in range(UPDATES):
        jax.block_until_ready(run())
        time.sleep(PAUSE)
    peak = resident("VmHWM")
    free()
    del run, free
    gc.collect()
    return {"copies": (peak - resident()) / (8 * STATE)}


def large_state() -> Table:
    """A shared variable of 16 MB, updated again and again."""
    found = steppers()
    runs = {name: make()[0] for name, make in found.items()}
    # Each round is one update of each.
    timing = interleave(runs, Effort(rounds=UPDATES, seconds=0))
    rows = [
        (
            name,
            duration(timing.median(name)),
            times(timing.ratio(name, DONATED)),
            f"{fresh('state', name)['copies']:.1f}",
        )
        for name in found
    ]
    return Table(
        "A large state",
        f"{UPDATES} updates of 16 MB of shared state, and the most copies of it that were in "
        "memory at a time (in a process for each).",
        ("", "an update", "/ donated", "copies"),
        tuple(rows),
    )
