"""Special functions against SciPy over their domains, their gradients, and that nothing breaks."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.special

from pytensor_jaxlink import jaxify
from pytensor_jaxlink.errors import NotDifferentiableError
from tests.edges.compare import difference as compare
from tests.edges.compare import quickly
from tests.helpers import PYTHON, check_against_python

INF, NAN = np.inf, np.nan
TINY = 1e-300
TAILS = np.concatenate([[1e-12, 1e-8, 1e-5, 1e-3], np.linspace(0.02, 0.98, 17), [0.999, 1 - 1e-9]])
SHAPES = np.array([0.02, 0.3, 0.9, 1, 1.5, 3, 9.99, 10, 30, 200, 1e4])
NEGATIVE_ORDERS = [-30, -12.5, -7.3, -2, -1.5, -1, -0.5, -1e-3]
POSITIVE_ORDERS = [0, 1e-3, 0.3, 0.5, 1, 1.5, 2, 2.5, 4.7, 10, 24.99, 25, 30.5, 60, 333.3, 1000]
ORDERS = np.array([*NEGATIVE_ORDERS, *POSITIVE_ORDERS])
SMALL = [1e-20, 1e-6, 0.01, 0.3, 0.99, 1, 1.01, 2, 2.4, 3.9, 5, 8, 11.5, 15, 20, 24.9]
POINTS = np.array([*SMALL, 25, 31, 49, 70, 100, 333, 1e3, 1e4])
PARAMETERS = np.array([-3.3, -2, -0.5, 0.3, 1, 1.7, 5])
LOWER = np.array([-2.5, 0.4, 1, 1.5, 3, 7.7])
ARGUMENTS = np.array([-50, -3, -1, -0.5, -0.2, 1e-3, 0.1, 0.5, 0.6, 0.75, 0.9, 0.95])
LINE = np.concatenate([-np.linspace(0.1, 25, 40), [0, 1e-20], np.linspace(0.1, 60, 80), [1e3, 1e6]])

# The name, the grid of each argument, and the argument with a gradient.
FUNCTIONS = {
    "betaincinv": ((SHAPES, SHAPES, TAILS), 2),
    "gammaincinv": ((SHAPES, TAILS), 1),
    "gammainccinv": ((SHAPES, TAILS), 1),
    "kve": ((ORDERS, POINTS), 1),
    "ive": ((ORDERS, POINTS), 1),
    "jv": ((ORDERS, POINTS), 1),
    "j0": ((LINE,), 0),
    "j1": ((LINE,), 0),
    "erfcx": ((LINE,), 0),
    "hyp2f1": ((PARAMETERS, PARAMETERS, LOWER, ARGUMENTS), 3),
}


def grid(name: str) -> list[np.ndarray]:
    return [each.ravel() for each in np.meshgrid(*FUNCTIONS[name][0], indexing="ij")]


@cache
def function_of(name: str, dtype: str = "float64", linker: Any = "JAXSELECTIVE") -> Any:
    inputs = [pt.vector(dtype=dtype) for _ in FUNCTIONS[name][0]]
    return pytensor.function(inputs, getattr(pt, name)(*inputs), mode=linker)


@cache
def gradient_of(name: str, linker: Any = "JAXSELECTIVE") -> Any:
    inputs = [pt.vector() for _ in FUNCTIONS[name][0]]
    cost = getattr(pt, name)(*inputs).sum()
    return pytensor.function(inputs, pt.grad(cost, inputs[FUNCTIONS[name][1]]), mode=linker)


def difference(found: Any, expected: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The error relative to the size of the function; nothing where both are as good as 0."""
    found = np.asarray(found)
    with np.errstate(all="ignore"):
        error = np.abs(found - expected) / size
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        none = (np.abs(found) < TINY) & (np.abs(expected) < TINY)
        # SciPy's library takes more for an overflow or an underflow than has to be.
        over = (np.abs(found) > 1e290) & ~np.isfinite(expected)
        under = (np.abs(found) < 1e-290) & (expected == 0)
    return np.where(same | none | over | under, 0.0, np.where(np.isnan(error), INF, error))


