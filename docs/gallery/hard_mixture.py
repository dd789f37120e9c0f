"""A mixture in which each point belongs to the nearest component.

The usual mixture sums over the components of each point. Here a point counts for the component
whose centre is nearest: the assignments are integrated out by a rule instead of a sum, and which
points a component gets depends on the parameters, at every step of the sampler.

Data: 240 simulated points of three components.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

rng = np.random.default_rng(5)
CENTRES = np.array([-4.0, 0.0, 5.0])
points = rng.normal(CENTRES[rng.integers(0, 3, 240)], [[0.8]])[0]


def build():
    with pm.Model() as model:
        y = pm.Data("y", points)
        centres = pm.Normal("centres", 0.0, 5.0, shape=3, initval=np.array([-3.0, 0.5, 3.0]))
        spread = pm.HalfNormal("spread", 2.0, shape=3)
        weights = pm.Dirichlet("weights", np.ones(3))
        nearest = ((y[:, None] - centres) ** 2).argmin(axis=1)
        for k in range(3):
            members = y[pt.eq(nearest, k)]
            density = pm.logp(pm.Normal.dist(centres[k], spread[k]), members) + pt.log(weights[k])
            pm.Potential(f"component {k}", density.sum())
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "other centres: other members"


def change(model):
    return {"centres": np.array([-5.0, 1.0, 4.0])}


def check(draws):
    assert np.allclose(draws["centres"].mean(axis=0), CENTRES, atol=0.5)


def plot(axes, draws):
    axes.hist(points, bins=50, density=True, color="0.8", label="data")
    axes.set(xlabel="value", ylabel="density of the data")
    posterior = axes.twinx()
    for k in range(3):
        posterior.hist(draws["centres"][:, k], bins=25, density=True, alpha=0.7, color=f"C{k}")
    posterior.set_ylabel("posterior of the centres")
    axes.legend()
