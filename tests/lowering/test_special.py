"""Special functions against SciPy over their domains, their gradients, and that nothing breaks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.special

from tests.helpers import PYTHON

INF, NAN = np.inf, np.nan
TINY = 1e-300
TAILS = np.concatenate([[1e-12, 1e-8, 1e-5, 1e-3], np.linspace(0.02, 0.98, 17), [0.999, 1 - 1e-9]])
SHAPES = np.array([0.02, 0.3, 0.9, 1, 1.5, 3, 9.99, 10, 30, 200, 1e4])
NEGATIVE_ORDERS = [-30, -12.5, -7.3, -2, -1.5, -1, -0.5, -1e-3]
POSITIVE_ORDERS = [0, 1e-3, 0.3, 0.5, 1, 1.5, 2, 2.5, 4.7, 10, 24.99, 25, 30.5, 60, 333.3, 1000]
ORDERS = np.array([*NEGATIVE_ORDERS, *POSITIVE_ORDERS])
SMALL = [1e-20, 1e-6, 0.01, 0.3, 0.99, 1, 1.01, 2, 2.4, 3.9, 5, 8, 11.5, 15, 20, 24.9]
POINTS = np.array([*SMALL, 25, 31, 49, 70, 100, 333, 1e3, 1e4])
PARAMETERS = np.array([-3.3, -2, -0.5, 0.3, 1, 1.7, 5])
LOWER = np.array([-2.5, 0.4, 1, 1.5, 3, 7.7])
ARGUMENTS = np.array([-50, -3, -1, -0.5, -0.2, 1e-3, 0.1, 0.5, 0.6, 0.75, 0.9, 0.95])
LINE = np.concatenate([-np.linspace(0.1, 25, 40), [0, 1e-20], np.linspace(0.1, 60, 80), [1e3, 1e6]])

# The name, the grid of each argument, and the argument with a gradient.
FUNCTIONS = {
    "betaincinv": ((SHAPES, SHAPES, TAILS), 2),
    "gammaincinv": ((SHAPES, TAILS), 1),
    "gammainccinv": ((SHAPES, TAILS), 1),
    "kve": ((ORDERS, POINTS), 1),
    "ive": ((ORDERS, POINTS), 1),
    "jv": ((ORDERS, POINTS), 1),
    "j0": ((LINE,), 0),
    "j1": ((LINE,), 0),
    "erfcx": ((LINE,), 0),
    "hyp2f1": ((PARAMETERS, PARAMETERS, LOWER, ARGUMENTS), 3),
}


def grid(name: str) -> list[np.ndarray]:
    return [each.ravel() for each in np.meshgrid(*FUNCTIONS[name][0], indexing="ij")]


@cache
def function_of(name: str, dtype: str = "float64", linker: Any = "JAXSELECTIVE") -> Any:
    inputs = [pt.vector(dtype=dtype) for _ in FUNCTIONS[name][0]]
    return pytensor.function(inputs, getattr(pt, name)(*inputs), mode=linker)


@cache
def gradient_of(name: str, linker: Any = "JAXSELECTIVE") -> Any:
    inputs = [pt.vector() for _ in FUNCTIONS[name][0]]
    cost = getattr(pt, name)(*inputs).sum()
    return pytensor.function(inputs, pt.grad(cost, inputs[FUNCTIONS[name][1]]), mode=linker)


def difference(found: Any, expected: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The error relative to the size of the function; nothing where both are as good as 0."""
    found = np.asarray(found)
    with np.errstate(all="ignore"):
        error = np.abs(found - expected) / size
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        none = (np.abs(found) < TINY) & (np.abs(expected) < TINY)
        # SciPy's library takes more for an overflow or an underflow than has to be.
        over = (np.abs(found) > 1e290) & ~np.isfinite(expected)
        under = (np.abs(found) < 1e-290) & (expected == 0)
    return np.where(same | none | over | under, 0.0, np.where(np.isnan(error), INF, error))


def size_of(name: str, arguments: list[np.ndarray], value: np.ndarray) -> np.ndarray:
    """Absolute values; of functions that oscillate, the amplitude."""
    if name not in ("jv", "j0", "j1"):
        return np.abs(value)
    order = arguments[0] if name == "jv" else np.full_like(value, float(name[1]))
    x = np.abs(arguments[-1])
    with np.errstate(all="ignore"):
        other = scipy.special.yv(order, x)
        return np.where(x > np.abs(order), np.hypot(value, other), np.abs(value))


# Where SciPy gives NaN, infinity or wrong digits, for which the right ones are known.
def is_right_in_scipy(name: str, arguments: list[np.ndarray], expected: np.ndarray) -> np.ndarray:
    if name != "hyp2f1":
        return np.ones(expected.shape, bool)
    return np.isfinite(expected) & (arguments[3] > -3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_over_the_domain(name: str) -> None:
    arguments = grid(name)
    function = function_of(name)
    expected = getattr(scipy.special, name)(*arguments)
    error = difference(function(*arguments), expected, size_of(name, arguments, expected))
    error = np.where(is_right_in_scipy(name, arguments, expected), error, 0.0)
    worst = error.argmax()
    assert error[worst] < 1e-10, [each[worst] for each in arguments]
    assert (error == 0).mean() < 0.9
    explanation = function.explain()
    assert not explanation.graph_break_count, explanation
    assert function.stats.rescues == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    arguments = [each[:: max(1, len(each) // 300)] for each in grid(name)]
    reference = gradient_of(name, PYTHON)
    with np.errstate(all="ignore"):
        expected = reference(*arguments)
    function = gradient_of(name)
    found = np.asarray(function(*arguments))
    value = getattr(scipy.special, name)(*arguments)
    ordinary = (np.abs(expected) > TINY) & (np.abs(expected) < 1e290) & (np.abs(value) > 1e-290)
    ordinary &= is_right_in_scipy(name, arguments, expected)
    if name == "betaincinv":
        ordinary &= value < 0.999  # PyTensor's formula has a power of 1 - value
    size = np.abs(expected) + np.abs(value)
    error = np.where(ordinary, difference(found, expected, size), 0.0)
    worst = error.argmax()
    assert error[worst] < 1e-9, [each[worst] for each in arguments]
    explanation = function.explain()
    assert not explanation.graph_break_count, explanation
