"""Conversions between dtypes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.coercion import as_dtype
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction, scalar_function


@scalar_function.register(basic.Cast)
def _cast(op: basic.Cast, node: Apply) -> ScalarFunction | None:
    given, wanted = np.dtype(node.inputs[0].type.dtype), np.dtype(op.o_type.dtype)
    if given.kind == "f" and wanted.kind in "iu":
        return lambda value: _integer_of(jnp.asarray(value), wanted)
    if given.kind == "c" and wanted.kind in "iu":
        return lambda value: _integer_of(jnp.real(value), wanted)
    if given == np.float64 and wanted == np.float16:
        return lambda value: _half_of(jnp.asarray(value))
    if given.kind == "b" and wanted.kind != "b":
        return lambda value: as_dtype(value, wanted)
    return None


def _half_of(value: Any) -> Any:
    """A float64 rounded once; XLA rounds it to float32 first."""
    limits = np.finfo(np.float16)
    least = float(limits.smallest_subnormal)
    fine = jnp.round(value / least) * least  # `reduce_precision` takes denormal numbers for zero
    half = lax.reduce_precision(value, exponent_bits=limits.nexp, mantissa_bits=limits.nmant)
    return jnp.where(jnp.abs(value) < limits.tiny, fine, half).astype(np.float16)


def _integer_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Numbers out of range as NumPy converts them on common processors; XLA goes to the nearest.

    They wrap from the integer type that the processor converts to.  What has no place in it,
    NaN and infinity included, becomes its smallest number.
    """
    word = np.dtype("int32" if dtype.itemsize < 4 or dtype == np.int32 else "int64")
    limit = float(2 ** (8 * word.itemsize - 1))
    beyond = (value >= limit) & (dtype == np.uint64)
    value = jnp.where(beyond, value - limit, value)
    representable = (value >= -limit) & (value < limit)
    smallest = jnp.asarray(np.iinfo(word).min, word)
    whole = jnp.where(representable, value.astype(word), smallest)
    return jnp.where(beyond, whole ^ smallest, whole).astype(dtype)
