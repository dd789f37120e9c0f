"""Conversions between dtypes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.coercion import as_dtype, integer_of
from pytensor_jaxlink.lowering.scalars.question import ScalarFunction, scalar_function


@scalar_function.register(basic.Cast)
def _cast(op: basic.Cast, node: Apply) -> ScalarFunction | None:
    given, wanted = np.dtype(node.inputs[0].type.dtype), np.dtype(op.o_type.dtype)
    if given.kind == "f" and wanted.kind in "iu":
        return lambda value: integer_of(jnp.asarray(value), wanted)
    if given.kind == "c" and wanted.kind in "iu":
        return lambda value: integer_of(jnp.real(value), wanted)
    if wanted == np.float16:
        return lambda value: as_dtype(jnp.real(value), wanted)
    if given.kind == "b" and wanted.kind != "b":
        return lambda value: as_dtype(value, wanted)
    return None
