"""An example: its script, its sampling, and its comparison with other modes."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import pytensor_jaxlink  # noqa: F401 -- registers the mode

FOLDER = Path(__file__).parent
NAMES = (
    "censored_survival",
    "change_point",
    "missing_data",
    "black_box_ode",
    "hard_mixture",
    "splines",
    "hsgp",
    "state_space",
)
OURS, OTHERS = "JAXSELECTIVE", ("NUMBA", "JAX")
_TURNS = 300


def load(name: str) -> ModuleType:
    """The script of an example, which knows itself by its path in the repository.

    So that path, and no folder of this machine, is in the explanations.
    """
    path = FOLDER / f"{name}.py"
    script = ModuleType(name)
    where = path.relative_to(FOLDER.parents[1])
    exec(compile(path.read_text(), str(where), "exec"), script.__dict__)
    return script


@dataclass
class Timing:
    """The times of one mode in seconds, or why it refuses.

    Attributes
    ----------
    first
        From the graph to the first result.
    changed
        The first call after a change that the example names.
    call
        A call, the median of many, taken in turns with the other modes.
    refusal
        The error, where there is one.
    """

    first: float = 0.0
    changed: float = 0.0
    call: float = 0.0
    refusal: str = ""


@dataclass
class Comparison:
    """The log density and its gradient under each mode, and our explanation."""

    timings: dict[str, Timing] = field(default_factory=dict)
    explanation: Any = None
    compilations: int = 0


def compare(script: ModuleType, turns: int = _TURNS) -> Comparison:
    """Compile the log density and its gradient under each mode, and take the times of the calls."""
    _load_libraries()
    found = Comparison()
    model = script.build()
    point = model.initial_point()
    outputs = [model.logp(), model.dlogp()]
    functions: dict[str, Callable[[], Any]] = {}
    values: dict[str, Any] = {}
    for mode in (*OTHERS, OURS):
        timing = found.timings[mode] = Timing()
        start = time.perf_counter()
        try:
            with _quiet():
                function = pytensor.function(
                    model.value_vars, outputs, mode=mode, on_unused_input="ignore"
                )
                values[mode] = _call(function, model, point)
        except Exception as error:  # whatever it is, it is what is shown
            timing.refusal = _reason(error)
            continue
        timing.first = time.perf_counter() - start
        functions[mode] = function
    _agree(values)
    _take_turns(functions, model, point, found.timings, turns)
    after = {**point, **(script.change(model) or {})}
    for mode, function in functions.items():
        start = time.perf_counter()
        values[mode] = _call(function, model, after)
        found.timings[mode].changed = time.perf_counter() - start
    _agree(values)
    ours: Any = functions[OURS]
    found.explanation = ours.explain()
    found.compilations = sum(ours.stats.compilations)
    return found


def sample(script: ModuleType, draws: int) -> dict[str, np.ndarray]:
    """The posterior draws of two chains of PyMC's sampler under this mode, one after the other."""
    with script.build(), _quiet():
        trace = pm.sample(
            draws=draws,
            tune=draws,
            chains=2,
            cores=1,
            random_seed=20,
            progressbar=False,
            compute_convergence_checks=False,
            compile_kwargs={"mode": OURS},
        )
    posterior: Any = trace.posterior
    return {
        name: np.concatenate(np.asarray(posterior[name])) for name in map(str, posterior.data_vars)
    }


def _call(function: Any, model: pm.Model, point: dict[str, Any]) -> Any:
    return jax.block_until_ready(function(*(point[v.name] for v in model.value_vars)))


def _take_turns(
    functions: dict[str, Any],
    model: pm.Model,
    point: dict[str, Any],
    timings: dict[str, Timing],
    turns: int,
) -> None:
    """Times of two runs differ by more than what is measured, so the modes take turns."""
    taken: dict[str, list[float]] = {mode: [] for mode in functions}
    for _ in range(turns):
        for mode, function in functions.items():
            start = time.perf_counter()
            _call(function, model, point)
            taken[mode].append(time.perf_counter() - start)
    for mode, seconds in taken.items():
        timings[mode].call = float(np.median(seconds))


def _agree(values: dict[str, Any]) -> None:
    for mode in OTHERS:
        for one, other in zip(values[OURS], values.get(mode, values[OURS]), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6, atol=1e-8)


def _load_libraries() -> None:
    """Import what the modes import, and compile something: that is not what is compared."""
    x = pt.dvector()
    with _quiet():
        for mode in (*OTHERS, OURS):
            pytensor.function([x], pt.exp(x), mode=mode)(np.ones(2))


def _reason(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return f"{type(error).__name__}: {first[:120]}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of PyMC and NUMBA on few draws, object mode and the like."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def without_kept_code(folder: str) -> dict[str, str]:
    """The environment of a process in which NUMBA finds nothing that an earlier one compiled."""
    flags = os.environ.get("PYTENSOR_FLAGS", "")
    return {**os.environ, "PYTENSOR_FLAGS": f"{flags},base_compiledir={folder}".lstrip(",")}
