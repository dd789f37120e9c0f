"""Equinox functions in files: saved with their weights, loaded where there is no equinox.

A trained `eqx.nn.MLP` is one file, from which a process without equinox (and without PyTensor)
gets a callable: nobody builds the model a second time to have a skeleton for its weights.  Static
arguments are kept with the code, an array that two layers share is stored once and is one object
again, and an argument that the jitted function donates is donated by the loaded one.

Needs equinox and optax; saving needs the extra `save`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from pytensor_jaxlink import inspect, load, save

ALONE = """
import sys
for name in ("equinox", "optax", "pytensor"):
    sys.modules[name] = None  # cannot be imported
import numpy as np
from pytensor_jaxlink import load
predict = load(sys.argv[1])
print(" ".join(f"{y:.6f}" for y in predict(np.linspace(-1, 1, 5, dtype="float32")[:, None])[:, 0]))
"""


def trained() -> eqx.nn.MLP:
    """A network for the sine, after some steps."""
    x = jnp.linspace(-1, 1, 64)[:, None]
    network = eqx.nn.MLP(1, 1, 32, depth=2, activation=jnp.tanh, key=jax.random.key(0))
    optimiser = optax.adam(1e-2)

    @eqx.filter_jit
    def step(network, state):
        loss = lambda network: ((jax.vmap(network)(x) - jnp.sin(3 * x)) ** 2).mean()  # noqa: E731
        value, gradient = eqx.filter_value_and_grad(loss)(network)
        updates, state = optimiser.update(gradient, state)
        return eqx.apply_updates(network, updates), state, value

    state = optimiser.init(eqx.filter(network, eqx.is_array))
    network, state, first = step(network, state)
    for _ in range(200):
        network, state, last = step(network, state)
    print(f"trained: loss {float(first):.3f} -> {float(last):.5f}")
    assert float(last) < 0.05 * float(first)
    return network


def without_a_skeleton(path: Path) -> None:
    """The network in a process that has no equinox, for any number of rows."""
    predict = eqx.filter_jit(eqx.filter_vmap(trained()))
    save(predict, path, examples=(jnp.ones((64, 1)),), dims={"x": ("rows", 1)})
    run = subprocess.run(
        [sys.executable, "-c", ALONE, str(path)], capture_output=True, text=True, check=True
    )
    found = np.array(run.stdout.split(), "float32")
    np.testing.assert_allclose(found, predict(jnp.linspace(-1, 1, 5)[:, None])[:, 0], atol=1e-5)
    weights = [cell.name for cell in load(path).state]
    print(f"loaded without equinox: {run.stdout.strip()}, weights {', '.join(weights[:2])}, ...")


def with_static_arguments(path: Path) -> None:
    """A jitted function with static arguments: the file has code for those of the examples."""
    network = eqx.nn.MLP(2, 3, 8, depth=1, key=jax.random.key(1))

    @eqx.filter_jit
    def classify(network, x, *, form: str, layers: int = 1):
        for _ in range(layers):
            y = network(x)
        return {"y": jax.nn.softmax(y) if form == "probabilities" else y, "of": "classify"}

    bound = eqx.Partial(classify, network)
    forms = ("probabilities", "logits")
    save(bound, path, examples=[{"x": jnp.ones(2), "form": form} for form in forms])
    loaded = load(path)
    for form in forms:
        found = loaded(x=np.ones(2, "float32"), form=form)
        assert found["of"] == "classify"
        np.testing.assert_allclose(found["y"], bound(jnp.ones(2), form=form)["y"], rtol=1e-6)
    try:
        loaded(x=np.ones(2, "float32"), form="ranks")
    except ValueError as error:
        print(f"another static argument: {str(error).split(',')[0]}")


class Tied(eqx.Module):
    """An encoder and a decoder with the same weights."""

    encoder: jax.Array
    decoder: jax.Array

    def __call__(self, x):
        """There and back."""
        return self.decoder.T @ jnp.tanh(self.encoder @ x)


def shared_and_donated(path: Path) -> None:
    """One array for two layers, and an argument whose memory the call reuses."""
    weights = jax.random.normal(jax.random.key(2), (200, 200))
    model = Tied(weights, weights)

    @eqx.filter_jit(donate="all-except-first")
    def update(model, x):
        return x + 0.1 * model(x)

    save(eqx.Partial(update, model), path, examples=(jnp.ones(200),))
    [stored] = [name for name in inspect(path).manifest["members"] if name.endswith(".npy")]
    loaded = load(path)
    [cell] = loaded.state
    x = jnp.ones(200)
    expected = np.asarray(x + 0.1 * model(x))
    np.testing.assert_allclose(loaded(x), expected, rtol=1e-4)
    print(f"shared: {stored} is all of {cell.name}; donated: {x.is_deleted()}")
    assert x.is_deleted()
    cell.set_value(np.zeros((200, 200), "float32"))  # both layers read it
    np.testing.assert_array_equal(loaded(np.ones(200, "float32")), np.ones(200))


def main() -> None:
    """All three."""
    with tempfile.TemporaryDirectory() as folder:
        for show in (without_a_skeleton, with_static_arguments, shared_and_donated):
            show(Path(folder) / "model.jaxlink")


if __name__ == "__main__":
    main()
