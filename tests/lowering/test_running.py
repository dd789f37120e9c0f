"""Running sums and products: each entry as NumPy computes it, from the first on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax.test_util import check_grads

from pytensor_jaxlink import JAXLinker, jaxify, load, save
from pytensor_jaxlink.lowering.running import _along
from tests.helpers import PYTHON, compile_both

ONE_CPU = jax.default_backend() == "cpu" and jax.device_count() == 1
KINDS: dict[str, Any] = {"sum": pt.cumsum, "product": pt.cumprod}


def _large(dtype: str) -> float:
    return float(np.sqrt(np.finfo(dtype).max)) * 0.9


def _bits(found: Any, expected: Any) -> None:
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    for part in ("real", "imag"):
        one, other = (getattr(value, part) for value in (found, expected))
        known = ~np.isnan(other)
        np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]))


def _edges(dtype: str, length: int) -> list[np.ndarray]:
    """Vectors of which parts overflow or vanish, and the running product does not."""
    large = _large(dtype)
    rows = [
        [0.0] + [large] * (length - 1),
        [-0.0] * length,
        [np.inf] + [1 / large] * (length - 1),
        [large] * (length - 1) + [0.0],
        [1 / large] + [large, large, 1 / large, 1 / large] * (length // 4),
        [1.0] + [np.nan] + [large] * (length - 2),
    ]
    return [np.array(row[:length], dtype) for row in rows]


@pytest.mark.skipif(not ONE_CPU, reason="JAX's functions run there")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_that_leave_the_range(kind: str, dtype: str) -> None:
    x = pt.vector(dtype=dtype)
    function, reference = compile_both([x], KINDS[kind](x), JAXLinker(recompile_limit=100))
    with np.errstate(all="ignore"):
        for length in (2, 32, 33, 129, 5_000):
            for given in _edges(dtype, length):
                _bits(function(given), reference(given))
    assert function.stats.fallbacks == 0


@pytest.mark.skipif(not ONE_CPU, reason="JAX's functions run there")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex128"]
)
def test_each_type_and_axis(kind: str, dtype: str) -> None:
    x = pt.tensor(dtype=dtype, shape=(None, None, None))
    results = [KINDS[kind](x, axis) for axis in (None, 0, 1, 2)]
    function, reference = compile_both([x], results, JAXLinker(recompile_limit=100))
    random = np.random.default_rng(0)
    for shape in ((0, 2, 3), (2, 0, 3), (1, 1, 1), (2, 3, 4), (2, 50, 3)):
        given = (random.normal(size=shape) * 3 + random.normal(size=shape) * 1j).astype("c16")
        array = (given if dtype.startswith("c") else given.real).astype(dtype)
        with np.errstate(over="ignore"):
            pairs = list(zip(function(array), reference(array), strict=True))
        for found, expected in pairs:
            if dtype == "complex128":  # XLA fuses a product with a sum
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            else:
                _bits(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_transformations(kind: str) -> None:
    x = pt.dvector()
    function = jaxify([x], KINDS[kind](x))
    rows = np.random.default_rng(0).uniform(0.5, 1.5, (5, 40))
    expected = (np.cumsum if kind == "sum" else np.cumprod)(rows, 1)
    np.testing.assert_allclose(jax.vmap(function)(rows), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(function))(rows), expected, rtol=1e-12)
    check_grads(function, (rows[0],), 2, ["fwd", "rev"])
    check_grads(jax.vmap(function), (rows[:, :4],), 1, ["rev"])


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_loop_and_its_gradient(kind: str) -> None:
    x, n = pt.dvector(), pt.lscalar()
    last = pytensor.scan(
        lambda before: KINDS[kind](pt.tanh(before)),
        outputs_info=[x],
        n_steps=n,
        return_updates=False,
    )[-1]
    function, reference = compile_both([x, n], [last, pytensor.grad(last.sum(), x)])
    for length, steps in ((3, 1), (40, 4)):
        given = np.linspace(0.5, 1.5, length)
        for found, expected in zip(function(given, steps), reference(given, steps), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_code_for_any_length(kind: str, tmp_path: Path) -> None:
    x = pt.dvector()
    function = pytensor.function([x], KINDS[kind](x[1:]), mode="JAXSELECTIVE")
    function(np.ones(3))
    save(function, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    reference = pytensor.function([x], KINDS[kind](x[1:]), mode=PYTHON)
    for length in (2, 9, 700):
        given = np.linspace(0.9, 1.1, length)
        np.testing.assert_allclose(loaded(given), reference(given), rtol=1e-12)


def test_code_is_made_once_where_nobody_traces() -> None:
    x = pt.dmatrix()
    function = jaxify([x], pt.cumprod(x, axis=1))
    before = _along._cache_size()
    function(np.ones((2, 3)))
    known = _along._cache_size()
    assert known == before + 1
    function(np.full((2, 3), 2.0))
    assert _along._cache_size() == known
