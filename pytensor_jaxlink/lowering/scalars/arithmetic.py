"""Sums, products, exponentials and complex numbers."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pytensor.graph.basic import Apply
from pytensor.scalar import basic, math

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    function_of,
    scalar_function,
)


@scalar_function.register(basic.Add)
def _add(op: object, node: Apply) -> ScalarFunction:
    return partial(_chained, lax.add, jnp.add)


@scalar_function.register(basic.Mul)
def _multiply(op: object, node: Apply) -> ScalarFunction:
    return partial(_chained, lax.mul, jnp.multiply)


def _chained(plain: ScalarFunction, broadcasting: ScalarFunction, *values: jax.Array) -> jax.Array:
    """An operation of two numbers on any number of arrays; the plain one is traced faster."""
    result = values[0]
    for value in values[1:]:
        same = np.shape(result) == np.shape(value) and _plain_dtype(result) == _plain_dtype(value)
        result = plain(result, value) if same else broadcasting(result, value)
    return result


def _plain_dtype(value: jax.Array) -> object:
    """The dtype; nothing is equal to that of a boolean, whose sum is no sum."""
    dtype = getattr(value, "dtype", None)
    return object() if dtype in (None, np.dtype("bool")) else dtype


@scalar_function.register(math.Softplus)
def _softplus(op: object, node: Apply) -> ScalarFunction:
    """With one exponential; PyTensor's, by cases, computes three, and XLA all cases."""
    return lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


# XLA takes these three from one exponential of the whole argument, and an argument near the end of
# the range, rounded once, costs the last two digits of a float32.


@scalar_function.register(basic.Exp2)
def _exp2(op: object, node: Apply) -> ScalarFunction:
    def exp2(x: jax.Array) -> jax.Array:
        whole = jnp.round(x)
        exponent = jnp.clip(jnp.nan_to_num(whole), -3000, 3000).astype("int32")
        exact = jnp.ldexp(jnp.exp2(x - whole), exponent)
        return jnp.where(jnp.isinf(x), jnp.exp2(x), exact)

    return exp2 if _is_real(node) else jnp.exp2


@scalar_function.register(basic.Sinh)
def _sinh(op: object, node: Apply) -> ScalarFunction:
    def sinh(x: jax.Array) -> jax.Array:
        root = jnp.exp(jnp.abs(x) / 2)  # its square would overflow before the result does
        large = jnp.sign(x) * (root / 2 * root - 0.5 / root / root)
        return jnp.where(jnp.abs(x) < 1, jnp.sinh(x), large)

    return sinh if _is_real(node) else jnp.sinh


@scalar_function.register(basic.Cosh)
def _cosh(op: object, node: Apply) -> ScalarFunction:
    def cosh(x: jax.Array) -> jax.Array:
        root = jnp.exp(jnp.abs(x) / 2)
        return root / 2 * root + 0.5 / root / root

    return cosh if _is_real(node) else jnp.cosh


def _is_real(node: Apply) -> bool:
    return not node.inputs[0].type.dtype.startswith("complex")


@scalar_function.register(basic.Complex)
def _complex(op: basic.Complex, node: Apply) -> ScalarFunction:
    # Integers come in the declared type, which is complex.
    return lambda x, y: jax.lax.complex(jnp.real(x), jnp.real(y))


@function_of("ComplexFromPolar")
def _complex_from_polar(radius: jax.Array, angle: jax.Array) -> jax.Array:
    require(~(radius < 0))  # PyTensor raises
    return jax.lax.complex(radius * jnp.cos(angle), radius * jnp.sin(angle))
