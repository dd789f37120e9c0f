"""Comparisons at NaN: XLA knows what cannot be negative, and forgets that it may be NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import jaxify
from tests.helpers import compile_both

NOT_NEGATIVE: dict[str, Callable[[Any], Any]] = {
    "exp": pt.exp,
    "abs": pt.abs,
    "square": pt.sqr,
    "product": lambda x: x * x,
    "power": lambda x: pt.abs(x) ** 1.5,
    "maximum": lambda x: pt.maximum(x, 0),
    "density": lambda x: pt.exp(-pt.sqr(x)),
    "root": lambda x: pt.sqrt(pt.sqr(x)),
    "sum of squares": lambda x: pt.sqr(x).sum(keepdims=True),
}
COMPARED: dict[str, Callable[[Any], Any]] = {
    "at least": lambda a: a >= 0,
    "at most": lambda a: pt.le(0, a),
    "less": lambda a: a < 0,
    "more": lambda a: a > 0,
    "zeros": lambda a: a >= pt.zeros_like(a),
    "branch": lambda a: pt.switch(a >= 0, 1.0, 2.0),
    "all": lambda a: pt.all(a >= 0),
    "negated": lambda a: ~(a >= 0),
    "the other way round": lambda a: -a <= 0,
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NOT_NEGATIVE)
def test_what_is_not_negative_may_be_nan(name: str, dtype: str) -> None:
    if jax.default_backend() == "gpu" and (dtype, name) in (
        ("float32", "abs"),
        ("float32", "root"),
    ):
        pytest.skip("XLA takes some of these comparisons for true on GPUs: docs/devices.md")
    x = pt.vector("x", dtype=dtype)
    outputs = [compare(NOT_NEGATIVE[name](x)) for compare in COMPARED.values()]
    f, reference = compile_both([x], outputs)
    traced = jax.jit(jaxify([x], outputs))
    for values in ([np.nan, 0.0, -1.0, 2.0, -0.0, np.inf, -np.inf], [np.nan], [1.0], []):
        given = np.array(values, dtype)
        for one, also, other in zip(f(given), traced(given), reference(given), strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(also, other)
