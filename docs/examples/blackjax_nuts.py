"""NUTS of blackjax on the log density of a PyTensor graph.

`jaxify` gives a JAX function of a dict of parameters; blackjax adapts, and samples four chains with
`jax.vmap`, without another line about PyTensor.

Needs blackjax.
"""

from __future__ import annotations

import blackjax
import jax
import numpy as np
import pytensor.tensor as pt

from pytensor_jaxlink import jaxify

SLOPE, START, NOISE = 1.5, -0.5, 0.3


def main() -> None:
    """Sample a straight line with unknown noise."""
    rng = np.random.default_rng(1)
    x = np.linspace(-1, 1, 200)
    y = SLOPE * x + START + NOISE * rng.normal(size=200)

    line = {name: pt.dscalar(name) for name in ("slope", "start", "log_noise")}
    noise = pt.exp(line["log_noise"])
    residual = (y - line["slope"] * x - line["start"]) / noise
    log_likelihood = (-0.5 * residual**2 - line["log_noise"]).sum()
    log_prior = -0.5 * sum((value / 5.0) ** 2 for value in line.values())
    log_density = jaxify(line, log_likelihood + log_prior)

    warmup_key, sample_key = jax.random.split(jax.random.key(0))
    start = {name: np.zeros(()) for name in line}
    warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = warmup.run(warmup_key, start, num_steps=500)
    step = blackjax.nuts(log_density, **parameters).step

    def chain(key):
        def one(state, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, 500))[1]

    draws = jax.jit(jax.vmap(chain))(jax.random.split(sample_key, 4))
    expected = {"slope": SLOPE, "start": START, "log_noise": np.log(NOISE)}
    for name, value in expected.items():
        mean, spread = float(draws[name].mean()), float(draws[name].std())
        print(f"{name:9} {mean:6.3f} +- {spread:.3f} (true {value:.3f})")
        assert draws[name].shape == (4, 500)
        assert abs(mean - value) < 4 * spread


if __name__ == "__main__":
    main()
