"""Reductions of one entry, and of arrays so long that XLA hands them to a library of its own."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.math import Max, Min

from pytensor_jaxlink import JAXLinker, jaxify
from tests.helpers import PYTHON, assert_same, check_against_python, compile_both

SHAPES = ((70, 90), (3, 5000), (5000, 3), (20000,))
ODD = (np.nan, np.inf, -np.inf, 0.0)


def values(shape: tuple[int, ...], dtype: str, odd: float) -> Any:
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    array.flat[array.size // 2 + 1] = odd
    return array


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_not_finite_stays(shape: tuple[int, ...], dtype: str) -> None:
    x = pt.TensorType(dtype, (None,) * len(shape))("x")
    axes = [None, *range(len(shape))]
    outputs = [
        reduced
        for axis in axes
        for changed in (x, 2 * x + 1, -x)
        for reduced in (changed.max(axis), changed.min(axis), changed.argmax(axis))
    ]
    outputs += [each for axis in axes for each in (x.sum(axis), x.mean(axis), x.argmin(axis))]
    outputs += [pt.logsumexp(x, axis) for axis in axes]
    f, reference = (pytensor.function([x], outputs, mode=mode) for mode in (JAXLinker(), PYTHON))
    for odd in ODD:
        array = values(shape, dtype, odd)
        for found, expected in zip(f(array), reference(array), strict=True):
            if dtype == "float32":
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2)
            else:
                assert_same(found, expected)


def test_what_the_user_maps() -> None:
    """The arrays get long only there."""
    x = pt.dvector("x")
    array = values((500, 50), "float64", np.nan)
    found = jax.vmap(jaxify([x], x.max()))(array)
    np.testing.assert_array_equal(found, array.max(axis=1))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_reductions_that_are_declared_as_integers() -> None:
    """They wrap what is out of range, as NumPy converts it."""
    x = pt.dvector("x")
    outputs = [pt.sum(x, dtype=kind) for kind in ("int8", "uint8", "int64")]
    outputs += [pt.prod(x, dtype="int16")]
    f, reference = (pytensor.function([x], outputs, mode=mode) for mode in (JAXLinker(), PYTHON))
    for numbers in ([300.0, 1e9], [-4.0, 1e5], [np.nan, 1.0], [np.inf, 2.0], [0.5, -0.3]):
        array = np.array(numbers)
        for found, expected in zip(f(array), reference(array), strict=True):
            assert found.dtype == expected.dtype
            assert found == expected


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_derivatives_that_jax_takes(axis: int | None) -> None:
    x = pt.dmatrix("x")
    array = np.random.default_rng(0).normal(size=(3, 4))
    for reduced, own in ((x.max(axis), jax.numpy.max), (x.min(axis), jax.numpy.min)):
        ours, theirs = jaxify([x], (reduced**3).sum()), lambda a, own=own: (own(a, axis) ** 3).sum()
        derivatives = [
            [derive(f) for f in (ours, theirs)] for derive in (jax.grad, jax.hessian, jax.jacfwd)
        ]
        found = jax.jit(lambda a: [[f(a) for f in pair] for pair in derivatives])(array)  # noqa: B023
        for one, other in found:
            np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_the_sum_of_a_negative_zero(dtype: str) -> None:
    """NumPy adds it to 0.0; XLA takes a single entry as it is."""
    x, n = pt.TensorType(dtype, (None, None))("x"), pt.lscalar("n")
    outputs = [x.sum(), x.sum(0), x.sum(1), x.mean(0), x[-n:].sum(0), x[:n, 0].sum()]
    f, reference = (pytensor.function([x, n], outputs, mode=mode) for mode in (JAXLinker(), PYTHON))
    zero = -np.zeros((), dtype)
    for shape in ((1, 1), (1, 3), (3, 1), (2, 2)):
        found, expected = (each(np.full(shape, zero), 1) for each in (f, reference))
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
            for part in ("real", "imag"):
                signs = (np.signbit(getattr(np.asarray(each), part)) for each in (one, other))
                np.testing.assert_array_equal(*signs)


def test_the_sum_of_copies_of_a_negative_zero() -> None:
    """Entries of an array of one, which XLA sums as a product."""
    x, m, i = pt.dvector("x"), pt.dmatrix("m"), pt.lvector("i")
    outputs = [x[i].sum(), m[i, i].sum(), pt.exp(x[i]).sum(), x[i][:, None].sum(0)]
    f = check_against_python(
        [x, m, i], outputs, (np.array([-0.0]), np.array([[-0.0]]), np.zeros(3, int))
    )
    found = f(np.array([-0.0]), np.array([[-0.0]]), np.zeros(3, int))
    assert not any(np.signbit(each).any() for each in found)


def test_the_gradient_of_a_product() -> None:
    x = pt.dmatrix("x")
    outputs = [pytensor.grad(pt.prod(x, axis=axis).sum(), x) for axis in (None, 0, 1)]
    f, reference = (pytensor.function([x], outputs, mode=mode) for mode in (JAXLinker(), PYTHON))
    rows = [[1.0, 2.0, 3.0], [0.0, 5.0, -0.0], [0.0, np.nan, 2.0], [0.0, 0.0, -0.0]]
    for count in range(5):
        given = np.array(rows[:count]).reshape(count, 3)
        assert_same(f(given), reference(given))
    assert not f.explain().breaks
    assert not f.explain().failures


def test_the_sign_of_a_sum_with_a_known_zero() -> None:
    x, y = pt.dvectors("x", "y")
    running = pytensor.scan(
        lambda entry, total: total + entry,
        sequences=[x],
        outputs_info=[np.zeros(())],
        return_updates=False,
    )
    outputs = [x + y.sum(), running, running[-1]]
    f, reference = (pytensor.function([x, y], outputs, mode=m) for m in (JAXLinker(), PYTHON))
    for length in (2, 1, 3):
        arguments = (np.full(length, -0.0), np.zeros(0))
        # The compiler of JAX 0.10 leaves out the addition of a constant to one number.
        first = int(length == 1 and jax.__version__.startswith("0.10."))
        for one, other in zip(f(*arguments)[first:], reference(*arguments)[first:], strict=True):
            np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.parametrize("rewrites", [None, "fast_run"])
def test_the_sign_of_a_sum_with_zeros_beside_entries_that_were_written(rewrites: Any) -> None:
    x, v, m = pt.dvector("x"), pt.dscalar("v"), pt.dmatrix("m")
    k, places = pt.lscalar("k"), pt.lvector("places")
    zeros, rows = pt.zeros_like(x), pt.zeros_like(m)
    nothing = pt.inc_subtensor(zeros[50:], v)
    outputs = [
        x + pt.set_subtensor(zeros[k], v),
        x + pt.inc_subtensor(zeros[k], v),
        x + pt.set_subtensor(zeros[50:], v),
        x + 2 * nothing,
        x + pt.concatenate([nothing[:2], pt.zeros(2)]),
        x + 2 * pt.inc_subtensor(zeros[k + 50 :], v),
        m + pt.set_subtensor(rows[places], v),
        m + pt.inc_subtensor(rows[places], v),
        m + pt.inc_subtensor(rows[places, k], v),
        m + pt.set_subtensor(rows[k], v),
    ]
    inputs = [x, v, k, m, places]
    f, reference = (
        pytensor.function(inputs, outputs, mode=Mode(linker, rewrites))
        for linker in (JAXLinker(), "py")
    )
    arguments = (np.full(4, -0.0), 3.0, 1, np.full((3, 4), -0.0), np.array([1]))
    for one, other in zip(f(*arguments), reference(*arguments), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


def test_the_derivative_of_a_sum_of_one_entry() -> None:
    x = pt.dvector("x")
    total = jaxify([x], x.sum())
    for value in (0.0, -0.0, 2.0):
        given = np.array([value])
        np.testing.assert_array_equal(jax.grad(total)(given), [1.0])
        np.testing.assert_array_equal(jax.jacfwd(total)(given), [1.0])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kind", [Max, Min])
def test_extremes_of_infinite_complex_numbers(kind: Any, dtype: str) -> None:
    """They keep their imaginary parts: no number that a reduction begins with is in their order."""
    z = pt.matrix("z", dtype=dtype)
    pair = compile_both([z], [kind((0,))(z), kind((0, 1))(z)])
    infinite = [complex(real, part) for real in (np.inf, -np.inf) for part in (1, -1, np.inf)]
    for first, second in itertools.product([*infinite, complex(1, np.nan)], repeat=2):
        found, expected = (f(np.array([[first], [second]], dtype)) for f in pair)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)


def test_extremes_of_no_complex_numbers() -> None:
    z = pt.zmatrix("z")
    f = pytensor.function([z], Max((1,))(z), mode="JAXSELECTIVE")
    for _ in range(2):
        assert_same(f(np.zeros((0, 3), complex)), np.zeros(0, complex))
    assert f.stats.general_calls == 0
