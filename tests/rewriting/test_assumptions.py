"""The assumptions of rewrites: an array that a size cuts is taken for a bound of the size."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import scan
from pytensor import sparse as ps
from pytensor.raise_op import Assert
from pytensor.tensor.linalg.solvers.lstsq import lstsq
from scipy import sparse

from pytensor_jaxlink import JAXLinker, NotJittableError, jaxify

N, X = pt.lscalar("n"), pt.dvector("x")
M, P, C = pt.dmatrix("m"), pt.lvector("p"), pt.dscalar("c")
ROOTS = pt.sqrt(pt.arange(N) + 1.5)
"""It may be longer than what `n` cuts from `x`."""


@pytest.mark.parametrize("options", [{}, {"checks": "ignore"}])
@pytest.mark.parametrize("outputs", [[ROOTS, X[:N] * 2], [ROOTS.sum(), X[:N].sum()]])
def test_a_false_one_is_found(outputs: list[Any], options: dict[str, Any]) -> None:
    """Also where checks of the user's are ignored: PyTensor has a value."""
    f = pytensor.function([N, X], outputs, mode=JAXLinker(**options))
    reference = pytensor.function([N, X], outputs, mode="FAST_COMPILE")
    for n in (1, 2, 3, 7, 0, 2):
        given = n, np.array([0.5, -2.0])
        for found, expected in zip(f(*given), reference(*given), strict=True):
            np.testing.assert_allclose(found, expected, strict=True)


def test_where_the_user_traces_a_result_is_nan() -> None:
    """There nobody could raise, and the value would be wrong; so is its derivative."""
    outputs = [ROOTS.sum() * X.sum(), X[:N].sum()]
    traced = jax.jit(jaxify([N, X], outputs))
    slope = jax.jit(jax.grad(lambda n, x: jaxify([N, X], outputs)(n, x)[0], argnums=1))
    reference = pytensor.function([N, X], [*outputs, pytensor.grad(outputs[0], X)])
    x = np.array([0.5, -2.0])
    for n in (np.int64(0), np.int64(2)):
        *expected, derivative = reference(n, x)
        np.testing.assert_allclose(traced(n, x), expected)
        np.testing.assert_allclose(slope(n, x), derivative)
    assert np.isnan(traced(np.int64(3), x)).all()
    assert np.isnan(slope(np.int64(3), x)).all()


@pytest.mark.parametrize("place", ["matrix", "right-hand side"])
def test_a_system_of_equations_with_an_infinity(place: str) -> None:
    """Rows that are not selected would give it back to those that are."""
    matrix = pt.dmatrix("matrix")
    outputs = [pt.linalg.solve(matrix[:N, :N], X[:N], b_ndim=1).sum(), X[:N].sum()]
    f = pytensor.function([matrix, X, N], outputs, mode=JAXLinker(dynamic=True))
    reference = pytensor.function([matrix, X, N], outputs, mode="FAST_COMPILE")
    traced = jax.jit(jaxify([matrix, X, N], outputs))
    a, b = np.eye(4) * 3 + 0.1, np.array([1.0, 2.0, 3.0, 4.0])
    (a[2] if place == "matrix" else b)[2] = np.inf
    for n in (np.int64(2), np.int64(3)):  # without it, and with it
        expected = reference(a, b, n)
        np.testing.assert_allclose(f(a, b, n), expected)
        if n == 2:
            np.testing.assert_allclose(traced(a, b, n), expected)
    assert np.isnan(traced(a, b, n)).all()
    assert f.stats.fallbacks == 1