def size_of(name: str, arguments: list[np.ndarray], value: np.ndarray) -> np.ndarray:
    """Absolute values; of functions that oscillate, the amplitude."""
    if name not in ("jv", "j0", "j1"):
        return np.abs(value)
    order = arguments[0] if name == "jv" else np.full_like(value, float(name[1]))
    x = np.abs(arguments[-1])
    with np.errstate(all="ignore"):
        other = scipy.special.yv(order, x)
        return np.where(x > np.abs(order), np.hypot(value, other), np.abs(value))


# Where SciPy gives NaN, infinity or wrong digits, for which the right ones are known.
def is_right_in_scipy(name: str, arguments: list[np.ndarray], expected: np.ndarray) -> np.ndarray:
    if name != "hyp2f1":
        return np.ones(expected.shape, bool)
    return np.isfinite(expected) & (arguments[3] > -3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_over_the_domain(name: str) -> None:
    arguments = grid(name)
    function = function_of(name)
    expected = getattr(scipy.special, name)(*arguments)
    error = difference(function(*arguments), expected, size_of(name, arguments, expected))
    error = np.where(is_right_in_scipy(name, arguments, expected), error, 0.0)
    worst = error.argmax()
    assert error[worst] < 1e-10, [each[worst] for each in arguments]
    assert (error == 0).mean() < 0.9
    explanation = function.explain()
    assert not explanation.graph_break_count, explanation
    assert function.stats.fallbacks == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    arguments = [each[:: max(1, len(each) // 100)] for each in grid(name)]
    reference = gradient_of(name, PYTHON)
    with np.errstate(all="ignore"):
        expected = reference(*arguments)
    function = gradient_of(name)
    found = np.asarray(function(*arguments))
    value = getattr(scipy.special, name)(*arguments)
    ordinary = (np.abs(expected) > TINY) & (np.abs(expected) < 1e290) & (np.abs(value) > 1e-290)
    ordinary &= is_right_in_scipy(name, arguments, expected)
    if name == "betaincinv":
        ordinary &= value < 0.999  # PyTensor's formula has a power of 1 - value
    size = np.abs(expected) + np.abs(value)
    error = np.where(ordinary, difference(found, expected, size), 0.0)
    worst = error.argmax()
    assert error[worst] < 1e-9, [each[worst] for each in arguments]
    explanation = function.explain()
    assert not explanation.graph_break_count, explanation


EDGES = [-INF, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 100.0, INF, NAN]
EDGE_TAILS = [-0.1, -0.0, 0.0, 0.3, 1.0, 1.1, INF, -INF, NAN]
FAR_SHAPES = [1e-300, 1e-10, 1e-4, 1e-3, 1e6, 1e9, 1e12, 3e14, 1e20, 1e38]
FAR_PARAMETERS = [1e-10, 1e6, 1e10]
FAR_TAILS = [1e-300, 1e-30, 1e-6, 1e-5, 1e-4, 0.7, 1 - 1e-6]
EDGE_POINTS = [-INF, -50.0, -2.0, -0.0, 0.0, 1e-30, 2.0, 50.0, 1e5, 1e30, INF, NAN]
AT_EDGES = {
    "betaincinv": ([*EDGES, *FAR_PARAMETERS], [*EDGES, *FAR_PARAMETERS], [*EDGE_TAILS, *FAR_TAILS]),
    "gammaincinv": ([*EDGES, *FAR_SHAPES], [*EDGE_TAILS, *FAR_TAILS]),
    "gammainccinv": ([*EDGES, *FAR_SHAPES], [*EDGE_TAILS, *FAR_TAILS]),
    "kve": (EDGES, EDGE_POINTS),
    "ive": (EDGES, EDGE_POINTS),
    "jv": (EDGES, EDGE_POINTS),
    "j0": (EDGE_POINTS[1:9],),
    "j1": (EDGE_POINTS[1:9],),
    "erfcx": (EDGE_POINTS,),
    "hyp2f1": (
        [-2.0, 0.0, 0.5, 1.0, NAN],
        [-2.0, 0.5, 2.0, INF],
        [-3.0, -2.0, 0.0, 0.5, 2.0],
        [-INF, -3.0, -1.0, -0.0, 0.0, 0.5, 1.0, 1.5, INF, NAN],
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_at_edges(name: str, dtype: str) -> None:
    cases = [np.array(case, dtype) for case in product(*AT_EDGES[name])]
    arguments = [np.ascontiguousarray(column) for column in np.stack(cases, axis=1)]
    function = function_of(name, dtype)
    found, expected = (np.asarray(f(*arguments)) for f in (function, scipy_function(name)))
    op = type(function_of_scalar(name)).__name__
    rtol = 1e-10 if dtype == "float64" else 1e-6
    wrong = [
        words
        for inputs, one, other in zip(cases, found, expected, strict=True)
        if (words := compare(op, tuple(inputs), other, one, rtol=rtol))
    ]
    assert not wrong, wrong


def scipy_function(name: str) -> Any:
    def function(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return getattr(scipy.special, name)(*arguments)

    return function


def function_of_scalar(name: str) -> Any:
    return getattr(pytensor.scalar.math, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_under_jax(name: str) -> None:
    """Its derivative for JAX is PyTensor's; `vmap` and `jit` change nothing."""
    position = FUNCTIONS[name][1]
    point = [np.asarray(each)[len(each) // 2 :][:3] + 0.0 for each in FUNCTIONS[name][0]]
    function = function_of(name).jax_fn

    def total(value: Any) -> Any:
        arguments = [value if k == position else each for k, each in enumerate(point)]
        return jnp.sum(function(*arguments)[0])

    def everything(rows: Any) -> Any:
        return function(*point), jax.grad(total)(point[position]), jax.vmap(function)(*rows)

    rows = [np.stack([each, each[::-1]]) for each in point]
    [found], gradient, [mapped] = quickly(everything, rows)
    expected = gradient_of(name, PYTHON)(*point)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)
    np.testing.assert_allclose(mapped[1][::-1], found, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_nothing(name: str) -> None:
    inputs = [pt.vector() for _ in FUNCTIONS[name][0]]
    check_against_python(inputs, getattr(pt, name)(*inputs), [np.zeros(0)] * len(inputs))


def test_in_a_loop() -> None:
    x, a, b = pt.vector("x"), pt.scalar("a"), pt.scalar("b")
    outputs = pytensor.scan(
        lambda x, a, b: pt.kve(a, x) + pt.betaincinv(a, b, x / 9),
        sequences=[x],
        non_sequences=[a, b],
        return_updates=False,
    )
    call = np.linspace(0.1, 5, 7), 2.0, 3.0
    check_against_python([x, a, b], [outputs, pt.grad(outputs.sum(), x)], call)


def test_a_parameter_without_a_gradient() -> None:
    function = function_of("kve").jax_fn
    with pytest.raises(NotDifferentiableError, match="with respect to its argument 1"):
        jax.grad(lambda v: jnp.sum(function(v, np.ones(3))[0]))(np.ones(3))


@pytest.mark.parametrize("length", [1, 7, 64])
def test_the_roots_of_the_log_gamma_function(length: int) -> None:
    """They are exact wherever they stand in an array, and so is the slope for JAX."""
    x = pt.dvector("x")
    f = pytensor.function([x], pt.gammaln(pt.abs(x) + 1), mode="JAXSELECTIVE")
    arguments = np.resize([1.0, 0.0], length)
    np.testing.assert_array_equal(f(arguments), np.zeros(length))
    slope = jax.grad(lambda v: jaxify([x], pt.gammaln(x))(v).sum())(jnp.asarray([1.0, 2.0, 2.5]))
    np.testing.assert_allclose(slope, scipy.special.digamma([1, 2, 2.5]), rtol=1e-6)


LARGE = [1.7, 12.0, 47.0, 161.7, 900.0, -3.3]
POINTS_TO_ONE = [-200.0, -2.0, -0.3, 0.3, 0.7, 0.93, 0.98, 0.9999]
# Where SciPy has few digits or none; computed with mpmath 1.4.1.
WITHOUT_SCIPY = [
    ((-40.5, 30.0, 214.0, -2.0), 72274.46726918283),
    ((-40.5, 0.66, 41.5, -2.0), 411.00714586440483),
    ((-40.5, 0.01, 214.0, -2.0), 1.0047148205353649),
    ((-40.5, 4.0, 41.5, -200.0), 1.3552801595782136e74),
    ((-40.5, 30.0, 41.5, 0.7), 3.182936137413432e-10),
    ((47.0, 30.0, 30.25, -2.0), 8.7107689173425e-23),
    ((161.7, 4.0, 162.7, 0.93), 31825.520851733763),
]


def test_the_hypergeometric_function_of_large_parameters() -> None:
    """The continuation of a series along its differential equation lost 120 digits there."""
    cases = [
        (a, b, c, z)
        for a, b, z in product(LARGE, [0.01, 0.66, 4.0, 30.0], POINTS_TO_ONE)
        for c in (abs(a) + 1, 214.0, b + 0.25)
        if b < c and (a, b, c, z) not in dict(WITHOUT_SCIPY)
    ]
    a, b, c, z = np.array([*cases, *(case for case, _ in WITHOUT_SCIPY)]).T
    f = function_of("hyp2f1")
    expected = scipy.special.hyp2f1(a, b, c, z)[: len(cases)]
    right = np.isfinite(expected) & (np.abs(expected) > TINY)
    assert right.mean() > 0.7
    for first, second in ((a, b), (b, a)):
        found = np.asarray(f(first, second, c, z))
        assert not np.isnan(found).any()
        np.testing.assert_allclose(found[: len(cases)][right], expected[right], rtol=1e-9)
        true = [value for _, value in WITHOUT_SCIPY]
        np.testing.assert_allclose(found[len(cases) :], true, rtol=1e-12)
    assert f.stats.fallbacks == 0


def test_scipy_is_asked_where_the_hypergeometric_function_loses_digits() -> None:
    inputs = [pt.vector(name) for name in "abcz"]
    point = [np.array(values) for values in ([46.9, 1.0], [48.5, 2.0], [6.4, 3.0], [-0.85, 0.5])]
    f = pytensor.function(inputs, pt.hyp2f1(*inputs), mode="JAXSELECTIVE")
    expected = scipy.special.hyp2f1(*point)
    np.testing.assert_array_equal(f(*point), expected)
    assert f.stats.fallbacks == 1
    traced = np.asarray(jax.jit(jaxify(inputs, pt.hyp2f1(*inputs)))(*point))
    assert np.isnan(traced[0])
    np.testing.assert_allclose(traced[1], expected[1], rtol=1e-12)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "gammau", "gammal"])
def test_incomplete_gamma_functions_of_large_numbers(name: str) -> None:
    """JAX's series and fraction overflow in float32."""
    a, x = pt.fvector("a"), pt.fvector("x")
    values = [0.0, 1.0, 100.0, 1e4, 1e10, 1e30, 1e36, 1e37, 1e38, 1.5e38, 3.4e38, INF]
    grid = np.array(list(product(values, values)), "float32").T
    with np.errstate(all="ignore"):  # PyTensor multiplies 0 by infinity
        check_against_python([a, x], getattr(pt, name)(a, x), [*map(np.ascontiguousarray, grid)])
