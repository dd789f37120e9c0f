"""Survival times of which some are only known to be longer.

Patients who are alive at the end of a study have a *censored* time: they contribute the probability
to live longer, the others the density of their time. Which is which is data, because the study goes
on, so both groups are selected by a mask of a `pm.Data`.

Data: 200 simulated Weibull times, two groups, stopped at 10 months.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

rng = np.random.default_rng(1)
treated = np.repeat([0.0, 1.0], 100)
lifetimes = np.exp(1.5 + 0.8 * treated) * rng.weibull(1.4, 200)
STOP = 10.0


def build():
    with pm.Model() as model:
        times = pm.Data("times", np.minimum(lifetimes, STOP))
        died = pm.Data("died", (lifetimes < STOP).astype("float64"))
        group = pm.Data("group", treated)
        base = pm.Normal("base", 1.0, 1.0)
        effect = pm.Normal("effect", 0.0, 1.0)
        shape = pm.LogNormal("shape", 0.0, 0.5)
        scale = pt.exp(base + effect * group)
        dead, alive = died > 0, died <= 0
        observed = pm.Weibull.dist(shape, scale[dead])
        pm.Potential("deaths", pm.logp(observed, times[dead]).sum())
        pm.Potential("survivors", -((times[alive] / scale[alive]) ** shape).sum())
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "the study ends two months earlier: another mask"


def change(model):
    model.set_data("times", np.minimum(lifetimes, STOP - 2))
    model.set_data("died", (lifetimes < STOP - 2).astype("float64"))


def check(draws):
    assert abs(draws["effect"].mean() - 0.8) < 0.4


def plot(axes, draws):
    months = np.linspace(0, STOP, 60)
    for group, name in ((0, "control"), (1, "treated")):
        scales = np.exp(draws["base"] + draws["effect"] * group)
        curves = np.exp(-((months / scales[:, None]) ** draws["shape"][:, None]))
        low, middle, high = np.quantile(curves, [0.05, 0.5, 0.95], axis=0)
        [line] = axes.plot(months, middle, label=name)
        axes.fill_between(months, low, high, color=line.get_color(), alpha=0.25, lw=0)
    axes.set(xlabel="months", ylabel="probability to be alive", ylim=(0, 1))
    axes.legend()
