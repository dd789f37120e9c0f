"""One draw: its key, shape and dtype, and the standard distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import numpy as np

from pytensor_jaxlink.lowering.rejection import Gammas, Shape
from pytensor_jaxlink.lowering.streams import exponential, fork, normal, real_of, uniform, wide


@dataclass(frozen=True)
class Draw:
    """The key of a draw, its shape without what one draw has itself, and its dtype."""

    key: jax.Array
    shape: Shape
    dtype: str

    @property
    def real(self) -> np.dtype:
        """The dtype in which real numbers are computed."""
        return real_of(self.dtype)

    def uniform(self) -> jax.Array:
        """Numbers between 0 and 1."""
        return uniform(self.key, self.shape, self.real)

    def chances(self) -> jax.Array:
        """The same, as exact as NumPy's: they are compared with probabilities."""
        return uniform(self.key, self.shape, wide())

    def normal(self) -> jax.Array:
        """Standard normal numbers."""
        return normal(self.key, self.shape, self.real)

    def normals(self) -> jax.Array:
        """Two of them for each entry."""
        return normal(self.key, (2, *self.shape), self.real)

    def exponential(self) -> jax.Array:
        """Exponential numbers with mean 1."""
        return exponential(self.key, self.shape, self.real)

    def gamma(self, alpha: jax.Array) -> jax.Array:
        """Gamma variables with scale 1."""
        return Gammas.drawn(self.key, self.shape, alpha, self.real).values()

    def fork(self) -> Draw:
        """The second part of the same draw."""
        return replace(self, key=fork(self.key))


Sampler = Callable[..., jax.Array]
