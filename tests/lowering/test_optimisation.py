"""Roots and minima in regions, against SciPy's by the Python linker."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.optimize import minimize, minimize_scalar, root, root_scalar

import pytensor_jaxlink
from pytensor_jaxlink import JAXLinker
from tests.helpers import black_box, compile_both

RNG = np.random.default_rng(5)
X, A = pt.dscalar("x"), pt.dscalar("a")
XS, B = pt.dvector("xs"), pt.dvector("b")
CIRCLE = pt.stack([XS[0] ** 2 + XS[1] - B[0], pt.exp(XS[1]) - XS[0] * B[1]])


def bracket(*points: float) -> dict[str, Any]:
    """PyTensor 3.0 hands brackets to SciPy as options."""
    symbolic = "bracket" in inspect.signature(root_scalar).parameters
    return {"bracket": points} if symbolic else {"optimizer_kwargs": {"bracket": points}}


def check(inputs: Any, outputs: Any, *calls: Any, fallbacks: int = 0, **tolerance: float) -> Any:
    function, reference = compile_both(inputs, outputs)
    assert not function.explain().graph_break_count, function.explain()
    for arguments in calls:
        found, expected = function(*arguments), reference(*arguments)
        for one, other in zip(found, expected, strict=True):
            assert np.asarray(one).dtype == other.dtype
            np.testing.assert_allclose(one, other, **(tolerance or {"rtol": 1e-9, "atol": 1e-12}))
    assert function.stats.fallbacks == fallbacks
    return function


def with_gradient(solution: Any, success: Any, parameter: Any = A) -> list[Any]:
    return [solution, success, pt.grad(solution.sum(), parameter)]


METHODS = {
    "newton": lambda f: root_scalar(f, X, method="newton", jac=True),
    "halley": lambda f: root_scalar(f, X, method="halley", jac=True, hess=True),
    "secant": lambda f: root_scalar(f, X),
    "coarse": lambda f: root_scalar(
        f, X, method="newton", jac=True, optimizer_kwargs={"xtol": 0.1, "maxiter": 9}
    ),
    "hybr": lambda f: root(f, X),
}


def test_roots_of_an_equation() -> None:
    equation = X**3 + pt.exp(X) - A
    outputs = [each for method in METHODS.values() for each in with_gradient(*method(equation))]
    check([X, A], outputs, (1.0, 2.0), (0.3, 5.0), (4.0, -3.0), (-1.0, 1.5))


@pytest.mark.skipif("optimizer_kwargs" in bracket(0), reason="PyTensor 3.0 fails in the bracket")
def test_a_root_in_a_bracket() -> None:
    outputs = with_gradient(*root_scalar(pt.exp(X) - A, X, method="brentq", **bracket(-9.0, 5.0)))
    function = check([X, A], outputs, (0.0, 2.0), (0.0, 5.0), (0.0, 0.01), (0.0, np.exp(5.0)))
    with pytest.raises(ValueError, match="different signs"):
        function(0.0, -1.0)


@pytest.mark.parametrize(
    "options",
    [{}, bracket(3.0, 4.0)] + ([bracket(-9.0, 1.0, 9.0)] if "bracket" in bracket(0) else []),
)
def test_minima_of_a_function(options: Any) -> None:
    outputs = with_gradient(*minimize_scalar(pt.cosh(X - A) + 0.1 * X**2, X, **options))
    check([X, A], outputs, (0.0, 1.0), (0.0, 0.5), (0.0, 2.5), rtol=1e-7, atol=1e-8)


def test_roots_of_systems() -> None:
    """Also those where SciPy turns back, computes a Jacobian again, or gives up."""
    solution, success = root(CIRCLE, XS)
    function, reference = compile_both([XS, B], with_gradient(solution, success, B))
    solved = 0
    for _ in range(40):
        call = RNG.normal(size=2), RNG.normal(size=2) ** 2 + 1
        found, expected = function(*call), reference(*call)
        solved += bool(expected[1])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    assert not function.explain().graph_break_count
    assert 0 < solved == 40 - function.stats.fallbacks


def test_a_second_point() -> None:
    """PyTensor 3.0 fails in a point that SciPy made."""
    outputs = root_scalar(X**3 - A, X, optimizer_kwargs={"x1": 3.0})
    function = pytensor.function([X, A], outputs, mode="JAXSELECTIVE")
    np.testing.assert_allclose(function(1.0, 8.0), [2, 1])
    assert not function.explain().graph_break_count


def test_a_search_that_fails_is_scipys() -> None:
    outputs = root_scalar(X**2 + A, X, method="newton", jac=True)
    with pytest.warns(RuntimeWarning, match="Derivative was zero"):
        check([X, A], outputs, (0.0, 1.0), fallbacks=1)
    check([X, A], outputs, (3.0, 1.0), fallbacks=1)


def test_options_that_are_not_followed() -> None:
    for outputs, reason in (
        (root_scalar(X**2 - A, X, method="brenth", **bracket(0.0, 3.0)), "brenth has no"),
        (root_scalar(X**2 - A, X, method="newton"), "by differences"),
        (root(X**2 - A, X, method="lm"), "lm has no"),
        (root(X**2 - A, X, optimizer_kwargs={"options": {"band": (0, 0)}}), "only SciPy knows"),
        (minimize((X - A) ** 2, X), "BFGS has no"),
        (minimize_scalar((X - A) ** 2, X, method="golden"), "golden has no"),
    ):
        function = pytensor.function([X, A], outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
        assert reason in str(function.explain())


def test_float32_is_scipys() -> None:
    x = pt.fscalar("x")
    function = pytensor.function([x], root_scalar(x**2 - 2, x)[0], mode="JAXSELECTIVE")
    assert "float64" in str(function.explain())


def test_sizes_and_conditions_in_an_equation() -> None:
    """A size is static; an assertion in the equation raises where SciPy meets it."""
    n = pt.lscalar("n")
    checked = pytensor.raise_op.Assert("x is too large")(X, X < 10)
    equation = (pt.arange(n) * checked).sum() - A
    function, reference = compile_both([X, n, A], root_scalar(equation, X, method="secant"))
    assert not function.explain().graph_break_count
    for call in ((1.0, 4, 3.0), (1.0, 5, 3.0)):
        np.testing.assert_allclose(function(*call), reference(*call))
    for each in (function, reference):
        with pytest.raises(AssertionError, match="too large"):
            each(1.0, 3, 90.0)


# PyTensor 3.0 compiles what SciPy calls with NUMBA.
@pytest.mark.filterwarnings("ignore:Numba will use object mode")
def test_a_black_box_in_an_equation() -> None:
    double = black_box(lambda values: 2 * values)
    equation = double(pt.atleast_1d(X))[0] - A
    function, reference = compile_both([X, A], root_scalar(equation, X))
    assert function.explain().graph_break_count == 1
    np.testing.assert_allclose(function(1.0, 3.0), reference(1.0, 3.0))


def test_in_a_loop_and_a_batch() -> None:
    targets = pt.dvector("targets")
    solve = lambda target: root_scalar(X**3 - target, X, method="newton", jac=True)[0]  # noqa: E731
    looped = pytensor.scan(solve, sequences=[targets], return_updates=False)
    batched = pytensor.graph.vectorize_graph(solve(A), {A: targets})
    function = check([X, targets], [looped, batched], (1.0, np.array([1.0, 8.0, 27.0])))
    np.testing.assert_allclose(function(1.0, np.array([8.0, 64.0]))[0], [2, 4])


def test_jax_differentiates_both_ways() -> None:
    roots = pytensor_jaxlink.jaxify([XS, B], root(XS**3 - B, XS)[0])
    lowest = pytensor_jaxlink.jaxify([X, A], minimize_scalar((X - A**2) ** 2, X)[0])
    call = np.ones(2), np.array([8.0, 27.0])
    for derivative in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(derivative(roots, 1)(*call), np.diag([1 / 12, 1 / 27]))
    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(derivative(lowest, 1)(0.0, 3.0), 6)


def test_without_jit_and_saved(tmp_path: Any) -> None:
    outputs = root_scalar(X**3 - A, X)
    call = 1.0, 2.0
    function = pytensor.function([X, A], outputs, mode="JAXSELECTIVE")
    expected = function(*call)
    plain = pytensor.function([X, A], outputs, mode=JAXLinker(jit=False))
    np.testing.assert_allclose(plain(*call)[0], expected[0])
    pytensor_jaxlink.save(function, tmp_path / "root.jaxlink", graph=False)
    loaded = pytensor_jaxlink.load(tmp_path / "root.jaxlink")
    np.testing.assert_allclose(loaded(*call)[0], expected[0])
