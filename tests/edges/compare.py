"""What a function gives for one case, and how it differs from the Python linker."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink import JAXLinker
from tests.edges.known import known
from tests.helpers import as_list, assert_same, compile_both

LESS_OPTIMISED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""The options with which XLA compiles in half the time."""


def quick() -> JAXLinker:
    """The linker for tables that XLA compiles in half the time, and optimises less."""
    return JAXLinker(compiler_options=LESS_OPTIMISED)


def quickly(function: Any, *arguments: Any) -> Any:
    """The results of a function of JAX, compiled as one program in half the time."""
    return jax.jit(function).lower(*arguments).compile(LESS_OPTIMISED)(*arguments)


def outcome(function: Any, *arguments: Any) -> Any:
    """The value of a call as an array, or the class of what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # divisions by zero and the like, the same in both
        try:
            return np.asarray(function(*arguments))
        except Exception as error:
            return type(error)


def outcomes(function: Any, *arguments: Any) -> Any:
    """The values of a call with a list of outputs as arrays, or the class of what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(value) for value in function(*arguments)]
        except Exception as error:
            return type(error)


def assert_as_in_python(inputs: Sequence[Any], output: Any, calls: Sequence[Any]) -> None:
    """Each call of a graph has the value of the Python linker, or raises the same class."""
    f, reference = compile_both(inputs, as_list(output))
    for arguments in calls:
        found, expected = (outcomes(each, *arguments) for each in (f, reference))
        if isinstance(expected, type) or isinstance(found, type):
            assert found is expected, arguments
        else:
            assert_same(found, expected)


def in_either_dtype(expected: Any, found: Any, declared: str) -> Any:
    """What Python gives, in the dtype of what is found.

    That is the one that the graph declares, or the one that an Op's `perform` gives instead
    (docs/known_differences.md).
    """
    either = (expected.dtype, np.dtype(declared))
    return expected.astype(found.dtype if found.dtype in either else declared)


def same(found: Any, expected: Any, **rounding: Any) -> bool:
    """Dtype, shape, values to rounding, NaN, infinities and signs of zero; or the exception."""
    if isinstance(expected, type) or isinstance(found, type):
        return found is expected
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    return bool(np.all(same_entries(found, expected, **rounding)))


def same_entries(
    found: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    of_largest: float = 0,
    signs_of_zero: bool = True,
) -> Any:
    """The entries of two arrays of one dtype and shape that are the same.

    Where they are sums with terms of both signs, the rounding is a part of the largest entry,
    ``of_largest``, or of 1.  The order of the terms of a gradient decides the sign of a zero.
    """
    if expected.dtype.kind not in "fc":
        return found == expected
    rtol = rtol or 64 * float(np.finfo(expected.dtype).eps)
    least = np.finfo(expected.dtype).tiny
    with np.errstate(all="ignore"):
        if of_largest:
            least += of_largest * np.max(np.abs(expected), where=np.isfinite(expected), initial=1)
        near = np.isclose(found, expected, rtol=rtol, atol=least, equal_nan=True)
    zero = (expected == 0) & (found == 0)
    signs = np.signbit(found.real) == np.signbit(expected.real)
    return near & (signs | ~zero | (not signs_of_zero))


def difference(
    op: str, inputs: tuple[Any, ...], expected: Any, found: Any, **options: Any
) -> str | None:
    """The difference in words; None where there is none, or where the table names it."""
    if same(found, expected, **options) or known(op, inputs, expected, found) is not None:
        return None
    given = ", ".join(map(_text, inputs))
    return f"{op}({given}) is {_text(found)} where Python gives {_text(expected)}"


def differences_of_entries(
    op: str, inputs: tuple[Any, ...], expected: Any, found: Any, **options: Any
) -> list[str]:
    """The differences of an elementwise function, entry by entry, so that rows can name them."""
    comparable = not isinstance(expected, type) and not isinstance(found, type)
    if not comparable or found.dtype != expected.dtype or found.shape != expected.shape:
        text = difference(op, inputs, expected, found, **options)
        return [] if text is None else [text]
    found_ones: list[str] = []
    for place in np.argwhere(~same_entries(found, expected, **options)):
        at = tuple(place)
        given = tuple(np.asarray(each[at]) for each in inputs)
        text = difference(op, given, np.asarray(expected[at]), np.asarray(found[at]), **options)
        found_ones += [] if text is None else [text]
    return found_ones


def _text(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    array = np.asarray(value)
    return f"{array.dtype}{list(array.shape)}:{array.tolist()}"
