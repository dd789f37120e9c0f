"""The change point of `coal_mining` as a PyMC model, which PyMC samples under this mode.

Masks that depend on a parameter select the years before and after the change point ``tau``, so
PyTensor's mode "JAX" refuses the model.  Here the masks become ``where``, and PyMC's own sampler
runs one compiled function for all change points.

It is the end of ``make demo`` where PyMC is installed (the extra `pymc`).
"""

from __future__ import annotations

import logging
import time
import warnings
from pathlib import Path

import numpy as np
import pymc as pm

import pytensor_jaxlink  # noqa: F401 -- registers the mode

DATA = Path(__file__).with_name("coal_mining.csv")
DRAWS = 500


def build(years: np.ndarray, counts: np.ndarray) -> pm.Model:
    """Two rates and the year in which the second one begins."""
    with pm.Model() as model:
        early = pm.Exponential("early", 1.0)
        late = pm.Exponential("late", 1.0)
        tau = pm.DiscreteUniform("tau", int(years[0]) + 1, int(years[-1]))
        year, y = pm.Data("year", years.astype("float64")), pm.Data("y", counts)
        before, after = y[year < tau], y[year >= tau]
        pm.Potential("before", pm.logp(pm.Poisson.dist(early), before).sum())
        pm.Potential("after", pm.logp(pm.Poisson.dist(late), after).sum())
    return model


def refusal(model: pm.Model) -> str:
    """The error of PyTensor's own JAX mode for the log density."""
    try:
        model.compile_logp(mode="JAX")(model.initial_point())
    except Exception as error:  # whatever it is, it is what is shown
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "no error"


def main() -> None:
    """Print the plan and the posterior."""
    table = np.loadtxt(DATA, delimiter=",", skiprows=3, dtype=int)
    model = build(table[:, 0], table[:, 1].astype("float64"))
    print(f'mode="JAX": {refusal(model)}')
    print(model.compile_logp(mode="JAXSELECTIVE").f.explain())
    logging.getLogger("pymc").setLevel(logging.ERROR)
    start = time.perf_counter()
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two short chains are enough for a demonstration
        trace = pm.sample(
            DRAWS, tune=DRAWS, chains=2, cores=1, random_seed=1851, progressbar=False,
            compute_convergence_checks=False, compile_kwargs={"mode": "JAXSELECTIVE"},
        )  # fmt: skip
    took = time.perf_counter() - start
    early, late, tau = (float(trace.posterior[name].mean()) for name in ("early", "late", "tau"))
    print(
        f"pm.sample: 2 chains of {DRAWS} + {DRAWS} draws in {took:.1f} s; "
        f"{early:.2f} disasters a year before {tau:.0f}, {late:.2f} after"
    )
    assert 1885 < tau < 1897
    assert early > 2 * late


if __name__ == "__main__":
    main()
