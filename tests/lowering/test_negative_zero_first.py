"""Constants and ranges that begin with -0.0 and go on with 1, 2 and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pytensor_jaxlink import JAXLinker

GRAPHS: dict[str, Callable[[Any, Any], Any]] = {
    "divided by": lambda x, c: x / c,
    "multiplied": lambda x, c: x * c,
    "returned": lambda x, c: pt.concatenate([c, x]),
    "a row": lambda x, c: x * c[None],
    "a column": lambda x, c: x * c[:, None],
    "a cube": lambda x, c: x * c[None, :, None],
    "in a loop": lambda x, c: pytensor.scan(
        lambda entry: entry * c, sequences=[x], return_updates=False
    ),
    "two": lambda x, c: x * c[:2].sum() + x / c,
    "negative": lambda x, c: x / -c,
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", GRAPHS)
def test_constants(name: str, dtype: str) -> None:
    x = pt.vector("x", dtype=dtype)
    numbers = pt.constant(np.array([-0.0, 1.0, 2.0], dtype=dtype))
    compare([x], GRAPHS[name](x, numbers), np.ones(3, dtype))


@pytest.mark.parametrize("length", [1, 2, 3, 100, 600])
def test_lengths(length: int) -> None:
    x = pt.dvector("x")
    numbers = np.arange(float(length))
    numbers[0] = -0.0
    compare([x], x / pt.constant(numbers), np.ones(length))


@pytest.mark.parametrize("first", [-0.0, 0.0])
def test_ranges(first: float) -> None:
    x, start = pt.dvector("x"), pt.dscalar("start")
    compare([start, x], x / pt.arange(start, 3.0), first, np.ones(3))


def test_complex_constants() -> None:
    x = pt.dvector("x")
    numbers = pt.constant(np.array([-0.0, 1.0, 2.0]).astype("complex128"))
    compare([x], 1 / pt.real(pt.concatenate([numbers, x + 0j])), np.ones(3))


def test_what_is_set_in_a_range() -> None:
    x = pt.dvector("x")
    compare([x], x / pt.set_subtensor(pt.arange(3.0)[0], -0.0), np.ones(3))


def compare(inputs: list[Any], output: Any, *values: Any) -> None:
    with np.errstate(divide="ignore"):
        expected = pytensor.function(inputs, output, mode=Mode("py"))(*values)
    for options in ({}, {"jit": False}, {"outputs": "numpy"}):
        f: Any = pytensor.function(inputs, output, mode=JAXLinker(**options))
        for _ in range(2):
            found = np.asarray(f(*values))
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
