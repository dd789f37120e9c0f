"""Comparisons at NaN: XLA knows what cannot be negative, and forgets that it may be NaN.

It also loses NaN in the larger and the smaller of two numbers beside a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import jaxify, load, save
from tests.helpers import PYTHON, compile_both

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


def beside_reductions(x: Any, y: Any) -> list[Any]:
    """The larger and the smaller of two, of which one is a reduction or goes into one."""
    sums = x.sum(axis=0)
    pairs: list[tuple[Any, Any]] = [
        (x, 0), (0, x), (x, y), (y, x), (sums + x, 0), (sums + x, y), (y, sums + x), (x, sums),
    ]  # fmt: skip
    found = [choose(*pair) for choose in (pt.maximum, pt.minimum) for pair in pairs]
    reduced = [each.sum(axis=0) for each in found]
    others = [found[2].max(axis=1), found[3].prod(axis=0), found[2].mean(), found[4].min()]
    return [*found, *reduced, *others, pt.clip(x, -1, 1).sum(axis=0), pt.clip(x, y, 2).sum(axis=0)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nan_beside_a_reduction(dtype: str) -> None:
    x, y = pt.matrix("x", dtype=dtype), pt.matrix("y", dtype=dtype)
    outputs = beside_reductions(x, y)
    f, reference = compile_both([x, y], outputs)
    traced = jax.jit(jaxify([x, y], outputs))
    rounding = 1e-12 if dtype == "float64" else 1e-3
    for values in (np.random.default_rng(0).normal(size=(64, 48)), np.zeros((64, 48))):
        given = values.astype(dtype)
        given[3, 4] = np.nan
        for arguments in ((given, given * 0 + 1), (np.ones_like(given), given)):
            expected = reference(*arguments)
            for found in (f(*arguments), traced(*arguments)):
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("choose", [pt.maximum, pt.minimum])
def test_signs_of_zeros_in_pairs(choose: Callable[..., Any], dtype: str) -> None:
    x, y = pt.vector("x", dtype=dtype), pt.vector("y", dtype=dtype)
    outputs = [choose(x, y), choose(y, x[0]), 1 / choose(x[1], y)]
    # Fused operations on float16 are computed in float32 there, which exchanges the two zeros.
    modes = ("JAXSELECTIVE", PYTHON.excluding("fusion"))
    f, reference = (pytensor.function([x, y], outputs, mode=mode) for mode in modes)
    signs = [np.array(v, dtype) for v in ([0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0])]
    for one, other in zip(f(*signs), reference(*signs), strict=True):
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.parametrize(
    ("end", "values", "expected"),
    [
        ("sum", [1.0], 1 << 24),
        ("sum", [np.inf, -np.inf], np.inf),
        ("sum", [-np.inf, np.nan], np.nan),
        ("min", [-np.inf, np.inf], -np.inf),
        ("min", [np.nan], np.nan),
    ],
)
def test_no_array_is_stored_for_the_sum_of_a_large_one(
    end: str, values: Sequence[float], expected: float
) -> None:
    x = pt.vector("x", dtype="float32")
    outputs = {"sum": pt.maximum(x, 0).sum(), "min": pt.minimum(-x, x).min()}
    f = jax.jit(jaxify([x], outputs[end]))
    given = np.ones(1 << 24, "float32")
    given[5 : 5 + len(values)] = values
    np.testing.assert_equal(float(f(given)), expected)
    if jax.default_backend() == "cpu":
        needed = f.lower(given).compile().memory_analysis()
        assert needed.temp_size_in_bytes < given.nbytes / 8


def test_saved_code_for_any_length(tmp_path: Path) -> None:
    x = pt.vector("x")
    f = pytensor.function([x], [pt.maximum(x, 0).sum(), pt.minimum(x, 1)], mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    for length in (2, 9, 700):
        total, least = loaded(np.arange(length, dtype=x.type.dtype))
        assert total == length * (length - 1) / 2
        assert least.sum() == length - 1
