"""The rule for PyMC's `SplineWrapper`, in which the density of `pymc.Interpolated` is a spline."""

from __future__ import annotations

import sys
from math import factorial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply

from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule_for

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.interpolate import UnivariateSpline

_ZEROS, _RAISE, _BOUNDARY = 1, 2, 3
"""The modes of SciPy's splines outside of their knots, but for the one that extrapolates."""


def register_splines() -> None:
    """Register the rule; PyMC must have been imported."""
    jax_rule_for("SplineWrapper", where=[sys.modules["pymc.distributions.dist_math"]])(_spline)


def _spline(op: Any, node: Apply, context: Context) -> JaxFunction:
    """A spline is a polynomial between two knots, here in powers of the distance from the first."""
    knots, coefficients = _polynomials(op.spline)
    first, last, outside = knots[0], knots[-1], op.spline.ext
    degree = coefficients.shape[1] - 1

    def spline(x: jax.Array) -> jax.Array:
        values = jnp.asarray(x).astype(jnp.result_type(float))
        beyond = (values < first) | (values > last)
        if outside == _RAISE:
            context.check(~beyond)
        at = jnp.clip(values, first, last) if outside == _BOUNDARY else values
        piece = jnp.searchsorted(knots, at, side="right") - 1
        piece = jnp.clip(piece, 0, len(knots) - 2)
        powers, distance = jnp.asarray(coefficients)[piece], at - jnp.asarray(knots)[piece]
        found = powers[..., degree]
        for power in reversed(range(degree)):
            found = found * distance + powers[..., power]
        if outside == _ZEROS:
            found = jnp.where(beyond, 0, found)
        return found.astype(jnp.asarray(x).dtype)

    return spline


def _polynomials(spline: UnivariateSpline) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The knots of a spline, and for each piece the coefficients, from the zeroth power on."""
    knots = np.asarray(spline.get_knots())
    degree = len(spline.get_coeffs()) - len(knots) + 1
    derivatives = [np.asarray(spline(knots[:-1], nu=n)) / factorial(n) for n in range(degree + 1)]
    return knots, np.stack(derivatives, axis=-1)
