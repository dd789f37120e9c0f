"""What the cases have in common."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from jax.sharding import AxisType, NamedSharding, PartitionSpec

KINDS = (AxisType.Auto, AxisType.Explicit)
"""Both kinds of mesh: what `jax.Mesh` makes, and what `jax.make_mesh` does."""

ROWS = 800
X = np.random.default_rng(0).normal(size=(ROWS, 5))
Y = (X @ np.arange(5.0) > 1.0) * 1.0
W = np.linspace(-1.0, 1.0, 5)


def mesh_of(kind: AxisType) -> jax.sharding.Mesh:
    return jax.make_mesh((len(jax.devices()),), ("data",), axis_types=(kind,))


def over(mesh: jax.sharding.Mesh, *axes: Any) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*axes))


def spread(value: Any, where: NamedSharding) -> jax.Array:
    """An array on the devices of all processes, of which each has the whole value."""
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, where, lambda index: value[index])


def regression() -> tuple[list[Any], list[Any]]:
    """The inputs of a logistic regression, and its log likelihood with the gradient."""
    x, y, w = pt.dmatrix("x"), pt.dvector("y"), pt.dvector("w")
    scores = x @ w
    logp = (y * scores - pt.softplus(scores)).sum()
    return [x, y, w], [logp, pytensor.grad(logp, w)]
