"""Euler's integral for the hypergeometric function (DLMF 15.6.1), where its integrand is positive.

On the scale of log-odds the integrand is a beta density times a power.  Its logarithm rises to one
maximum and falls, to both sides at last as a straight line.  After a substitution that makes both
slopes exponential the trapezoidal rule is exact to rounding (Takahasi and Mori, "Double exponential
formulas for numerical integration", Publ. RIMS 9, 1974).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.lowering.special.distributions import DEPTH, log_beta_density
from pytensor_jaxlink.lowering.special.pieces import weighted_sum

_NODES = 600
_HALVINGS = 60


def euler_integral(a: jax.Array, b: jax.Array, c: jax.Array, z: jax.Array) -> jax.Array:
    """The hypergeometric function for ``0 < b < c`` and ``z < 1``."""
    shift = -jnp.log1p(-z)

    def slope(u: jax.Array) -> jax.Array:
        return b - (c - a) * jax.nn.sigmoid(u) - a * jax.nn.sigmoid(u - shift)

    def log_power(u: jax.Array) -> jax.Array:
        lines = jnp.where(shift > 0, jnp.clip(u, 0, shift), jnp.clip(shift - u, shift, 0))
        return a * (lines + _bend(u) - _bend(u - shift))

    def log_density(u: jax.Array) -> jax.Array:
        return jnp.where(u > 0, b - c, b) * u - c * _bend(u)

    size = jnp.abs(c - a) + jnp.abs(a)
    left = jnp.minimum(shift, 0) - jnp.maximum(jnp.log(size / b), 0.0) - 1
    right = jnp.maximum(shift, 0) + jnp.maximum(jnp.log(size / (c - b)), 0.0) + 1
    top = _last(lambda u: slope(u) > 0, left, right)
    here, there = jax.nn.sigmoid(top), jax.nn.sigmoid(top - shift)
    bend = (c - a) * here * (1 - here) + a * there * (1 - there)
    width = 1 / jnp.sqrt(jnp.maximum(bend, 1.0))

    def fall(u: jax.Array) -> jax.Array:
        return log_density(top) - log_density(u) + log_power(top) - log_power(u)

    end = jnp.arcsinh(1e18 / width)

    def reach(side: float) -> jax.Array:
        def shallow(v: jax.Array) -> jax.Array:
            return fall(top + side * width * jnp.sinh(v)) < DEPTH

        return _last(shallow, jnp.zeros_like(end), end)

    first, last = -reach(-1.0), reach(1.0)

    def integrand(place: jax.Array) -> jax.Array:
        power = jnp.exp(first + (last - first) * place)
        u = top + width * (power - 1 / power) / 2
        return jnp.exp(-fall(u)) * (power + 1 / power) / 2

    nodes = (np.arange(_NODES) + 0.5) / _NODES
    total = weighted_sum(integrand, nodes, np.full(_NODES, 1 / _NODES), top)
    return (
        jnp.exp(log_beta_density(b, c - b, top) + log_power(top)) * width * (last - first) * total
    )


def _bend(u: jax.Array) -> jax.Array:
    """``log(1 + exp(u))`` without its asymptotes."""
    return jnp.log1p(jnp.exp(-jnp.abs(u)))


def _last(holds: Callable[[jax.Array], jax.Array], low: jax.Array, high: jax.Array) -> jax.Array:
    """The end of the stretch from ``low`` where a condition holds, by bisection."""

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        inside = holds(middle)
        return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

    return jax.lax.fori_loop(0, _HALVINGS, halve, (low, high))[0]
