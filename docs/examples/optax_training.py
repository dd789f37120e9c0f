"""A PyTensor network trained by optax.

The loss is a PyTensor graph over a dict of weights; `jaxify` makes a JAX function of the same dict,
so `jax.value_and_grad` and optax work on it as on any other.  One training step is one `jax.jit`.

Needs optax.
"""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytensor.tensor as pt

from pytensor_jaxlink import jaxify

HIDDEN = 16


def network(weights, x):
    """One hidden layer."""
    hidden = pt.tanh(x @ weights["in"] + weights["bias"])
    return hidden @ weights["out"]


def main() -> None:
    """Learn a wave from noisy points of it."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, size=(512, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=512)

    inputs, targets = pt.dmatrix("inputs"), pt.dvector("targets")
    weights = {"in": pt.dmatrix("in"), "bias": pt.dvector("bias"), "out": pt.dvector("out")}
    loss = jaxify([weights, inputs, targets], ((network(weights, inputs) - targets) ** 2).mean())
    predict = jaxify([weights, inputs], network(weights, inputs))

    optimiser = optax.adam(1e-2)

    @jax.jit
    def step(values, state):
        value, gradient = jax.value_and_grad(loss)(values, x, y)
        updates, state = optimiser.update(gradient, state, values)
        return optax.apply_updates(values, updates), state, value

    values = {
        "in": rng.normal(size=(1, HIDDEN)),
        "bias": rng.normal(size=HIDDEN),
        "out": 0.1 * rng.normal(size=HIDDEN),
    }
    state = optimiser.init(values)
    first = float(loss(values, x, y))
    for _ in range(1000):
        values, state, value = step(values, state)

    grid = np.linspace(-3, 3, 61)[:, None]
    error = np.abs(np.asarray(predict(values, grid)) - np.sin(grid[:, 0])).max()
    print(f"loss {first:.3f} -> {float(value):.4f} (the noise alone makes 0.01)")
    print(f"largest error on the wave: {error:.3f}")
    assert float(value) < 0.02
    assert error < 0.15


if __name__ == "__main__":
    main()
