"""Tensors with names of dimensions are arrays: they enter and leave regions as others do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.xtensor import xtensor
from pytensor.xtensor.type import as_xtensor

import pytensor_jaxlink
from pytensor_jaxlink import JAXLinker
from tests.helpers import PYTHON

X = np.arange(6.0).reshape(2, 3)


def graphs() -> tuple[Any, list[Any]]:
    x = xtensor("x", dims=("a", "b"), dtype="float64")
    return x, [pt.exp(x.values), x * 2, x.rename(a="c").sum("b"), x.transpose("b", "a"), x]


@pytest.mark.parametrize("options", [{}, {"outputs": "numpy"}, {"jit": True}, {"jit": False}])
def test_one_region(options: dict[str, Any]) -> None:
    x, outputs = graphs()
    f = pytensor.function([x], outputs, mode=JAXLinker(**options))
    expected = pytensor.function([x], outputs, mode=PYTHON)(X)
    for _ in range(2):
        for found, wanted in zip(f(X), expected, strict=True):
            assert isinstance(found, np.ndarray if options.get("outputs") else jax.Array)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted)
    assert f.explain().graph_break_count == 0
    with pytest.raises(TypeError):
        f(X[0])


def test_as_fast_as_tensors() -> None:
    """The arguments take the fast path, without conversion."""
    x, outputs = graphs()
    f = pytensor.function([x], outputs, mode="JAXSELECTIVE")
    f(X)
    before = f.stats.general_calls
    f(X)
    assert f.stats.general_calls == before


def test_a_size() -> None:
    n = xtensor("n", dims=(), dtype="int64")
    f = pytensor.function([n], pt.arange(n.values) * 2, mode="JAXSELECTIVE")
    assert f.static_argnums == (0,)
    np.testing.assert_array_equal(f(4), [0, 2, 4, 6])


def test_traced_and_differentiated() -> None:
    x, _ = graphs()
    function = pytensor_jaxlink.jaxify([x], [x * x])
    gradient = jax.grad(lambda value: function(value)[0].sum())(X)
    np.testing.assert_allclose(gradient, 2 * X)


def test_a_gradient_and_a_loop() -> None:
    x, _ = graphs()
    total = pytensor.scan(lambda row: (row**2).sum(), sequences=[x.values], return_updates=False)
    named = as_xtensor(total, dims=("a",))
    gradient = pytensor.grad(total.sum(), x)
    f = pytensor.function([x], [named, gradient], mode="JAXSELECTIVE")
    values, slopes = f(X)
    np.testing.assert_allclose(values, (X**2).sum(1))
    np.testing.assert_allclose(slopes, 2 * X)
    assert f.explain().graph_break_count == 0


@pytest.mark.parametrize("prefer", ["compiled", "graph"])
def test_saved(prefer: Any, tmp_path: Path) -> None:
    x, outputs = graphs()
    f = pytensor.function([x], outputs, mode="JAXSELECTIVE")
    expected = f(X)
    pytensor_jaxlink.save(f, tmp_path / "f")
    loaded = pytensor_jaxlink.load(tmp_path / "f", prefer=prefer)
    for found, wanted in zip(loaded(X), expected, strict=True):
        np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("dynamic", [True, "auto", False])
def test_lengths_that_change(dynamic: Any) -> None:
    x, y = xtensor("x", dims=("a", "b")), xtensor("y", dims=("a",))
    n = xtensor("n", dims=(), dtype="int64")
    outputs = [x.sum("a"), (x + y).sum("b"), pt.arange(n.values), y.sum() * 2]
    mode = JAXLinker(dynamic=dynamic)
    functions = [pytensor.function([x, y, n], outputs, mode=mode) for mode in (mode, PYTHON)]
    for count in (3, 2, 5, 0, 6):
        given = np.ones((count, 4)), np.arange(float(count)), count
        for found, expected in zip(*(function(*given) for function in functions), strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected)
    assert functions[0].stats.fallbacks == 0
