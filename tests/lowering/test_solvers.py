"""Tridiagonal systems, least squares, row permutations and Fourier against the Python linker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.tensor.basic import permute_row_elements
from pytensor.tensor.fourier import fft
from pytensor.tensor.linalg.inverse import tensorinv
from pytensor.tensor.linalg.solvers.lstsq import lstsq, tensorsolve
from pytensor.tensor.linalg.solvers.tridiagonal import tridiagonal_lu_factor, tridiagonal_lu_solve

from tests.edges.known import OLD
from tests.helpers import (
    assert_same,
    assert_same_outcomes,
    check_against_python,
    compile_both,
)

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(3, 4))
ORDERS = np.argsort(RNG.normal(size=(3, 4)), axis=1)


def in_one_region(inputs: list[Any], outputs: Any, *calls: Any) -> Any:
    function = check_against_python(inputs, outputs, *calls)
    assert not function.explain().graph_break_count
    return function


@pytest.mark.parametrize("size", [3, 4, 11])
def test_a_tridiagonal_matrix(size: int) -> None:
    a, b, columns = pt.dmatrix("a"), pt.dvector("b"), pt.dmatrix("columns")
    factors = tridiagonal_lu_factor(a)
    solutions = [
        tridiagonal_lu_solve(factors, side, b_ndim=side.ndim, transposed=transposed)
        for side in (b, columns)
        for transposed in (False, True)
    ]
    vector, matrix = RNG.normal(size=size), RNG.normal(size=(size, 2))
    # Random matrices exchange rows; the second one has a zero on the diagonal.
    matrices = RNG.normal(size=(2, size, size))
    matrices[1, 0, 0] = 0
    calls = [(each, vector, matrix) for each in matrices]
    in_one_region([a, b, columns], [*factors, *solutions], *calls)


def test_a_tridiagonal_matrix_of_zeros() -> None:
    a = pt.dmatrix("a")
    in_one_region([a], list(tridiagonal_lu_factor(a)), (np.zeros((4, 4)),), (np.eye(4),))


def test_a_batch_of_tridiagonal_matrices() -> None:
    a, b = pt.dtensor3("a"), pt.dmatrix("b")
    solution = tridiagonal_lu_solve(tridiagonal_lu_factor(a), b, b_ndim=1)
    in_one_region([a, b], solution, (RNG.normal(size=(2, 5, 5)), RNG.normal(size=(2, 5))))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_least_squares(shape: tuple[int, int]) -> None:
    a, b = pt.dmatrices("a", "b")
    matrix, right = RNG.normal(size=shape), RNG.normal(size=(shape[0], 2))
    function = in_one_region([a, b], list(lstsq(a, b, 1e-12)), (matrix, right))
    _, reference = compile_both([a, b], list(lstsq(a, b, 1e-12)))
    singular = np.ones(shape)
    for one, other in zip(function(singular, right), reference(singular, right), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("cutoff", [-1.0, 0.0, 1e-17, 0.3, 0.6, 1.0, 2.0, np.inf])
def test_the_cutoff_of_least_squares(cutoff: float) -> None:
    """One that is no share of the largest singular value is the rounding of one, in LAPACK."""
    a, b, share = pt.dmatrix("a"), pt.dmatrix("b"), pt.dscalar("share")
    function, reference = compile_both([a, b, share], list(lstsq(a, b, share)))
    right = RNG.normal(size=(2, 2))
    for matrix in (np.array([[2.0, 1.0], [3.0, 4.0]]), np.diag([1.0, 1.6e-16]), np.diag([1.0, 0])):
        for one, other in zip(
            function(matrix, right, cutoff), reference(matrix, right, cutoff), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9)


def test_least_squares_for_a_vector() -> None:
    a, b = pt.dmatrix("a"), pt.dvector("b")
    function, reference = compile_both([a, b], lstsq(a, b, -1.0)[3])
    call = RNG.normal(size=(4, 2)), RNG.normal(size=4)
    np.testing.assert_allclose(function(*call), reference(*call))
    assert "another number of dimensions" in str(function.explain())


def test_permutations_of_rows() -> None:
    x, orders, order, row = pt.dmatrix(), pt.lmatrix(), pt.lvector(), pt.dvector()
    outputs = [
        permute_row_elements(x, orders),
        permute_row_elements(x, orders, inverse=True),
        permute_row_elements(x, order),
        permute_row_elements(x, order, inverse=True),
        permute_row_elements(row, orders),
        pt.grad((permute_row_elements(x, orders) ** 2).sum(), x),
    ]
    calls = (ROWS, ORDERS, ORDERS[0] - 4, ROWS[0]), (ROWS[:2], ORDERS[:2], ORDERS[1], ROWS[0])
    in_one_region([x, orders, order, row], outputs, *calls)


def test_what_is_no_permutation() -> None:
    x, order = pt.dmatrix(), pt.lvector()
    for function in compile_both([x, order], permute_row_elements(x, order)):
        with pytest.raises(IndexError):
            function(ROWS, np.array([0, 1, 2, 4]))


def test_fourier() -> None:
    x, z, n = pt.dmatrix(), pt.zmatrix(), pt.lscalar()
    outputs = [fft(x, n, 0), fft(x, n, 1), fft(x, None, None), fft(z, n, 1)]
    in_one_region([x, z, n], outputs, *((ROWS, ROWS + 1j, n) for n in (2, 4, 7)))


@pytest.mark.skipif(OLD, reason="PyTensor 3.0 takes tridiagonal matrices apart first")
def test_tridiagonal_systems_that_jax_does_not_take() -> None:
    """Of integers, and without equations."""
    a, b = pt.lmatrix("a"), pt.lvector("b")
    solution = pt.linalg.solve(a, b, assume_a="tridiagonal", b_ndim=1)
    calls = [(5 * np.eye(n, dtype="int64"), np.arange(n)) for n in (3, 1, 0)]
    check_against_python([a, b], solution, *calls)


OTHER_RANKS = {
    "a vector for a matrix": lambda x: lstsq(pt.stack([x, x**2], axis=1), x + 1, -1.0)[0],
    "a tensor for a matrix": lambda x: tensorinv(
        (pt.outer(x, x) + pt.eye(x.size)).reshape((4, 2, 2)), ind=1
    ),
    "a tensor": lambda x: tensorsolve((pt.outer(x, x) + pt.eye(4)).reshape((4, 2, 2, 1)), x),
}


@pytest.mark.parametrize("solution", OTHER_RANKS)
def test_a_value_of_another_rank_than_declared_is_read(solution: str) -> None:
    """PyTensor goes on with the value that it has."""
    x = pt.dvector("x")
    found = OTHER_RANKS[solution](x)
    function, reference = compile_both([x], [pt.exp(found).sum(), found.max() + x])
    for last in (0.0, 1.0):
        given = np.array([1.0, -1.0, 2.0, last])
        assert_same(function(given), reference(given))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize(
    "equation",
    [
        lambda a, q: pt.linalg.solve_sylvester(a, -a, q),
        pt.linalg.solve_continuous_lyapunov,
        lambda a, q: pt.linalg.solve_discrete_lyapunov(a, q, method="bilinear"),
        pytest.param(
            lambda a, q: pt.linalg.solve_sylvester(pt.stack([a, a + 9]), a, q),
            marks=pytest.mark.skipif(OLD, reason="PyTensor 3.0 itself cannot run this batch"),
        ),
    ],
    ids=["Sylvester", "Lyapunov", "discrete Lyapunov", "a batch"],
)
@pytest.mark.filterwarnings("ignore:np.dot")  # of the Numba of PyTensor 3.0
def test_equations_whose_eigenvalues_add_up_to_zero(equation: Any, dtype: str) -> None:
    """LAPACK perturbs them."""
    a, q = pt.matrix("a", dtype=dtype), pt.matrix("q", dtype=dtype)
    ours, python = compile_both([a, q], equation(a, q))
    matrices = [np.diag([1, 2]), np.diag([1, -1]), np.eye(2), np.zeros((2, 2)), np.ones((2, 2))]
    matrices += [np.array([[0, 1], [-1, 0]]), np.array([[3, 1], [1, 5]])]
    if dtype != "int64":
        matrices += [1e-9 * np.eye(2), np.diag([np.nan, 1]), np.diag([np.inf, 1])]
    given = [np.eye(2)[::-1], np.eye(2), np.zeros((2, 2)), np.array([[1, 2], [3, 5]])]
    calls = [(each.astype(dtype), right.astype(dtype)) for each in matrices for right in given]
    assert_same_outcomes(ours, python, calls)
