"""Rules that other tests do not reach, against the Python linker: no region breaks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import sparse
from pytensor.compile.mode import Mode
from pytensor.tensor import blas, fft
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.extra_ops import FillDiagonal
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.signal import conv
from scipy.sparse import csr_matrix

from pytensor_jaxlink import JAXLinker, jaxify
from tests.helpers import compile_both

SIGNAL = np.random.default_rng(1).normal(size=(3, 8))
CUBE = np.arange(24.0).reshape(2, 3, 4)
PATTERN = csr_matrix(np.array([[1.0, 0, 2], [0, 3, 0]]))
LEFT, RIGHT = CUBE[0], CUBE[1].T
NUMBER, SQUARE, ROW = np.float64(0.5), np.arange(9.0).reshape(3, 3), np.arange(4.0)

CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "rfft": (fft.rfft, (SIGNAL,)),
    "rfft of fewer": (lambda x: fft.rfft(x[:, :5]), (SIGNAL,)),
    "irfft": (lambda x: fft.irfft(fft.rfft(x)), (SIGNAL,)),
    "irfft of odd length": (lambda x: fft.irfft(fft.rfft(x), is_odd=True), (SIGNAL,)),
    "gradient of rfft": (lambda x: pt.grad((fft.rfft(x) ** 3).sum(), x), (SIGNAL,)),
    "join dimensions": (JoinDims(start_axis=1, n_axes=2), (CUBE,)),
    "join no dimension": (JoinDims(start_axis=1, n_axes=0), (CUBE,)),
    "split a dimension": (lambda x: SplitDims(axis=2)(x, pt.constant([2, 2])), (CUBE,)),
    "fill a diagonal": (FillDiagonal(), (LEFT, NUMBER)),
    "fill the diagonal of a cube": (FillDiagonal(), (np.ones((2, 2, 2)), NUMBER)),
    "Dot22": (blas._dot22, (LEFT, RIGHT)),
    "Dot22Scalar": (blas._dot22scalar, (LEFT, RIGHT, NUMBER)),
    "Gemm": (
        lambda z, a, x, y: blas.gemm_no_inplace(z, a, x, y, NUMBER),
        (SQUARE, NUMBER, LEFT, RIGHT),
    ),
    "Gemv": (
        lambda y, a, x, v: blas.gemv_no_inplace(y, a, x, v, NUMBER),
        (SQUARE[0], NUMBER, LEFT, ROW),
    ),
    "sampling_dot": (
        lambda x, y: sparse.dense_from_sparse(
            sparse.sampling_dot(x, y, sparse.as_sparse_variable(PATTERN))
        ),
        (LEFT[:2], RIGHT.T),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays(name: str) -> None:
    build, values = CASES[name]
    inputs = [pt.tensor(dtype=value.dtype, shape=(None,) * value.ndim) for value in values]
    output = build(*inputs)
    plain = pytensor.function(inputs, output, mode=Mode("py", None))
    f = pytensor.function(inputs, output, mode=Mode(JAXLinker(), None))
    for _ in range(2):
        found, expected = f(*values), plain(*values)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert found.dtype == expected.dtype
    assert len(f.plan.steps) == len(f.plan.regions) == 1


@pytest.mark.skipif(not hasattr(conv, "Convolve2d"), reason="PyTensor has no such Op")
@pytest.mark.parametrize("mode", ["full", "valid"])
def test_convolutions_of_booleans_are_alternatives(mode: str) -> None:
    x, y = pt.vector("x", dtype="bool"), pt.vector("y", dtype="bool")
    output = conv.convolve1d(x, y, mode=mode)
    f, reference = compile_both([x, y], output)
    traced = jax.jit(jaxify([x, y], output))
    draws = np.random.default_rng(0)
    for lengths in ((5, 3), (3, 5), (4, 4), (1, 1), (70, 40)):
        call = [draws.integers(0, 2, n).astype(bool) for n in lengths]
        expected = reference(*call)
        for found in (f(*call), traced(*call)):
            np.testing.assert_array_equal(found, expected, strict=True)
    assert f.explain().failures == ()


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_convolve2d(mode: str, method: str) -> None:
    x, y = pt.dmatrix("x"), pt.dmatrix("y")
    output = conv.convolve2d(x, y, mode=mode, method=method)
    plain = pytensor.function([x, y], output, mode=Mode("py", None))
    f = pytensor.function([x, y], output, mode="JAXSELECTIVE")
    np.testing.assert_allclose(f(SQUARE, LEFT[:2, :2]), plain(SQUARE, LEFT[:2, :2]), atol=1e-12)
    assert len(f.plan.regions) == 1


@pytest.mark.skipif(not hasattr(conv, "Convolve2d"), reason="PyTensor has no such Op")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_a_fourier_transform_of_integers_is_rounded(dtype: str) -> None:
    x = pt.matrix("x", dtype=dtype)
    output = conv.convolve2d(x, x[:2, :2], method="fft")
    plain = pytensor.function([x], output, mode=Mode("py", None))
    f = pytensor.function([x], output, mode="JAXSELECTIVE")
    given = (np.arange(36).reshape(6, 6) * 7).astype(dtype)
    np.testing.assert_array_equal(f(given), plain(given))
    assert f.stats.host_regions == 0


@pytest.mark.parametrize("mode", ["full", "valid"])
@pytest.mark.parametrize(
    ("one", "other"), [("int32", "int32"), ("int16", "uint16"), ("int64", "int8")]
)
def test_convolutions_of_integers_are_exact(mode: str, one: str, other: str) -> None:
    x, y = pt.matrix("x", dtype=one), pt.matrix("y", dtype=other)
    outputs = [conv.convolve1d(x[0], y[0], mode=mode), conv.convolve2d(x, y, mode=mode)]
    largest, least = np.iinfo(one).max, np.iinfo(other).min
    values = np.array([[largest, 3, -1, largest // 3]], one), np.array([[1, least, 7]], other)
    f, reference = compile_both([x, y], outputs)
    for call in (values, tuple(each[:, :2] for each in values), (values[0][:, :2], values[1])):
        for found, expected in zip(f(*call), reference(*call), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("kernel", [SIGNAL[0, :3], SIGNAL[:, :3]])
def test_batches_of_convolutions_are_one_region(mode: str, kernel: np.ndarray) -> None:
    x, y = pt.dmatrix("x"), pt.tensor("y", dtype="float64", shape=(None,) * kernel.ndim)
    batch = conv.convolve1d(x, y, mode=mode)
    outputs = [batch, *pt.grad((batch**2).sum(), [x, y])]
    f, reference = compile_both([x, y], outputs)
    with_infinity = SIGNAL.copy()
    with_infinity[1, 2] = np.inf
    for call in ((SIGNAL, kernel), (with_infinity, kernel)):
        for found, expected in zip(f(*call), reference(*call), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(f.plan.steps) == len(f.plan.regions) == 1
    assert f.stats.fallbacks == 0


def test_a_batch_with_another_mode_for_each_element_runs_on_the_host() -> None:
    x, full = pt.dmatrix("x"), pt.vector("full", dtype="bool")
    one = conv.convolve1d(x[0], x[0, :2]).owner.op
    op = one if isinstance(one, Blockwise) else Blockwise(one)
    f, reference = compile_both([x, full], op(x, x[:, :2], full))
    for given in ([True, True, True], [False] * 3):
        np.testing.assert_allclose(f(SIGNAL, given), reference(SIGNAL, given))
    assert f.explain().breaks


def test_convolutions_have_the_derivatives_of_jax() -> None:
    x, y = pt.dvectors("xy")
    ours = jaxify([x, y], (conv.convolve1d(x, y) ** 2).sum())

    def plain(x: jax.Array, y: jax.Array) -> jax.Array:
        return (jnp.convolve(x, y) ** 2).sum()

    rows = jnp.asarray(SIGNAL)
    with jax.enable_x64(True):
        for change in (jax.grad, jax.hessian, lambda f: jax.vmap(jax.grad(f), (0, None))):
            given = (rows, rows[0, :3]) if change not in (jax.grad, jax.hessian) else rows[:2]
            found, expected = (jax.jit(change(f))(*given) for f in (ours, plain))
            np.testing.assert_allclose(found, expected)
