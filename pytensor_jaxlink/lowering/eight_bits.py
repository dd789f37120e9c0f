"""Integers of 8 bits, computed in 32.

XLA's library for CPUs saturates sums, differences and products of them where they are fused with a
reduction (docs/upstream.md).  It has no reductions of 32 bits, and what is wrapped explicitly it
need not round.
"""

from __future__ import annotations

import jax
from pytensor.scalar.basic import Abs, Add, Mul, Neg, Sqr, Sub

from pytensor_jaxlink.lowering.coercion import as_dtype
from pytensor_jaxlink.lowering.rule import JaxFunction

EIGHT_BITS = frozenset(["int8", "uint8"])

MAY_OVERFLOW = (Abs, Add, Mul, Neg, Sqr, Sub)
"""The scalar Ops whose results may have more bits than their operands."""


def wrapping(function: JaxFunction, dtype: str) -> JaxFunction:
    """An operation on integers of 8 bits, with a result that wraps."""

    def wrapped(*values: jax.Array) -> jax.Array:
        operands = (as_dtype(as_dtype(value, dtype), "int32") for value in values)
        return narrowed(function(*operands), dtype)

    return wrapped


def narrowed(wide: jax.Array, dtype: str) -> jax.Array:
    """The last 8 bits of integers of 32."""
    return ((wide & 255) if dtype == "uint8" else (wide << 24) >> 24).astype(dtype)
