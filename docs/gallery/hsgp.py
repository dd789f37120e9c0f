"""A Gaussian process, by its Hilbert-space approximation, with a gap left out.

How well does it interpolate? A window of the data is hidden from the likelihood, and the window is
data: it moves along the curve without another compilation.

Data: 150 simulated points of a smooth curve; hidden at first: those within 0.6 of x = 5.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

rng = np.random.default_rng(7)
inputs = np.linspace(0, 10, 150)
smooth = np.sin(inputs)
noisy = smooth + rng.normal(0, 0.3, 150)


def build():
    with pm.Model() as model:
        x, y = pm.Data("x", inputs), pm.Data("y", noisy)
        middle = pm.Data("middle", np.array(5.0))
        scale = pm.LogNormal("scale", 0.4, 0.2)
        height = pm.LogNormal("height", 0.0, 0.3)
        kernel = height**2 * pm.gp.cov.ExpQuad(1, ls=scale)
        process = pm.gp.HSGP(m=[16], c=1.5, cov_func=kernel, parametrization="centered")
        f = process.prior("f", X=inputs[:, None])
        noise = pm.HalfNormal("noise", 1.0)
        kept = pt.abs(x - middle) > 0.6
        pm.Potential("kept", pm.logp(pm.Normal.dist(f[kept], noise), y[kept]).sum())
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "another window"


def change(model):
    model.set_data("middle", np.array(7.0))


def check(draws):
    assert abs(draws["noise"].mean() - 0.3) < 0.1


def plot(axes, draws):
    hidden = np.abs(inputs - 5.0) <= 0.6
    low, middle, high = np.quantile(draws["f"], [0.05, 0.5, 0.95], axis=0)
    axes.plot(inputs[~hidden], noisy[~hidden], ".", ms=4, color="0.5", label="seen")
    axes.plot(inputs[hidden], noisy[hidden], "x", ms=4, color="C3", label="hidden")
    axes.plot(inputs, middle, color="C0", label="median")
    axes.fill_between(inputs, low, high, color="C0", alpha=0.25, lw=0, label="90 %")
    axes.set(xlabel="x", ylabel="y")
    axes.legend()
