"""Numbers of type float16: each result is rounded to one once, and its small numbers are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import jaxify
from tests.helpers import compile_both

SMALL = np.array([1e-3, 2e-4, 300, -1e-3, 6e-8, -6e-8, 1.5, 0, -0.0, 1e-2], "float16")


def _wide(value: Any) -> Any:
    return pt.cast(value, "float32")


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "product": lambda h: h * h,
    "product of three": lambda h: h * h * h,
    "quotient": lambda h: h / 300,
    "square, wide": lambda h: _wide(h**2),
    "exponential": lambda h: _wide(pt.exp(-pt.abs(h) * 9)),
    "larger": lambda h: _wide(pt.maximum(h * h, h)),
    "chosen": lambda h: _wide(pt.switch(h > 0, h * h, h)),
    "product of all": lambda h: pt.cast(h[:2].prod(), "float64") + h[:3].prod(),
    "variance": lambda h: _wide(h[:2].var()),
    "narrow and wide": lambda h: _wide(pt.cast(_wide(h) ** 2, "float16")),
    "float64, narrow and wide": lambda h: _wide(pt.cast(pt.cast(h, "float64") ** 2, "float16")),
    "in a loop": lambda h: _wide(
        pytensor.scan(
            lambda state: pt.cast(state * 0.01, "float16"), outputs_info=[h], n_steps=2,
            return_updates=False,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_values(name: str) -> None:
    h = pt.vector("h", dtype="float16")
    f, reference = compile_both([h], GRAPHS[name](h))
    with np.errstate(all="ignore"):
        found, expected = np.asarray(f(SMALL)), reference(SMALL)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivative_of_a_conversion(dtype: str) -> None:
    """Also where the number is zero, or smaller than what a float16 holds."""
    x = pt.vector("x", dtype=dtype)
    fn = jaxify([x], pt.cast(pt.cast(x, "float16"), dtype) * 2)
    numbers = np.array([0, -0.0, 1e-9, -3e-7, 1e-5, 2.5, -1000], dtype)
    np.testing.assert_array_equal(jax.grad(lambda x: fn(x).sum())(numbers), np.full(7, 2, dtype))
    _, forward = jax.jvp(jax.jit(fn), (numbers,), (np.ones(7, dtype),))
    np.testing.assert_array_equal(forward, np.full(7, 2, dtype))
