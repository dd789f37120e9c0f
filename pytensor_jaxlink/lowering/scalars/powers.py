"""Powers of integers by integers, of complex numbers, and logarithms of powers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.eight_bits import EIGHT_BITS, narrowed
from pytensor_jaxlink.lowering.scalars.opaque import hiding
from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    common_dtype,
    constant_of,
    integer_dtype,
    scalar_function,
)


@scalar_function.register(basic.Pow)
def _pow(op: object, node: Apply) -> ScalarFunction | None:
    """Exact modulo the size of the type; JAX's looks at the last six bits of the exponent."""
    if common_dtype(node).kind == "c":
        return _complex_power
    if common_dtype(node).kind not in "biu":
        return None
    result = integer_dtype(node)
    exponent = constant_of(node.inputs[1])
    if exponent is not None and bool(np.all(exponent >= 0)):
        bits = int(exponent.max(initial=0)).bit_length()
        return lambda x, y: _power_of_bits(jnp.asarray(x, result), jnp.asarray(y, result), bits)

    def power(x: jax.Array, y: jax.Array) -> jax.Array:
        x, y = jnp.broadcast_arrays(jnp.asarray(x, result), jnp.asarray(y, result))
        if result.kind == "i":
            require(y >= 0)  # NumPy raises, as there is no integer to return
        return _power(x, y)

    return power


def _complex_power(x: jax.Array, y: jax.Array) -> jax.Array:
    """XLA's, which takes logarithms; but zero to a positive power is zero, as in C."""
    is_zero = (x == 0) & (jnp.real(y) > 0)
    return jnp.where(is_zero, 0, jnp.power(jnp.where(is_zero, 1, x), y))


def _power_of_bits(x: jax.Array, y: jax.Array, bits: int) -> jax.Array:
    if x.dtype.name in EIGHT_BITS:
        return narrowed(_power_of_bits(x.astype("int32"), y.astype("int32"), bits), x.dtype.name)
    power = jnp.ones((), x.dtype)
    for bit in range(bits):
        power = jnp.where((y >> bit) & 1 == 1, power * x, power)
        x = x * x if bit < bits - 1 else x
    return jnp.broadcast_to(power, jnp.broadcast_shapes(x.shape, y.shape))


def _power(x: jax.Array, y: jax.Array) -> jax.Array:
    """As many squarings as the largest exponent has bits."""

    def goes_on(state: tuple[jax.Array, ...]) -> jax.Array:
        return (state[2] > 0).any()

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        power, x, y = state
        return jnp.where(y & 1 == 1, power * x, power), x * x, y >> 1

    return lax.while_loop(goes_on, step, (jnp.ones_like(x), x, y))[0]


def _logarithm(op: object, node: Apply) -> ScalarFunction | None:
    return hiding(_LOGARITHMS[type(op)], node, basic.Pow)


_LOGARITHMS: dict[type[object], ScalarFunction] = {
    basic.Log: jnp.log,
    basic.Log2: jnp.log2,
    basic.Log10: jnp.log10,
}

for _kind in _LOGARITHMS:
    scalar_function.register(_kind, _logarithm)
