"""Workloads with a loop over time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
from jax.scipy.special import logsumexp

from tests.benchmarks.workload import Workload, value_and_gradient


def autoregression(steps: int = 1_000) -> Workload:
    """A latent AR(2) process driven by its innovations, observed with noise."""
    rng = np.random.default_rng(9)
    rho, shocks, y = pt.dvectors("rho", "shocks", "y")
    states = pytensor.scan(
        lambda shock, two_ago, one_ago, rho: rho[0] * one_ago + rho[1] * two_ago + shock,
        sequences=[shocks],
        outputs_info=[{"initial": pt.zeros(2), "taps": [-2, -1]}],
        non_sequences=[rho],
        return_updates=False,
    )
    logp = -0.5 * ((y - states) ** 2).sum() - 0.5 * (shocks**2).sum()

    def by_hand(rho: jax.Array, shocks: jax.Array, y: jax.Array) -> jax.Array:
        def step(before: tuple[jax.Array, jax.Array], shock: jax.Array) -> tuple[Any, jax.Array]:
            two_ago, one_ago = before
            state = rho[0] * one_ago + rho[1] * two_ago + shock
            return (one_ago, state), state

        _, states = jax.lax.scan(step, (jnp.zeros(()), jnp.zeros(())), shocks)
        return -0.5 * ((y - states) ** 2).sum() - 0.5 * (shocks**2).sum()

    values = {
        rho: np.array([0.6, 0.3]),
        shocks: rng.normal(size=steps),
        y: rng.normal(size=steps),
    }
    return value_and_gradient("AR(2) scan", values, logp, by_hand, parameters=2)


def hidden_markov(states: int = 4, steps: int = 500) -> Workload:
    """The forward algorithm for normal emissions, in logarithms."""
    rng = np.random.default_rng(10)
    transition, means, y = pt.dmatrix("transition"), pt.dvector("means"), pt.dvector("y")
    log_transition = pt.special.log_softmax(transition, axis=1)
    emission = -0.5 * (y[:, None] - means) ** 2
    forward = pytensor.scan(
        lambda emission, alpha, log_transition: (
            emission + pt.logsumexp(alpha[:, None] + log_transition, axis=0)
        ),
        sequences=[emission[1:]],
        outputs_info=[emission[0]],
        non_sequences=[log_transition],
        return_updates=False,
    )
    logp = pt.logsumexp(forward[-1])

    def by_hand(transition: jax.Array, means: jax.Array, y: jax.Array) -> jax.Array:
        log_transition = jax.nn.log_softmax(transition, axis=1)
        emission = -0.5 * (y[:, None] - means) ** 2

        def step(alpha: jax.Array, emission: jax.Array) -> tuple[jax.Array, None]:
            return emission + logsumexp(alpha[:, None] + log_transition, axis=0), None

        last, _ = jax.lax.scan(step, emission[0], emission[1:])
        return logsumexp(last)

    values = {
        transition: rng.normal(size=(states, states)),
        means: np.linspace(-2, 2, states),
        y: 2 * rng.normal(size=steps),
    }
    return value_and_gradient("hidden Markov scan", values, logp, by_hand, parameters=2)
