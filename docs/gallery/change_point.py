"""A change point among the parameters.

A sensor changes its level and its noise on an unknown day. The day is a discrete parameter, and a
mask of that parameter selects what lies before it and after it. PyMC samples the day by Metropolis
and the rest by NUTS, and one compiled function serves all days.

Data: 150 simulated days; the change is on day 90.
"""

import numpy as np
import pymc as pm

rng = np.random.default_rng(2)
days = np.arange(150.0)
signal = np.where(days < 90, rng.normal(2.0, 1.0, 150), rng.normal(3.0, 0.5, 150))


def build():
    with pm.Model() as model:
        day, y = pm.Data("day", days), pm.Data("y", signal)
        tau = pm.DiscreteUniform("tau", 5, 145)
        level = pm.Normal("level", 0.0, 5.0, shape=2)
        noise = pm.HalfNormal("noise", 2.0, shape=2)
        for part, selected in enumerate((day < tau, day >= tau)):
            normal = pm.Normal.dist(level[part], noise[part])
            pm.Potential(f"part {part}", pm.logp(normal, y[selected]).sum())
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "another day"


def change(model):
    return {"tau": np.array(90)}


def check(draws):
    assert abs(np.median(draws["tau"]) - 90) < 8


def plot(axes, draws):
    values, counts = np.unique(draws["tau"], return_counts=True)
    axes.plot(days, signal, ".", ms=3, color="0.5", label="data")
    axes.set(xlabel="day", ylabel="signal")
    share = axes.twinx()
    share.bar(values, counts / counts.sum(), width=1.0, color="C1", alpha=0.7)
    share.set_ylabel("posterior of the day", color="C1")
