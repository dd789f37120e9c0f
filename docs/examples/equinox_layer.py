"""PyTensor inside equinox, and equinox inside PyTensor.

A PyTensor graph, jaxified, is one layer of an equinox module, with its weights among the module's;
and an equinox module is one node of a PyTensor graph (`pytensor.wrap_jax`), which "JAXSELECTIVE"
compiles into the region around it, gradients included.

Needs equinox, and PyTensor 3.1 or later for `wrap_jax`.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt

from pytensor_jaxlink import jaxify

jax.config.update("jax_enable_x64", True)  # equinox makes its weights in JAX's default type


def bumps():
    """A layer: bumps at learned places, as a PyTensor graph."""
    x, places = pt.dvector("x"), pt.dmatrix("places")
    distances = ((x[None, :] - places) ** 2).sum(axis=1)
    return jaxify([x, places], pt.exp(-distances))


class Network(eqx.Module):
    """A PyTensor layer, then a layer of equinox."""

    places: jax.Array
    last: eqx.nn.Linear
    layer: object = eqx.field(static=True)

    def __init__(self, key):
        places_key, last_key = jax.random.split(key)
        self.places = jax.random.normal(places_key, (20, 2))
        self.last = eqx.nn.Linear(20, "scalar", key=last_key)
        self.layer = bumps()

    def __call__(self, x):
        """One point."""
        return self.last(self.layer(x, self.places))


def pytensor_in_equinox(x, y) -> None:
    """Train all weights, the PyTensor layer's too."""

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(network):
        return ((jax.vmap(network)(x) - y) ** 2).mean()

    network = Network(jax.random.key(0))
    first, _ = loss(network)
    for _ in range(400):
        value, gradient = loss(network)
        network = eqx.apply_updates(network, jax.tree.map(lambda g: -0.3 * g, gradient))
    print(f"PyTensor in equinox: loss {float(first):.3f} -> {float(value):.4f}")
    assert float(value) < 0.05 * float(first)
    assert float(abs(gradient.places).max()) > 0


def equinox_in_pytensor(x) -> None:
    """The gradient of a PyTensor cost with respect to the input of an equinox module."""
    module = eqx.nn.MLP(2, 2, 8, depth=1, activation=jnp.tanh, key=jax.random.key(1))
    point = pt.dvector("point", shape=(2,))

    @pytensor.wrap_jax
    def in_graph(point):
        return module(point)

    cost = (in_graph(point * 2) ** 2).sum()
    f = pytensor.function([point], [cost, pytensor.grad(cost, point)], mode="JAXSELECTIVE")
    value, gradient = f(x[0])
    expected = jax.value_and_grad(lambda p: (module(p * 2) ** 2).sum())(x[0])
    print(f"equinox in PyTensor: {str(f.explain()).splitlines()[0]}, cost {float(value):.4f}")
    assert f.explain().graph_break_count == 0
    np.testing.assert_allclose(value, expected[0], rtol=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10)


def main() -> None:
    """Both."""
    x = np.random.default_rng(1).uniform(-2, 2, size=(256, 2))
    pytensor_in_equinox(x, np.sin(x[:, 0]) * x[:, 1])
    equinox_in_pytensor(x)


if __name__ == "__main__":
    main()
