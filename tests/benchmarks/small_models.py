"""Log densities and their gradients in the form, and of the size, that PyMC makes them.

The parameters come as one vector, which the graph cuts into pieces, and the data are constants.
Differentiated is in the pieces; the vector replaces them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from tests.benchmarks.workload import Workload

GROUPS = 8
MODELS = (
    (10, 8, "normal"),
    (10, 500, "Poisson"),
    (30, 100, "Student"),
    (100, 8, "Poisson"),
    (100, 500, "normal"),
    (200, 8, "Student"),
    (200, 500, "Poisson"),
)
Part = Callable[[Any, Any, np.ndarray, np.ndarray], tuple[Any, Any]]


# The parts take jnp or pt, their parameters, a column of numbers and one of group numbers; they
# give a prior and what is added to the mean.
def _slope(xp: Any, value: Any, column: np.ndarray, member: np.ndarray) -> tuple[Any, Any]:
    return -0.5 * value**2, value * column


def _scale(xp: Any, value: Any, column: np.ndarray, member: np.ndarray) -> tuple[Any, Any]:
    return value - xp.exp(value), xp.exp(value) * column


def _share(xp: Any, value: Any, column: np.ndarray, member: np.ndarray) -> tuple[Any, Any]:
    share = 1 / (1 + xp.exp(-value))
    return xp.log(share) + xp.log1p(-share), share * column


def _groups(xp: Any, value: Any, column: np.ndarray, member: np.ndarray) -> tuple[Any, Any]:
    return -0.5 * (value**2).sum(), value[member] + column


PARTS: tuple[tuple[Part, int], ...] = ((_slope, 0), (_scale, 0), (_share, 0), (_groups, GROUPS))


# The likelihoods take jnp or pt, the data, the mean and the logarithm of a scale.
def _normal(xp: Any, observed: np.ndarray, mean: Any, log_sigma: Any) -> Any:
    return -0.5 * ((observed - mean) / xp.exp(log_sigma)) ** 2 - log_sigma


def _student(xp: Any, observed: np.ndarray, mean: Any, log_sigma: Any) -> Any:
    return -2.5 * xp.log1p(((observed - mean) / xp.exp(log_sigma)) ** 2 / 4) - log_sigma


def _poisson(xp: Any, observed: np.ndarray, mean: Any, log_sigma: Any) -> Any:
    return observed * (mean - log_sigma) - xp.exp(mean - log_sigma)


LIKELIHOODS = {"normal": _normal, "Student": _student, "Poisson": _poisson}


def small_model(nodes: int, data: int, likelihood: str) -> Workload:
    """A regression with as many parts as make at least so many nodes before the gradient."""
    rng = np.random.default_rng(nodes + data)
    columns = rng.normal(size=(nodes, data))
    members = rng.integers(GROUPS, size=(nodes, data))
    observed = rng.poisson(3.0, size=data).astype("float64")

    def density(xp: Any, pieces: Sequence[Any]) -> Any:
        log_sigma, *values = pieces
        mean, prior = 0.0, log_sigma - xp.exp(log_sigma)
        for number, value in enumerate(values):
            part, _ = PARTS[number % len(PARTS)]
            term, added = part(xp, value, columns[number], members[number])
            prior, mean = prior + term, mean + added
        return prior + LIKELIHOODS[likelihood](xp, observed, mean, log_sigma).sum()

    pieces = [pt.dscalar("log_sigma")]
    while len(pieces) < 2 or _count(density(pt, pieces)) < nodes:
        _, length = PARTS[(len(pieces) - 1) % len(PARTS)]
        pieces.append(pt.dvector(f"piece{len(pieces)}") if length else pt.dscalar())
    lengths = [0] + [PARTS[k % len(PARTS)][1] for k in range(len(pieces) - 1)]
    total = sum(max(length, 1) for length in lengths)

    logp = density(pt, pieces)
    gradient = pt.concatenate([pt.atleast_1d(slope) for slope in pt.grad(logp, pieces)])
    theta = pt.dvector("theta")
    replaced = dict(zip(pieces, _cut(theta, lengths), strict=True))
    outputs = tuple(graph_replace([logp, gradient], replaced, strict=False))
    by_hand = jax.value_and_grad(lambda theta: density(jnp, _cut(theta, lengths)))
    name = f"{likelihood}, {nodes} nodes, {data} data"
    return Workload(name, (theta,), outputs, (0.1 * rng.normal(size=total),), by_hand)


def _cut(theta: Any, lengths: Sequence[int]) -> list[Any]:
    """Consecutive pieces: vectors, and scalars where the length is 0."""
    pieces, place = [], 0
    for length in lengths:
        pieces.append(theta[place : place + length] if length else theta[place])
        place += max(length, 1)
    return pieces


def _count(logp: Any) -> int:
    return len({variable.owner for variable in ancestors([logp])} - {None})
