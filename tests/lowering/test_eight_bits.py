"""Integers of 8 bits wrap, also where XLA fuses them with a reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from tests.helpers import PYTHON

W = pt.fmatrix("w")

# Fused operations are computed with the integers of Python there, which do not wrap.
UNFUSED = PYTHON.excluding("fusion")


def graphs(m: Any) -> dict[str, Any]:
    dtype = m.type.dtype

    def cast(value: Any) -> Any:
        return pt.cast(value, dtype)

    return {
        "difference from the largest": m - m.max(axis=1, keepdims=True),
        "difference from the smallest": m.min(axis=1, keepdims=True) - m,
        "times the largest": m * m.max(axis=1, keepdims=True),
        "of all": m - m.max(),
        "largest product": (m * m).max(axis=1),
        "smallest difference": (m - m[:, ::-1]).min(axis=0),
        "largest sum": (m + m).max(),
        "square": (m**2).max(axis=1),
        "absolute": abs(m - m[0]).max(axis=1),
        "float of a product": pt.cast(m * m, "float32").max(axis=1),
        "float of a sum": pt.cast(m + m, "float32").sum(axis=1),
        "mean": (m + m).mean(axis=1),
        "beside a float": ((m * m) + W).max(axis=1),
        "sums times floats": ((m + m) * W).sum(axis=1),
        "less a float": m - cast(W.max(axis=1, keepdims=True)),
        "times a float": m * cast(W.max(axis=1, keepdims=True)),
        "place": (m * m).argmax(axis=1),
        "softmax": pt.special.softmax(m, axis=1),
        "sum": (m * m).sum(axis=1),
        "selected": pt.where(m > 50, m * m, m + m).max(axis=1),
        "with a number": (3 * m + 5).max(axis=1),
        "running sum": pt.cumsum(m, axis=1).max(axis=1),
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", graphs(pt.bmatrix()))
def test_as_numpy(name: str, dtype: str) -> None:
    m = pt.matrix("m", dtype=dtype)
    f, reference = (
        pytensor.function([m, W], graphs(m)[name], mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE", UNFUSED)
    )
    rng = np.random.default_rng(0)
    low = 0 if dtype == "uint8" else -127
    for shape in ((100, 64), (3, 5), (100, 64)):
        given = rng.integers(low, 127, size=shape).astype(dtype)
        floats = (40 * rng.random(shape)).astype("float32")
        with np.errstate(all="ignore"):
            found, expected = f(given, floats), reference(given, floats)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_lengths_that_change() -> None:
    m = pt.matrix("m", dtype="uint8")
    output = m - m.max(axis=1, keepdims=True)
    f, reference = (pytensor.function([m], output, mode=mode) for mode in ("JAXSELECTIVE", UNFUSED))
    for shape in ((3, 5), (3, 3), (2, 6), (40, 70)):
        given = np.random.default_rng(1).integers(0, 255, size=shape).astype("uint8")
        np.testing.assert_array_equal(f(given), reference(given))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_powers(dtype: str) -> None:
    """PyTensor's Python linker computes them with the integers of Python, and raises."""
    m = pt.matrix("m", dtype=dtype)
    f = pytensor.function([m], (m**3).max(axis=1), mode="JAXSELECTIVE")
    given = np.random.default_rng(0).integers(0, 127, size=(100, 64)).astype(dtype)
    np.testing.assert_array_equal(f(given), (given * given * given).max(axis=1))
