"""A regression on the rows that have been observed.

Some measurements are missing, which the table writes as -999; others come in later. The model
itself drops the rows that are not complete, so the same model, and the same compiled function,
takes next week's table.

Data: 120 simulated rows with two predictors; a quarter of the responses and a tenth of the first
predictor are missing.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

MISSING = -999.0
rng = np.random.default_rng(3)
table = rng.normal(size=(120, 2))
response = 1.0 + table @ [1.5, -0.7] + rng.normal(0, 0.5, 120)
response[rng.uniform(size=120) < 0.25] = MISSING
table[rng.uniform(size=120) < 0.1, 0] = MISSING


def build():
    with pm.Model() as model:
        x, y = pm.Data("x", table), pm.Data("y", response)
        complete = pt.neq(y, MISSING) & pt.neq(x, MISSING).all(axis=1)
        intercept = pm.Normal("intercept", 0.0, 2.0)
        slopes = pm.Normal("slopes", 0.0, 2.0, shape=2)
        noise = pm.HalfNormal("noise", 1.0)
        mean = intercept + x[complete] @ slopes
        pm.Potential("rows", pm.logp(pm.Normal.dist(mean, noise), y[complete]).sum())
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "ten more responses are missing"


def change(model):
    later = response.copy()
    later[:10] = MISSING
    model.set_data("y", later)


def check(draws):
    assert np.allclose(draws["slopes"].mean(axis=0), [1.5, -0.7], atol=0.3)


def plot(axes, draws):
    for position, (name, truth) in enumerate((("first", 1.5), ("second", -0.7))):
        color = f"C{position}"
        axes.hist(draws["slopes"][:, position], bins=30, density=True, alpha=0.6, label=name)
        axes.axvline(truth, color=color, lw=1.5, ls="--")
    axes.set(xlabel="slope (dashed: the value that simulated the data)", ylabel="density")
    axes.legend()
