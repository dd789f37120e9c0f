"""The special functions of PyTensor's scalar Ops.

They are computed in double precision, as SciPy computes them, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import jax
import jax.numpy as jnp
from pytensor.graph.basic import Apply
from pytensor.scalar import math
from pytensor.scalar.basic import ScalarOp

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import as_dtype, canonical_dtype
from pytensor_jaxlink.lowering.scalars import ScalarFunction, scalar_function, with_own_gradient
from pytensor_jaxlink.lowering.special.bessel import j0, j1, jv
from pytensor_jaxlink.lowering.special.distributions import inverse_beta, inverse_gamma
from pytensor_jaxlink.lowering.special.error_function import erfcx
from pytensor_jaxlink.lowering.special.hypergeometric import hyp2f1
from pytensor_jaxlink.lowering.special.modified_bessel import ive, kve


def gammaincinv(a: jax.Array, p: jax.Array) -> jax.Array:
    """The inverse of the lower incomplete gamma function, with SciPy's values at the ends."""
    return _inverse_gamma(a, p, 1 - p)


def gammainccinv(a: jax.Array, q: jax.Array) -> jax.Array:
    """The inverse of the upper incomplete gamma function."""
    return _inverse_gamma(a, 1 - q, q)


def _inverse_gamma(a: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """SciPy has the limit of a shape of zero only where it takes the upper tail for small."""
    limit = (a == 0) & ~jnp.signbit(a) & (q >= 0) & (q <= 1e-5)
    value = jnp.where(limit, 0.0, inverse_gamma(a, p, q))
    return _at_ends(value, a >= 0, p == 0, q == 0, jnp.inf)


def betaincinv(a: jax.Array, b: jax.Array, p: jax.Array) -> jax.Array:
    """The inverse of the incomplete beta function."""
    value = _at_ends(inverse_beta(a, b, p), (a > 0) & (b > 0), p == 0, p == 1, 1.0)
    # Two limits that SciPy takes.
    inside = (p > 0) & (p < 1)
    value = jnp.where((a == 1) & (b == jnp.inf) & inside, 0.0, value)
    return jnp.where((a == jnp.inf) & (b == 1) & inside, 1.0, value)


def _at_ends(
    value: jax.Array, valid: jax.Array, low: jax.Array, high: jax.Array, end: float
) -> jax.Array:
    value = jnp.where(valid & low, 0.0, value)
    return jnp.where(valid & high, end, value)


def _in_double(function: ScalarFunction, op: ScalarOp, node: Apply) -> ScalarFunction | None:
    if any(variable.type.dtype.startswith("complex") for variable in node.inputs):
        return None  # they are functions of real numbers here
    result = canonical_dtype(node.outputs[0].type.dtype)

    def computed(*values: jax.Array) -> jax.Array:
        return as_dtype(function(*(as_dtype(value, "float64") for value in values)), result)

    return with_own_gradient(computed, op, node)


def _hyp2f1(op: ScalarOp, node: Apply) -> ScalarFunction | None:
    """SciPy is asked where no method has a value."""
    function = _in_double(hyp2f1, op, node)
    if function is None:
        return None

    def with_question(*values: jax.Array) -> jax.Array:
        value = function(*values)
        require(~jnp.isnan(value) | reduce(jnp.logical_or, map(jnp.isnan, values)))
        return value

    return with_question


def _register(kind: type[ScalarOp], function: Callable[..., jax.Array]) -> None:
    scalar_function.register(kind, partial(_in_double, function))


_register(math.BetaIncInv, betaincinv)
_register(math.Erfcx, erfcx)
_register(math.GammaIncCInv, gammainccinv)
_register(math.GammaIncInv, gammaincinv)
scalar_function.register(math.Hyp2F1, _hyp2f1)
_register(math.Ive, ive)
_register(math.J0, j0)
_register(math.J1, j1)
_register(math.Jv, jv)
_register(math.Kve, kve)
