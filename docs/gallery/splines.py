"""A spline with the number of its knots as data.

The basis is computed in the graph, hat functions on evenly spaced knots, and the weights follow a
random walk. The number of knots is a `pm.Data`, so the smoothness is tried out with one model and
without building it again. It is a size that is compiled for once and is data from its second value
on: one program serves all others.

Data: 120 simulated points of a bent curve.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

rng = np.random.default_rng(6)
position = np.sort(rng.uniform(0, 1, 120))
bent = np.sin(6 * position) + 0.5 * np.sin(14 * position) + rng.normal(0, 0.25, 120)


def build():
    with pm.Model() as model:
        count = pm.Data("count", np.array(12))
        x, y = pm.Data("x", position), pm.Data("y", bent)
        knots = pt.arange(count) / (count - 1)
        basis = pt.maximum(0, 1 - pt.abs(x[:, None] - knots) * (count - 1))
        size = pm.HalfNormal("size", 1.0)
        steps = pm.Normal("steps", 0.0, size, shape=count)
        weights = pm.Deterministic("weights", steps.cumsum())
        noise = pm.HalfNormal("noise", 1.0)
        pm.Normal("seen", (basis * weights).sum(axis=1), noise, observed=y)
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "16 knots instead of 12"


def change(model):
    model.set_data("count", np.array(16))
    return {"steps": np.zeros(16)}


def check(draws):
    assert abs(draws["noise"].mean() - 0.25) < 0.1


def plot(axes, draws):
    count = draws["weights"].shape[1]
    fine = np.linspace(0, 1, 120)
    basis = np.maximum(0, 1 - np.abs(fine[:, None] - np.linspace(0, 1, count)) * (count - 1))
    low, middle, high = np.quantile(draws["weights"] @ basis.T, [0.05, 0.5, 0.95], axis=0)
    axes.plot(position, bent, ".", ms=4, color="0.5", label="data")
    axes.plot(fine, middle, label="median")
    axes.fill_between(fine, low, high, alpha=0.25, lw=0, label="90 %")
    axes.set(xlabel="x", ylabel="y")
    axes.legend()
