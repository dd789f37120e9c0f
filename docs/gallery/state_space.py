"""A state space: a Kalman filter over the months that have been seen.

The level of a series moves as a random walk and is measured with noise. The filter is a
`pytensor.scan`, and how many months have been seen is data. It is the number of steps of the loop:
each value that is used is compiled once.

Data: 100 simulated months, of which 80 have been seen.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

rng = np.random.default_rng(8)
level = np.cumsum(rng.normal(0, 0.3, 100))
series = level + rng.normal(0, 0.6, 100)


def filter_step(measured, mean, variance, moves, noise):
    """One month: what is expected, how probable the measurement is, what is learned."""
    ahead = variance + moves**2
    total = ahead + noise**2
    surprise = measured - mean
    gain = ahead / total
    density = -0.5 * (pt.log(2 * np.pi * total) + surprise**2 / total)
    return mean + gain * surprise, (1 - gain) * ahead, density


def build():
    with pm.Model() as model:
        y, seen = pm.Data("y", series), pm.Data("seen", np.array(80))
        moves = pm.HalfNormal("moves", 1.0)
        noise = pm.HalfNormal("noise", 1.0)
        mean, variance = pt.zeros(()), pt.ones(())
        means, _, densities = pytensor.scan(
            filter_step,
            sequences=[y[:seen]],
            outputs_info=[mean, variance, None],
            non_sequences=[moves, noise],
            return_updates=False,
        )
        pm.Potential("months", densities.sum())
        pm.Deterministic("filtered", means)
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "one more month"


def change(model):
    model.set_data("seen", np.array(81))


def check(draws):
    assert abs(draws["noise"].mean() - 0.6) < 0.3


def plot(axes, draws):
    filtered = draws["filtered"]
    months = np.arange(filtered.shape[1])
    low, middle, high = np.quantile(filtered, [0.05, 0.5, 0.95], axis=0)
    axes.plot(np.arange(100), series, ".", ms=4, color="0.5", label="measured")
    axes.plot(np.arange(100), level, color="C1", lw=1, label="the simulated level")
    axes.plot(months, middle, color="C0", label="filtered")
    axes.fill_between(months, low, high, color="C0", alpha=0.3, lw=0)
    axes.set(xlabel="month", ylabel="value")
    axes.legend(ncols=3, fontsize=8)
