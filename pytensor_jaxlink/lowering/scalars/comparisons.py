"""Comparisons of numbers that JAX compares otherwise than NumPy.

Complex numbers are ordered by the real part, then by the imaginary part; JAX compares NaN in one
part and goes on to the other.  A uint64 and a signed integer are compared exactly; JAX converts
both to float64.  XLA takes `exp(x) >= 0` for true, which is false for NaN; so of real numbers NaN
is asked for, too.  The larger or smaller of two real numbers is a selection: beside a sum XLA gives
its own maximum to a library that loses NaN (docs/upstream.md), and leaves the sign of a zero open.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from pytensor.graph.basic import Apply
from pytensor.scalar import basic

from pytensor_jaxlink.lowering.scalars.question import (
    ScalarFunction,
    common_dtype,
    dtypes_of,
    scalar_function,
)
from pytensor_jaxlink.size_functions import is_open

_LARGE = 32 << 20
"""The bytes from which glibc maps each array anew (M_MMAP_THRESHOLD, at its most)."""


def _is_less(x: jax.Array, y: jax.Array, *, or_equal: bool = False) -> jax.Array:
    numbers = ~(jnp.isnan(jnp.imag(x)) | jnp.isnan(jnp.imag(y)))
    below = jnp.less_equal if or_equal else jnp.less
    first = (jnp.real(x) < jnp.real(y)) & numbers
    return first | ((jnp.real(x) == jnp.real(y)) & below(jnp.imag(x), jnp.imag(y)))


def _is_greater(x: jax.Array, y: jax.Array, *, or_equal: bool = False) -> jax.Array:
    return _is_less(y, x, or_equal=or_equal)


def _extreme(wins: ScalarFunction, x: jax.Array, y: jax.Array) -> jax.Array:
    """The first of two that are equal; NaN where one is."""
    return jnp.where(wins(x, y, or_equal=True) | jnp.isnan(x), x, y)


def _extreme_of_real(
    is_beyond: ScalarFunction, extreme: ScalarFunction, x: jax.Array, y: jax.Array
) -> jax.Array:
    """The second of two that are equal; NaN where one is.

    The selection is an array of its own beside a sum.  An array that the C library would take from
    the system, page by page, costs several times the sum; there NaN is added to XLA's maximum.
    """
    dtype = jnp.result_type(x, y)
    entries = math.prod(jnp.broadcast_shapes(jnp.shape(x), jnp.shape(y)))
    if not is_open(entries) and entries * dtype.itemsize > _LARGE:
        signs = jnp.sign(x) + jnp.sign(y)
        return extreme(x, y) - (signs - signs)
    return jnp.where(is_beyond(x, y) | jnp.isnan(x), x, y)


def _at_least(x: jax.Array, y: jax.Array) -> jax.Array:
    """LLVM makes one comparison of it.  On GPUs XLA joins ``>`` and ``==``, and overlooks NaN."""
    return jnp.greater_equal(x, y) & ~jnp.isnan(x) & ~jnp.isnan(y)


def _at_most(x: jax.Array, y: jax.Array) -> jax.Array:
    return _at_least(y, x)


_FUNCTIONS: dict[type, ScalarFunction] = {
    basic.LT: _is_less,
    basic.GT: _is_greater,
    basic.LE: partial(_is_less, or_equal=True),
    basic.GE: partial(_is_greater, or_equal=True),
    basic.Maximum: partial(_extreme, _is_greater),
    basic.Minimum: partial(_extreme, _is_less),
}
_OF_REAL: dict[type, ScalarFunction] = {
    basic.GE: _at_least,
    basic.LE: _at_most,
    basic.Maximum: partial(_extreme_of_real, jnp.greater, jnp.maximum),
    basic.Minimum: partial(_extreme_of_real, jnp.less, jnp.minimum),
}
_OF_INTEGERS: dict[type, ScalarFunction] = {
    basic.LT: jnp.less,
    basic.GT: jnp.greater,
    basic.LE: jnp.less_equal,
    basic.GE: jnp.greater_equal,
    basic.EQ: jnp.equal,
    basic.NEQ: jnp.not_equal,
}


def mixes_integers(node: Apply) -> bool:
    """Return True if a node compares a uint64 with a signed integer."""
    kinds = {dtype.kind for dtype in dtypes_of(node)}
    return kinds == {"i", "u"} and common_dtype(node).kind == "f"


def _compare_integers(compare: ScalarFunction, x: jax.Array, y: jax.Array) -> jax.Array:
    """A negative number is below every unsigned one."""
    x_below, y_below = x < 0, y < 0
    exact = compare(jnp.asarray(x, "uint64"), jnp.asarray(y, "uint64"))
    return jnp.where(x_below, compare(0, 1), jnp.where(y_below, compare(1, 0), exact))


def _compare(op: object, node: Apply) -> ScalarFunction | None:
    if type(op) in _OF_INTEGERS and mixes_integers(node):
        return partial(_compare_integers, _OF_INTEGERS[type(op)])
    functions, common = {"c": _FUNCTIONS, "f": _OF_REAL}, common_dtype(node)
    function = functions.get(common.kind, {}).get(type(op))
    if function and common == "float16" and isinstance(op, basic.Maximum | basic.Minimum):
        return lambda x, y: function(y, x)  # of equal halves NumPy takes the first
    return function


for _kind in {**_FUNCTIONS, **_OF_INTEGERS}:
    scalar_function.register(_kind, _compare)