BEGIN = (X > 0).sum()
PART = X[BEGIN : BEGIN + 2]
WINDOWS = {
    "read": PART,
    "set": pt.set_subtensor(PART, 3.0),
    "increment": pt.inc_subtensor(PART, PART * PART),
    "gradient": pytensor.grad((1 / PART).sum(), X),
    "in a loop": scan(
        lambda t: X[t + BEGIN - 1 : t + BEGIN + 1].sum(), [pt.arange(2)], return_updates=False
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_slice_of_known_length_that_ends_beyond_the_array(name: str) -> None:
    """NumPy's is shorter there; JAX's `dynamic_slice` would begin earlier."""
    traced = jax.jit(jaxify([X], WINDOWS[name]))
    f = pytensor.function([X], WINDOWS[name], mode=JAXLinker())
    reference = pytensor.function([X], WINDOWS[name], mode="FAST_COMPILE")
    for x in (np.array([-1.0, 2.0, -3.0, -0.5]), np.array([-0.25, 0.5])):
        np.testing.assert_allclose(f(x), reference(x), strict=True)
    np.testing.assert_allclose(traced(np.array([-1.0, 2.0, -3.0])), reference([-1.0, 2.0, -3.0]))
    assert np.isnan(traced(np.array([-0.25, 0.5]))).all()
    with pytest.raises(NotJittableError, match="no slice of length 2 lies in an array of 1"):
        traced(np.array([0.5]))


STORED = sparse.csr_matrix(np.array([[1.0, 0.0], [2.0, 3.0]]))
TWICE = sparse.csr_matrix((np.ones(3), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
WHOLE = np.array([0.5, -2.0])
OF_SPARSE: dict[str, Any] = {
    "a product": (STORED, ps.mul_s_v, (WHOLE, np.array([np.inf, 1.0]))),
    "a sum": (STORED, ps.structured_add_s_v, (WHOLE, np.array([np.nan, 1.0]))),
    "a sum with a repeated place": (TWICE, ps.structured_add_s_v, (None, WHOLE)),
}


@pytest.mark.parametrize("name", OF_SPARSE)
def test_products_and_sums_of_stored_entries(name: str) -> None:
    """PyTensor computes the entries that are not stored, too, and those of one place together."""
    matrix, function, (right, wrong) = OF_SPARSE[name]
    dense = ps.dense_from_sparse(function(ps.as_sparse_variable(matrix), X))
    f, traced = pytensor.function([X], dense, mode=JAXLinker()), jax.jit(jaxify([X], dense))
    reference = pytensor.function([X], dense, mode="FAST_COMPILE")
    for x in (right, wrong):
        if x is not None:
            np.testing.assert_allclose(f(x), reference(x))
    if right is not None:
        np.testing.assert_allclose(traced(right), reference(right))
    assert np.isnan(traced(wrong)).all()


def test_a_pattern_that_ends_before_its_entries() -> None:
    """SciPy cuts the entries, and JAX cannot know how many are left."""
    starts, shape = pt.ivector("starts"), np.array([3, 3], "int32")
    dense = ps.dense_from_sparse(ps.CSR(X, np.array([0, 2, 1], "int32"), starts, shape))
    reference = pytensor.function([X, starts], dense, mode="FAST_COMPILE")
    f = pytensor.function([X, starts], dense, mode=JAXLinker())
    traced = jax.jit(jaxify([X, starts], dense))
    x = np.array([1.0, 2.0, 3.0])
    for places in ([0, 1, 2, 3], [0, 3, 3, 3], [0, 1, 1, 2]):
        given = x, np.array(places, "int32")
        np.testing.assert_array_equal(f(*given), reference(*given))
        expected = reference(*given) if places[-1] == 3 else np.full((3, 3), np.nan)
        np.testing.assert_array_equal(traced(*given), expected)


def test_least_squares_of_a_deficient_rank() -> None:
    """There are no residuals then, and JAX knows no array that may be empty; the rest is right."""
    right = pt.dmatrix("right")
    outputs = list(lstsq(M, right, 1e-12))
    traced = jax.jit(jaxify([M, right], outputs))
    reference = pytensor.function([M, right], outputs, mode="FAST_COMPILE")
    matrix, x = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]), np.array([[1.0], [2.0], [2.0]])
    solution, residuals, rank, values = traced(matrix, x)
    expected = reference(matrix, x)
    np.testing.assert_allclose(solution, expected[0])
    assert np.isnan(residuals).all()
    assert not expected[1].size
    assert rank == expected[2] == 1
    np.testing.assert_allclose(values, expected[3], atol=1e-12)


def test_a_check_of_the_user_changes_no_result_there() -> None:
    checked = Assert("negative")(X, pt.all(X > 0)).sum()
    assert float(jax.jit(jaxify([X], checked))(-np.ones(2))) == -2.0


ONE = np.array([7.0])
WRITTEN = {
    "set": lambda m, p, x: pt.set_subtensor(m[p, 0], x),
    "increment": lambda m, p, x: pt.inc_subtensor(m[p, 0], x),
    "set, two indices": lambda m, p, x: pt.set_subtensor(m[p, p], x),
    "increment, two indices": lambda m, p, x: pt.inc_subtensor(m[p, p], x),
}


@pytest.mark.parametrize("checks", ["raise", "ignore"])
@pytest.mark.parametrize("write", WRITTEN)
def test_one_value_is_stretched_to_all_the_places_that_are_selected(
    write: str, checks: Any
) -> None:
    """`m[places, 0] = x` takes a single entry of x for all places, as NumPy does."""
    written = WRITTEN[write](M, P, X)
    f = pytensor.function([M, P, X], written, mode=JAXLinker(checks=checks))
    reference = pytensor.function([M, P, X], written, mode="FAST_COMPILE")
    for places in ([0], [1, 0], [2, -1, 1], [0, 0, 0, 1], []):  # from the second on it is padded
        given = np.arange(9.0).reshape(3, 3), np.array(places, "int64"), ONE
        np.testing.assert_array_equal(f(*given), reference(*given))
    assert f.stats.fallbacks == 0
    chosen = WRITTEN[write](M, P[P > 0], X)
    traced = jax.jit(jaxify([M, P, X], chosen))
    given = np.arange(9.0).reshape(3, 3), np.array([0, 1, 2]), ONE
    expected = pytensor.function([M, P, X], chosen, mode="FAST_COMPILE")(*given)
    np.testing.assert_array_equal(traced(*given), expected)
