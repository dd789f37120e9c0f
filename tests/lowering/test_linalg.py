"""Factorisations, solves and diagonals against the Python linker, where LAPACK fails too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.linalg import LinAlgError
from pytensor.tensor.basic import AllocDiag

from pytensor_jaxlink import jaxify
from tests.helpers import (
    assert_same,
    assert_same_outcomes,
    check_against_python,
    compile_both,
    compiled,
    outcome,
)


@pytest.mark.parametrize(
    "graph",
    [
        lambda m: pt.linalg.cholesky(m) * 2,
        lambda m: pt.linalg.solve(m, m + 1),
        lambda m: pt.linalg.cholesky(pt.stack([m, pt.eye(3)])),
        lambda m: pt.linalg.inv(m + pt.eye(3) * 2) * 2,
    ],
)
def test_matrices_with_and_without_a_factor(graph: Any) -> None:
    m = pt.dmatrix("m")
    singular = np.diag([1.0, -1.0, 0.0])
    f = check_against_python([m], graph(m), (np.eye(3) + 0.1,), (singular,))
    assert f.explain().graph_count == 1


def test_eigenvectors_of_a_hermitian_matrix() -> None:
    m = pt.zmatrix("m")
    f = pytensor.function([m], pt.linalg.eigh(m), mode="JAXSELECTIVE")
    matrix = np.array([[1, 2 + 1j], [2 - 1j, 3]])
    values, vectors = f(matrix)
    np.testing.assert_allclose(matrix @ vectors, values * vectors)


def test_a_matrix_without_an_inverse() -> None:
    m = pt.dmatrix("m")
    f = check_against_python([m], pt.linalg.inv(m), (np.eye(3) + 0.1,))
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((3, 3)))


@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1, 2)])
def test_a_matrix_with_a_diagonal(offset: int, axes: tuple[int, int]) -> None:
    values = pt.tensor("values", dtype="float32", shape=(None, None))
    matrix = AllocDiag(offset=offset, axis1=axes[0], axis2=axes[1])(values)
    # As gradients hold it; PyTensor writes out those of the user as a scatter.
    graph = compiled([values], [matrix])
    for size in (0, 1, 3):
        x = np.arange(2.0 * size, dtype="float32").reshape((2, size))
        [found] = graph.trace(x)
        assert_same(found, matrix.eval({values: x}))
        assert "scatter" not in str(jax.make_jaxpr(graph.trace)(x))


MATRIX = np.array([[4.0, 0.5, -1.0], [0.5, 3.0, 0.25], [-1.0, 0.25, 5.0]])
COLUMNS = np.arange(6.0).reshape((3, 2)) - 1.5
STRANGE = (np.inf, -np.inf, np.nan)


def with_strange_entries(matrix: np.ndarray) -> Iterator[np.ndarray]:
    """The matrix, with each entry replaced by infinity or NaN."""
    for place in np.ndindex(matrix.shape):
        for value in STRANGE:
            changed = matrix.copy()
            changed[place] = value
            yield changed


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.cpu("LAPACK's; docs/known_differences.md says what GPUs give")
def test_factors_of_what_is_not_finite(lower: bool) -> None:
    m = pt.dmatrix("m")
    f, reference = compile_both([m], pt.linalg.cholesky(m, lower=lower))
    singular = [np.diag(entries) for entries in ([0.0, 1, 1], [1, 1, -1.0], [np.nan, 1, -1.0])]
    for matrix in (*with_strange_entries(MATRIX), *singular, np.zeros((0, 0))):
        assert_same(f(matrix), reference(matrix))


SOLVES = {
    "lower": lambda a, b: pt.linalg.solve_triangular(a, b, lower=True),
    "upper": lambda a, b: pt.linalg.solve_triangular(a, b, lower=False),
    "unit": lambda a, b: pt.linalg.solve_triangular(a, b, lower=True, unit_diagonal=True),
    "transposed": lambda a, b: pt.linalg.solve_triangular(a, b, lower=True, trans=1),
    "of a factor": lambda a, b: pt.linalg.solve_triangular(pt.linalg.cholesky(a), b, lower=True),
    "by a factor": lambda a, b: pt.linalg.cho_solve((a, True), b),
    "general": pt.linalg.solve,
}


@pytest.mark.parametrize("name", SOLVES)
def test_columns_that_are_not_finite(name: str) -> None:
    a, b = pt.dmatrices("a", "b")
    f, reference = compile_both([a, b], SOLVES[name](a, b))
    for columns in (COLUMNS, *with_strange_entries(COLUMNS)):
        assert_same(f(MATRIX, columns), reference(MATRIX, columns))


@pytest.mark.parametrize("name", [name for name in SOLVES if name != "general"])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[:, 0]], ids=["matrix", "vector"])
@pytest.mark.cpu("LAPACK's; docs/known_differences.md says what GPUs give")
def test_triangular_matrices_that_are_singular_or_not_finite(
    name: str, columns: np.ndarray
) -> None:
    a, b = pt.dmatrix("a"), pt.tensor("b", dtype="float64", shape=(None,) * columns.ndim)
    f, reference = compile_both([a, b], SOLVES[name](a, b))
    singular = MATRIX - np.diag([0.0, 3.0, 0.0])
    for matrix in (singular, np.zeros((3, 3)), *with_strange_entries(MATRIX)):
        assert_same(f(matrix, columns), reference(matrix, columns))


def test_a_determinant_beside_a_factorisation() -> None:
    """PyTensor 3.0 takes it from the factor, without the sign of the permutation."""
    a = pt.dmatrix("a")
    f = pytensor.function([a], [pt.linalg.det(a), *pt.linalg.lu_factor(a)], mode="JAXSELECTIVE")
    assert f(np.array([[0.0, 1.0], [1.0, 2.0]]))[0] == -1


def test_a_batch_with_one_singular_matrix() -> None:
    a, b = pt.dtensor3s("a", "b")
    solution = pt.linalg.solve_triangular(a, b, lower=True, b_ndim=2)
    batch = np.stack([MATRIX, MATRIX - np.diag([0.0, 3.0, 0.0])])
    check_against_python([a, b], solution, (batch, np.stack([COLUMNS] * 2)))


@pytest.mark.parametrize("update", [pt.set_subtensor, pt.inc_subtensor])
@pytest.mark.parametrize("given", ["vector", "scalar"])
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (0, 0)])
def test_an_update_of_a_diagonal(update: Any, given: str, shape: tuple[int, int]) -> None:
    m, n = pt.dmatrix("m"), pt.lscalar("n")
    values = pt.dvector("values") if given == "vector" else pt.dscalar("values")
    places = pt.arange(n)
    functions = compile_both([m, values, n], update(m[places, places], values))
    calls = [
        (np.ones(shape), np.arange(float(length)) if given == "vector" else 7.0, length)
        for length in (0, 2, 3, 4)
    ]
    assert_same_outcomes(*functions, calls)


def test_the_gradient_of_a_diagonal_has_no_scatter() -> None:
    m = pt.dmatrix("m")
    gradient = pt.grad(pt.log(pt.diag(m)).sum(), m)
    f = check_against_python([m], gradient, (MATRIX,))
    assert "scatter" not in str(jax.make_jaxpr(f.jax_fn)(MATRIX))


@pytest.mark.parametrize(
    "matrix", [[[-0.0]], [[0, -2], [0, -2]], [[2, -2, 2], [2, -2, 2], [2, 0, 2]], np.zeros((4, 4))]
)
def test_the_determinant_of_a_singular_matrix_has_no_sign(matrix: Any) -> None:
    m = pt.dmatrix("m")
    f, reference = compile_both([m], [pt.linalg.det(m), *pt.linalg.slogdet(m)])
    found, expected = ([np.asarray(each) for each in g(np.array(matrix))] for g in (f, reference))
    assert list(map(np.signbit, found)) == list(map(np.signbit, expected))
    np.testing.assert_array_equal(found, expected)


def test_the_determinant_of_a_singular_matrix_has_a_gradient() -> None:
    """For JAX, which does not know of the zero that is added to it."""
    m = pt.dmatrix("m")
    f = pytensor.function([m], pt.linalg.det(m), mode="JAXSELECTIVE")
    slope = jax.jit(jax.grad(lambda m: f.jax_fn(m)[0]))(np.array([[1.0, 2.0], [2.0, 4.0]]))
    np.testing.assert_allclose(slope, [[4, -2], [-2, 1]])


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (2, 3, 0), (2, 0, 3)])
def test_matrices_without_entries_that_are_not_square_have_no_determinant(
    shape: tuple[int, ...], dtype: str
) -> None:
    m = pt.tensor("m", shape=(None,) * len(shape), dtype=dtype)
    found = [outcome(f, np.ones(shape, dtype)) for f in compile_both([m], pt.linalg.det(m))]
    assert found == [LinAlgError if len(shape) == 3 else ValueError] * 2


@pytest.mark.parametrize("name", ["det", "slogdet", "pinv"])
def test_numpy_refuses_matrices_of_float16(name: str) -> None:
    m = pt.matrix("m", dtype="float16")
    ours, reference = compile_both([m], getattr(pt.linalg, name)(m))
    with pytest.raises((TypeError, ValueError)) as expected:
        reference(np.eye(2, dtype="float16"))
    with pytest.raises(expected.type):
        ours(np.eye(2, dtype="float16"))


DEFICIENT = np.arange(12.0).reshape(4, 3)  # of rank 2, and exact in all types


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "uint16", "bool"])
@pytest.mark.parametrize("hermitian", [False, True])
def test_pseudoinverses_are_computed_in_double_precision(dtype: str, hermitian: bool) -> None:
    """As in NumPy, which takes a singular value of 1e-15 of the largest for zero."""
    m = pt.matrix("m", dtype=dtype)
    ours, reference = compile_both([m], pt.linalg.pinv(m, hermitian=hermitian))
    matrix = (DEFICIENT @ DEFICIENT.T if hermitian else DEFICIENT).astype(dtype)
    np.testing.assert_allclose(ours(matrix), reference(matrix), rtol=1e-5, atol=1e-6)


def test_pseudoinverses_without_64_bit_types() -> None:
    m = pt.fmatrix("m")
    f = jaxify([m], pt.linalg.pinv(m))
    with jax.enable_x64(False):
        found = jax.jit(f)(DEFICIENT.astype("float32"))
    np.testing.assert_allclose(found, np.linalg.pinv(DEFICIENT), atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 2, 2)])
def test_the_determinant_of_no_entries_has_a_gradient(shape: tuple[int, ...]) -> None:
    m = pt.tensor("m", shape=(None,) * len(shape), dtype="float64")
    f = pytensor.function([m], pt.linalg.det(m), mode="JAXSELECTIVE")
    values = np.ones(shape)
    assert_same(f(values), np.linalg.det(values))
    assert jax.jit(jax.grad(lambda m: f.jax_fn(m)[0].sum()))(values).shape == shape


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("b_ndim", [1, 2])
@pytest.mark.parametrize("assume_a", ["gen", "pos", "sym", "tridiagonal"])
def test_a_matrix_of_one_number_is_stretched(assume_a: str, b_ndim: int, batched: bool) -> None:
    """As SciPy does it: PyTensor finishes such calls, and the others stay in the region."""
    a, b = pt.tensor("a", shape=(None,) * (2 + batched)), pt.tensor("b", shape=(None,) * b_ndim)
    solution = pt.linalg.solve(a, b, b_ndim=b_ndim, assume_a=assume_a)
    f, reference = compile_both([a, b], solution)
    for size, length in ((1, 2), (2, 2), (2, 1), (1, 0), (1, 1)):
        matrix = np.full((*[2] * batched, size, size), 0.5) + np.eye(size)
        right = np.arange(2.0, 2 + length * b_ndim).reshape((length, b_ndim)[:b_ndim])
        try:
            expected = reference(matrix, right)
        except ValueError:
            with pytest.raises(ValueError, match="incompatible"):
                f(matrix, right)
        else:
            np.testing.assert_allclose(f(matrix, right), expected, rtol=1e-14, strict=True)
    assert not f.explain().failures
    finished = f.stats.fallbacks
    assert finished > 0
    f(np.ones((*[2] * batched, 3, 3)) + np.eye(3), np.ones((3, 2)[:b_ndim]))
    assert f.stats.fallbacks == finished
