"""Draws with parameters and results of narrow types: NumPy computes in 64 bits, then converts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytensor.tensor.random.basic as draws
import pytest

from tests.helpers import PYTHON, outcome

COUNT = 20_000

ALIKE: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...]]] = {
    "hypergeometric as int8": (
        lambda *given, **o: draws.hypergeometric(*given, dtype="int8", **o), "int64", (1000, 10, 5)
    ),
    "geometric as int16": (
        lambda p, **o: draws.geometric(p, dtype="int16", **o), "float64", (1e-5,)
    ),
    "poisson as uint8": (lambda p, **o: draws.poisson(p, dtype="uint8", **o), "float64", (300.0,)),
    "triangular from the left": (draws.triangular, "int8", (-100, -90, 100)),
    "triangular to the right": (draws.triangular, "int8", (-100, 100, 110)),
    "triangular of all integers": (draws.triangular, "int64", (-(2**63), 0, 2**63 - 1)),
    "uniform": (draws.uniform, "int8", (-100, 100)),
    "wide uniform": (draws.uniform, "float32", (-3e38, 3e38)),
    "integers": (draws.integers, "uint8", (3, 255)),
    "integers between reals": (draws.integers, "float64", (-1.5, 200.7)),
    "integers to the last": (draws.integers, "uint64", (0, 2**63)),
}  # fmt: skip

REFUSED: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...]]] = {
    "chances above 1 by rounding": (
        lambda p, size, **o: draws.multinomial(5, p, **o), "float32", ([0.6, 0.4, 0.0],)
    ),
    "uniform of uint8": (draws.uniform, "uint8", (5, 3)),
    "uniform of uint64": (draws.uniform, "uint64", (5, 3)),
    "uniform of int8": (draws.uniform, "int8", (100, -100)),
    "integers beyond the last": (draws.integers, "uint64", (0, 2**63 + 10)),
    "integers after the last": (draws.integers, "uint64", (2**63, 2**63 + 10)),
    "integers between no reals": (draws.integers, "float64", (0.2, 0.7)),
    "integers around 0": (draws.integers, "float64", (-0.5, 0.5)),
    "integers to infinity": (draws.integers, "float64", (0.0, np.inf)),
    "integers to a large real": (draws.integers, "float64", (0.0, 1e19)),
    "integers from NaN": (draws.integers, "float64", (np.nan, 1.0)),
}  # fmt: skip


def _drawing(draw: Callable[..., Any], dtype: str, values: Sequence[Any], mode: Any) -> Any:
    inputs = [pt.tensor(dtype=dtype, shape=(None,) * np.ndim(value)) for value in values]
    rng = pytensor.shared(np.random.default_rng(1))
    function = pytensor.function(inputs, draw(*inputs, size=(COUNT,), rng=rng), mode=mode)
    return partial(function, *[np.asarray(value, dtype) for value in values])


@pytest.mark.parametrize("name", ALIKE)
def test_means_and_extremes(name: str) -> None:
    expected, found = (
        np.asarray(_drawing(*ALIKE[name], mode)()) for mode in (PYTHON, "JAXSELECTIVE")
    )
    assert found.dtype == expected.dtype
    expected, found = (each.astype("longdouble") for each in (expected, found))
    width = expected.max() - expected.min()
    assert abs(found.mean() - expected.mean()) < 0.02 * width
    assert abs(found.min() - expected.min()) < 0.1 * width
    assert abs(found.max() - expected.max()) < 0.1 * width


@pytest.mark.parametrize("name", REFUSED)
def test_bounds_that_numpy_refuses(name: str) -> None:
    reference, function = (_drawing(*REFUSED[name], mode) for mode in (PYTHON, "JAXSELECTIVE"))
    with pytest.raises((ValueError, OverflowError)) as expected:
        reference()
    with pytest.raises(expected.type):
        function()


@pytest.mark.parametrize("method", ["cholesky", "svd", "eigh"])
@pytest.mark.parametrize("lengths", [(1, 3), (3, 2), (3, 1), (3, 3)])
def test_a_mean_of_another_length(method: str, lengths: tuple[int, int]) -> None:
    mean, covariance = pt.dvector("mean"), pt.dmatrix("covariance")
    rng = pytensor.shared(np.random.default_rng(1))
    out = draws.multivariate_normal(mean, covariance, method=method, rng=rng)
    given = np.ones(lengths[0]), np.eye(lengths[1])
    expected, found = (
        outcome(pytensor.function([mean, covariance], out, mode=mode), *given)
        for mode in (PYTHON, "JAXSELECTIVE")
    )
    assert isinstance(found, type) == isinstance(expected, type)
    assert found is expected or found.shape == expected.shape
