"""Linear algebra that fails: real results are NaN, and so are their derivatives in JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

from pytensor_jaxlink import jaxify

M = pt.dmatrix("m")
INDEFINITE, SINGULAR = np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 2))
MISSING, GOOD = np.array([[np.nan, 1.0], [1.0, 2.0]]), np.array([[2.0, 1.0], [1.0, 3.0]])
FAILING: dict[str, tuple[Any, np.ndarray]] = {
    "cholesky": (pt.linalg.cholesky(M), INDEFINITE),
    "solve": (pt.linalg.solve(M, pt.ones(2)), SINGULAR),
    "triangular": (pt.linalg.solve_triangular(M, pt.ones(2)), np.triu(SINGULAR) * [[1], [0]]),
    "lu_factor": (pt.linalg.lu_factor(M)[0], SINGULAR),
    "eigh": (pt.linalg.eigh(M)[0], MISSING),
    "svd": (pt.linalg.svd(M, compute_uv=False), MISSING),
    "pinv": (pt.linalg.pinv(M), MISSING),
}


@pytest.mark.parametrize("name", FAILING)
def test_derivatives_of_what_has_failed(name: str) -> None:
    output, given = FAILING[name]
    run = jaxify([M], output)

    @jax.jit
    def derived(matrix: Any) -> Any:
        return *jax.jvp(run, (matrix,), (np.eye(2),)), jax.grad(lambda m: run(m).sum())(matrix)

    with jax.enable_x64(True):
        assert all(np.isnan(each).any() for each in derived(given))
        # Where nothing fails they are those of a difference quotient.
        step = 1e-6 * np.eye(2)
        quotient = (np.asarray(run(GOOD + step)) - np.asarray(run(GOOD - step))) / 2e-6
        _, tangent, gradient = derived(GOOD)
        np.testing.assert_allclose(tangent, quotient, atol=1e-7)
        np.testing.assert_allclose(np.trace(gradient), quotient.sum(), atol=1e-7)


def test_infinite_parts_of_complex_numbers_pass_a_check() -> None:
    z = pt.zvector("z")
    value = np.array([np.inf + 1j, 1 - 2j])
    with jax.enable_x64(True):
        run = jaxify([z], pt.specify_shape(z, (2,)))
        np.testing.assert_array_equal(jax.jit(run)(value), value)


def test_the_derivative_of_nothing_where_an_inner_graph_says_how() -> None:
    a, x = pt.dvector("a"), pt.dvector("x")
    inner = OpFromGraph([a], [a * 3], pullback=lambda _, __, given: [given[0] * 3])
    with jax.enable_x64(True):
        run = jaxify([x], inner(x).sum())
        for values in (np.ones(0), np.ones(2)):
            found = jax.jvp(run, (values,), (values,))
            assert [float(each) for each in found] == [3 * len(values)] * 2
            assert jax.hessian(run)(values).shape == (len(values),) * 2
