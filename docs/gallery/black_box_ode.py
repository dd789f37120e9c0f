"""A differential equation that SciPy integrates.

A substance A becomes B, and B decays. The integrator is a black box for PyTensor: an Op that calls
`scipy.integrate.odeint` for the states and their sensitivities, from which the Op's gradient is
made. The box runs on the host; prior and likelihood are compiled around it.

Data: 15 simulated measurements of A and B.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.integrate import odeint

moments = np.linspace(0, 8, 15)


def motion(state, moment, first, second):
    """The derivatives of A, B, and of their sensitivities to both rates."""
    a, b, a1, b1, a2, b2 = state
    return [
        -first * a,
        first * a - second * b,
        -a - first * a1,
        a + first * a1 - second * b1,
        -first * a2,
        first * a2 - b - second * b2,
    ]


class Integrate(Op):
    """From two rates to the states at all moments, and their derivatives by the rates."""

    def make_node(self, rates):
        return Apply(self, [pt.as_tensor(rates)], [pt.dmatrix(), pt.dtensor3()])

    def perform(self, node, inputs, output_storage):
        found = odeint(motion, [5.0, 0.0, 0, 0, 0, 0], moments, args=tuple(inputs[0]))
        output_storage[0][0] = found[:, :2].copy()
        output_storage[1][0] = np.stack([found[:, 2:4], found[:, 4:6]], axis=-1)

    def connection_pattern(self, node):
        return [[True, False]]

    def pullback(self, inputs, outputs, cotangents):
        return [(cotangents[0][:, :, None] * outputs[1]).sum(axis=(0, 1))]


rng = np.random.default_rng(4)
truth = odeint(motion, [5.0, 0, 0, 0, 0, 0], moments, args=(0.8, 0.3))[:, :2]
measured = truth + rng.normal(0, 0.15, truth.shape)


def build():
    with pm.Model() as model:
        rates = pm.LogNormal("rates", -0.5, 0.5, shape=2)
        noise = pm.HalfNormal("noise", 0.5)
        states, _ = Integrate()(rates)
        pm.Normal("measured", states, noise, observed=measured)
    return model


# -- for the page ----------------------------------------------------------------------------------

CHANGE = "other rates"


def change(model):
    return {"rates_log__": np.log([1.0, 0.5])}


def check(draws):
    assert np.allclose(draws["rates"].mean(axis=0), [0.8, 0.3], atol=0.1)


def plot(axes, draws):
    start = [5.0, 0, 0, 0, 0, 0]
    fine = np.linspace(0, 8, 80)
    some = draws["rates"][:: max(len(draws["rates"]) // 60, 1)]
    for position, name in enumerate("AB"):
        color = f"C{position}"
        for rates in some:
            curve = odeint(motion, start, fine, args=tuple(rates))[:, position]
            axes.plot(fine, curve, color=color, alpha=0.06, lw=1)
        axes.plot(moments, measured[:, position], "o", ms=4, color=color, label=name)
    axes.set(xlabel="time", ylabel="amount")
    axes.legend()
