"""Workloads of linear algebra, and the chain that XLA's fusion makes slow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
from jax.scipy.linalg import solve_triangular

from tests.benchmarks.workload import Workload, value_and_gradient

RATE = 0.1


def gaussian_process(size: int = 300) -> Workload:
    """The marginal likelihood with an exponentiated quadratic kernel."""
    rng = np.random.default_rng(5)
    theta, x, y = pt.dvector("theta"), pt.dvector("x"), pt.dvector("y")
    amplitude, length, noise = (pt.exp(theta[k]) for k in range(3))
    distance = (x[:, None] - x[None, :]) / length
    kernel = amplitude**2 * pt.exp(-0.5 * distance**2) + noise**2 * pt.eye(x.shape[0])
    factor = pt.linalg.cholesky(kernel)
    white = pt.linalg.solve_triangular(factor, y, lower=True)
    logp = -0.5 * (white**2).sum() - pt.log(pt.diag(factor)).sum()

    def by_hand(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        amplitude, length, noise = jnp.exp(theta)
        distance = (x[:, None] - x[None, :]) / length
        kernel = amplitude**2 * jnp.exp(-0.5 * distance**2) + noise**2 * jnp.eye(x.shape[0])
        factor = jnp.linalg.cholesky(kernel)
        white = solve_triangular(factor, y, lower=True)
        return -0.5 * (white**2).sum() - jnp.log(jnp.diag(factor)).sum()

    place = np.sort(rng.uniform(0, 10, size=size))
    values = {
        theta: np.array([0.1, 0.2, -1.0]),
        x: place,
        y: np.sin(place) + 0.3 * rng.normal(size=size),
    }
    return value_and_gradient("Gaussian process", values, logp, by_hand)


def matrix_factorisation(rows: int = 400, columns: int = 300, rank: int = 10) -> Workload:
    """Ratings of which one in ten is known."""
    rng = np.random.default_rng(6)
    left, right = pt.dmatrices("left", "right")
    ratings, known = pt.dmatrices("ratings", "known")
    error = known * (ratings - left @ right.T)
    loss = (error**2).sum() + 0.1 * ((left**2).sum() + (right**2).sum())

    def by_hand(
        left: jax.Array, right: jax.Array, ratings: jax.Array, known: jax.Array
    ) -> jax.Array:
        error = known * (ratings - left @ right.T)
        return (error**2).sum() + 0.1 * ((left**2).sum() + (right**2).sum())

    values = {
        left: rng.normal(size=(rows, rank)),
        right: rng.normal(size=(columns, rank)),
        ratings: rng.normal(size=(rows, columns)),
        known: (rng.uniform(size=(rows, columns)) < 0.1).astype("float64"),
    }
    return value_and_gradient("matrix factorisation", values, loss, by_hand, parameters=2)


def two_layer_network(rows: int = 256, width: int = 64, hidden: int = 128) -> Workload:
    """One step of gradient descent on ten classes; the new weights are returned."""
    rng = np.random.default_rng(7)
    classes = 10
    weights = w1, b1, w2, b2 = (
        pt.dmatrix("w1"),
        pt.dvector("b1"),
        pt.dmatrix("w2"),
        pt.dvector("b2"),
    )
    x, label = pt.dmatrix("x"), pt.lvector("label")
    scores = pt.tanh(x @ w1 + b1) @ w2 + b2
    log_p = pt.special.log_softmax(scores, axis=1)
    loss = -log_p[pt.arange(x.shape[0]), label].mean()
    stepped = [w - RATE * slope for w, slope in zip(weights, pt.grad(loss, weights), strict=True)]

    def loss_by_hand(weights: tuple[jax.Array, ...], x: jax.Array, label: jax.Array) -> jax.Array:
        w1, b1, w2, b2 = weights
        scores = jnp.tanh(x @ w1 + b1) @ w2 + b2
        log_p = jax.nn.log_softmax(scores, axis=1)
        return -log_p[jnp.arange(x.shape[0]), label].mean()

    def by_hand(*arguments: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        *weights, x, label = arguments
        loss, slopes = jax.value_and_grad(loss_by_hand)(tuple(weights), x, label)
        return loss, tuple(w - RATE * slope for w, slope in zip(weights, slopes, strict=True))

    arguments = (
        rng.normal(size=(width, hidden)) / np.sqrt(width),
        np.zeros(hidden),
        rng.normal(size=(hidden, classes)) / np.sqrt(hidden),
        np.zeros(classes),
        rng.normal(size=(rows, width)),
        rng.integers(classes, size=rows),
    )
    return Workload("two-layer network", (*weights, x, label), (loss, *stepped), arguments, by_hand)


def elementwise_chain(steps: int = 50, size: int = 1_000) -> Workload:
    """Each value is used twice, so that fusing them all computes each of them many times."""
    rng = np.random.default_rng(8)
    x = pt.dvector("x")
    value = x
    for _ in range(steps):
        value = pt.tanh(value) * pt.cos(value)

    def by_hand(x: jax.Array) -> jax.Array:
        for _ in range(steps):
            x = jnp.tanh(x) * jnp.cos(x)
        return x.sum()

    values = {x: rng.normal(size=size)}
    return value_and_gradient("elementwise chain", values, value.sum(), by_hand)
