"""The splines of PyMC, without PyMC: an Op of the same name that calls SciPy."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.interpolate import InterpolatedUnivariateSpline

from pytensor_jaxlink import jaxify
from pytensor_jaxlink.lowering.splines import register_splines
from tests.helpers import compile_both

RNG = np.random.default_rng(6)
KNOTS, HEIGHTS = np.sort(RNG.normal(size=9)), RNG.normal(size=9)
BETWEEN = RNG.uniform(KNOTS[0], KNOTS[-1], 30)
WITHIN = np.concatenate([KNOTS, BETWEEN, np.nextafter(KNOTS, 0)[1:-1]])
BEYOND = [KNOTS[0] - 1, KNOTS[-1] + 2, np.nextafter(KNOTS[0], -9), np.nextafter(KNOTS[-1], 9)]


class SplineWrapper(Op):
    __props__ = ("spline",)

    def __init__(self, spline: Any) -> None:
        self.spline = spline

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = np.asarray(self.spline(inputs[0]), dtype=inputs[0].dtype)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("pymc.distributions.dist_math")
    module.SplineWrapper = SplineWrapper
    monkeypatch.setitem(sys.modules, module.__name__, module)
    register_splines()


@pytest.mark.parametrize("outside", ["extrapolate", "zeros", "raise", "const"])
@pytest.mark.parametrize("degree", [1, 3])
def test_splines_and_their_derivatives(degree: int, outside: str) -> None:
    spline = InterpolatedUnivariateSpline(KNOTS, HEIGHTS, k=degree, ext=outside)
    x = pt.dvector("x")
    f, reference = compile_both(
        [x], [SplineWrapper(each)(x) for each in (spline, spline.derivative())]
    )
    assert f.explain().graph_break_count == 0
    for given in (WITHIN, np.array(BEYOND), np.empty(0)):
        if outside == "raise" and given is not WITHIN and given.size:
            for function in (f, reference):
                with pytest.raises(ValueError, match="not in the domain"):
                    function(given)
        else:
            for found, expected in zip(f(given), reference(given), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    # SciPy extrapolates to infinity by a sum that may be NaN.
    strange = [np.nan, np.inf, -np.inf] if outside in ("zeros", "const") else [np.nan]
    for found, expected in zip(f(strange), reference(strange), strict=True):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_types_and_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    spline = InterpolatedUnivariateSpline(np.arange(4.0), [0.0, 30, 10, 5], k=1, ext="zeros")
    x = pt.tensor("x", dtype=dtype, shape=(None,) * len(shape))
    f, reference = compile_both([x], SplineWrapper(spline)(x))
    given = RNG.uniform(-1, 5, shape).astype(dtype)
    found, expected = f(given), reference(given)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_gradient_of_jax_is_the_derivative() -> None:
    spline = InterpolatedUnivariateSpline(KNOTS, HEIGHTS, k=3)
    x = pt.dscalar("x")
    slope = jax.jit(jax.grad(lambda value: jaxify([x], SplineWrapper(spline)(x))(value)))
    np.testing.assert_allclose(slope(BETWEEN[0]), spline.derivative()(BETWEEN[0]), rtol=1e-10)
