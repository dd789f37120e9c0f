"""What a function gives for one case, and how it differs from the Python linker."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tests.edges.known import known


def outcome(function: Any, *arguments: Any) -> Any:
    """The value of a call as an array, or the class of what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # divisions by zero and the like, the same in both
        try:
            return np.asarray(function(*arguments))
        except Exception as error:
            return type(error)


def same(found: Any, expected: Any, *, rtol: float | None = None) -> bool:
    """Dtype, shape, values to rounding, NaN, infinities and signs of zero; or the exception."""
    if isinstance(expected, type) or isinstance(found, type):
        return found is expected
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    rtol = rtol or 64 * float(np.finfo(expected.dtype).eps)
    tiny = np.finfo(expected.dtype).tiny
    if not np.allclose(found, expected, rtol=rtol, atol=tiny, equal_nan=True):
        return False
    zero = (expected == 0) & (found == 0)
    return bool(np.all(np.signbit(found.real[zero]) == np.signbit(expected.real[zero])))


def difference(
    op: str, inputs: tuple[Any, ...], expected: Any, found: Any, **options: Any
) -> str | None:
    """The difference in words; None where there is none, or where the table names it."""
    if same(found, expected, **options) or known(op, inputs, expected, found) is not None:
        return None
    given = ", ".join(map(_text, inputs))
    return f"{op}({given}) is {_text(found)} where Python gives {_text(expected)}"


def _text(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    array = np.asarray(value)
    return f"{array.dtype}{list(array.shape)}:{array.tolist()}"
