"""Linear algebra and transforms of integers: NumPy computes them in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor import fft, linalg
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.fourier import Fourier
from pytensor.tensor.signal import convolve2d

from tests.edges.compare import in_either_dtype
from tests.helpers import compile_both, outcome

OF_MATRICES: dict[str, Callable[[Any], Any]] = {
    "det": linalg.det,
    "inverse": linalg.inv,
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "eigvalsh": lambda a: linalg.eigvalsh(a, None),
    "eigh": lambda a: linalg.eigh(a)[0],
    "eig": lambda a: linalg.eig(a)[0],
    "svd": lambda a: linalg.svd(a, compute_uv=False),
    "pseudo-inverse": linalg.pinv,
    "lu": lambda a: linalg.lu(a)[2],
    "lu_factor": lambda a: linalg.lu_factor(a)[0],
    "lu_solve": lambda a: linalg.lu_solve(linalg.lu_factor(a), a[0]),
    "solve": lambda a: linalg.solve(a, a[0]),
    "exponential": lambda a: linalg.expm(a % 3),
    "exponential of one entry": lambda a: linalg.expm(a[:1, :1] % 3 + np.int32(0)),
    "tensorinv": lambda a: linalg.tensorinv(a, 1),
    "a batch": lambda a: linalg.inv(pt.stack([a, a + 1])),
    "rfft": fft.rfft,
    "fourier": lambda a: Fourier()(a, a.shape[1], 1),
    "convolution": lambda a: convolve2d(a, a, mode="full", method="fft"),
}


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_matrices_of_integers(name: str, dtype: str) -> None:
    a = pt.matrix("a", dtype=dtype)
    large = 100 if dtype == "int8" else 10_000
    matrix = np.array([[large + 1, large + 2], [large + 3, large + 5]], dtype)
    f, reference = compile_both([a], OF_MATRICES[name](a))
    found, expected = outcome(f, matrix), outcome(reference, matrix)
    assert not isinstance(expected, type)
    expected = in_either_dtype(expected, found, f.maker.fgraph.outputs[0].type.dtype)
    rounding = 1e-4 if found.dtype in ("float32", "complex64") else 1e-7
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


@pytest.mark.skipif("initial" not in signature(pt.max).parameters, reason="of PyTensor 3.3")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
def test_the_largest_of_nothing_is_the_least_of_the_type(dtype: str) -> None:
    x, mask = pt.vector("x", dtype=dtype), pt.vector("mask", dtype="bool")
    m = pt.matrix("m", dtype=dtype)
    outputs = [
        pt.max(x[mask], initial=-np.inf),
        pt.min(x, initial=np.inf),
        pt.max(m, axis=0, initial=-np.inf),
    ]
    f, reference = compile_both([x, mask, m], outputs)
    empty = np.zeros(0, dtype), np.zeros(0, bool), np.zeros((0, 3), dtype)
    for found, expected in zip(f(*empty), reference(*empty), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("values", [np.zeros(0), np.ones(2)], ids=len)
def test_a_loop_of_scalars_counts_no_negative_steps(values: np.ndarray) -> None:
    a, n, x = ps.float64("a"), pt.lscalar("n"), pt.dvector("x")
    loop = Elemwise(ScalarLoop(init=[a], update=[a * 2], constant=[]))
    f, reference = compile_both([n, x], loop(n, x))
    for steps in (-1, 0, 2):
        found, expected = outcome(f, steps, values), outcome(reference, steps, values)
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["inverse", "slogdet", "svd", "pseudo-inverse", "solve"])
def test_operations_on_what_is_declared_single(name: str) -> None:
    """Python hands float64 on, and here it is the float32 that is declared."""
    a = pt.matrix("a", dtype="int8")
    matrix = np.array([[93, 71, 11], [27, -85, 3], [-101, 56, 77]], "int8")
    f, reference = compile_both([a], OF_MATRICES[name](a).astype("float64"))
    found, expected = outcome(f, matrix), outcome(reference, matrix)
    assert found.dtype == expected.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (found != expected).any()
