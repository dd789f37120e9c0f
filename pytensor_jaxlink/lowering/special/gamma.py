"""The gamma function near 1 and at infinity, by series that other functions need."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from pytensor_jaxlink.lowering.special.pieces import polynomial

_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)


@cache
def _zeta() -> np.ndarray:
    """Riemann's ``zeta(k) - 1`` for k from 2 on, by Euler's and Maclaurin's formula."""
    k = np.arange(2.0, 50.0)[:, None]
    last = 20.0
    head = (np.arange(2.0, last) ** -k).sum(axis=1, keepdims=True)
    rest = last ** (1 - k) / (k - 1) + last**-k / 2 + k * last ** (-k - 1) / 12
    third = k * (k + 1) * (k + 2) * last ** (-k - 3)
    fifth = third * (k + 3) * (k + 4) / last**2
    return (head + rest - third / 720 + fifth / 30240)[:, 0]


def stirling_rest(a: jax.Array) -> jax.Array:
    """Difference of ``gammaln(a)`` and Stirling's formula (DLMF 5.11.1)."""
    large = jnp.maximum(a, 10.0)
    series = polynomial(_STIRLING, 1 / large**2) / large
    small = jnp.clip(a, np.finfo(a.dtype).tiny, 10.0)
    power = (small - 0.5) * jnp.log(small) - small + 0.5 * np.log(2 * np.pi)
    return jnp.where(a >= 10, series, special.gammaln(small) - power)


def gammaln1p(a: jax.Array) -> jax.Array:
    """``gammaln(1 + a)`` for positive ``a``, with all digits where it is small (DLMF 5.7.3)."""
    small = jnp.minimum(a, 0.5)
    zeta = _zeta()
    coefficients = [0.0, np.euler_gamma - 1, *(zeta / np.arange(2, 2 + len(zeta)))]
    series = polynomial(coefficients, -small) - jnp.log1p(small)
    return jnp.where(a < 0.5, series, special.gammaln(1 + jnp.maximum(a, 0.5)))


@cache
def _reciprocal_gamma() -> np.ndarray:
    """Coefficients of ``1 / gamma(1 + z)`` (DLMF 5.7.1 and 5.7.2)."""
    zeta = _zeta() + 1
    found = [1.0, np.euler_gamma]
    for k in range(2, 30):
        signs = (-1.0) ** np.arange(1, k)
        tail = sum(s * z * c for s, z, c in zip(signs, zeta, found[k - 2 :: -1], strict=False))
        found.append((np.euler_gamma * found[-1] + tail) / k)
    return np.array(found)


def reciprocal_gamma_parts(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For ``1 / gamma(1 + z)``: the even part, and the odd part by ``z``; for z in [-1/2, 1/2]."""
    coefficients, square = _reciprocal_gamma(), z * z
    return polynomial(coefficients[::2], square), polynomial(coefficients[1::2], square)
