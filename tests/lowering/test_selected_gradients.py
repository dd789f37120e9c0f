"""JAX's derivatives of selections: what is not selected leaves no NaN in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

import pytensor_jaxlink
from pytensor_jaxlink import JAXLinker, NotDifferentiableError, jaxify
from pytensor_jaxlink.lowering.selected_gradients import unstretched, without_others
from tests.link.test_dynamic_sizes import inputs_of

X, Y, T, N, C = pt.dvector("x"), pt.dvector("y"), pt.dscalar("t"), pt.lscalar("n"), pt.bvector("c")
VALUES = {
    X: np.array([1.0, 4.0, -1.0, 0.0, np.nan]),
    Y: np.array([2.0, 0.5, 0.0, np.inf, -3.0]),
    T: np.array(0.5),
    N: np.array(2),
    C: np.array([1, 1, 0, 0, 0], dtype="int8"),
}


def _loop(step: Callable[..., Any], *sequences: Any, state: Any = None, taps: int = 1) -> Any:
    """The states of a loop, or what its steps give."""
    start = state if taps == 1 else {"initial": state, "taps": [*range(-taps, 0)]}
    return pytensor.scan(step, sequences=sequences, outputs_info=[start], return_updates=False)


ZERO = pt.zeros(())


def _last() -> Any:
    """The last entries of five, by a mask."""
    return X[::-1][C[::-1] > 0]


LOOPS: dict[str, Callable[[], Any]] = {
    "the last state": lambda: _loop(lambda x, s: s + pt.log(x) * T, X[:N], state=ZERO)[-1],
    "all states": lambda: (_loop(lambda x, s: pt.exp(-s * T) / x, X[:N], state=ZERO) ** 2).sum(),
    "a linear recurrence": lambda: _loop(lambda y, s: s * T + y, Y[:N], state=ZERO).sum(),
    "two taps": lambda: _loop(
        lambda x, s, r: pt.sqrt(x) * s - r * T, X[:N], state=pt.ones(2), taps=2
    ).sum(),
    "no state": lambda: _loop(lambda x: pt.dot(pt.stack([x, T]), pt.stack([T, x**T])), X[:N]).sum(),
    "two sequences": lambda: _loop(lambda x, y, s: s / y + x * T, X[:N], Y[:N], state=ZERO)[-1],
    "from the end": lambda: _loop(lambda x, s: s * T + pt.log(x), X[:N][::-1], state=ZERO).sum(),
    "a vector": lambda: _loop(
        lambda x, s: s * pt.log(x) + T, X[:N], state=pt.ones(3)
    ).sum(),
    "a loop in a loop": lambda: _loop(
        lambda x, s: s + _loop(lambda y, r: r * T + pt.sqrt(y), Y[:N], state=ZERO)[-1] / x,
        X[:N], state=ZERO,
    )[-1],
    "a density": lambda: pt.log(
        _loop(lambda x, s: s * pt.sqrt(x - T), X[:N], state=pt.ones(()))[-1]
    ),
    "of a gradient": lambda: pytensor.grad(
        _loop(lambda x, s: s * T + pt.log(x), X[:N], state=ZERO).sum(), T
    ),
}  # fmt: skip
GRAPHS: dict[str, Callable[[], Any]] = LOOPS | {
    "a prefix": lambda: pt.sqrt(X[:N]).sum(),
    "a suffix": lambda: pt.log(X[::-1][N + 1 :]).sum(),
    "a mask of the argument": lambda: pt.log(X[X > 0.5]).sum(),
    "another mask": lambda: pt.sqrt(X[C > 0] * Y[C > 0]).mean(),
    "a parameter": lambda: pt.sqrt(X[:N] - T).sum(),
    "a quotient": lambda: (X[:N] / Y[:N]).sum(),
    "a power": lambda: (X[:N] ** T).sum(),
    "the largest": lambda: pt.sqrt(X[:N]).max(),
    "a logarithm of a sum": lambda: pt.logsumexp(pt.log(X[:N]) * T),
    "joined": lambda: pt.sqrt(pt.join(0, X[:N], X[:N] + 1)).sum(),
    "two dimensions": lambda: pt.sqrt(X[:N, None] * X[None, :N]).sum(),
    "differences": lambda: pt.exp(pt.sqrt(X[1:N] - X[: N - 1])).sum(),
    "a product of matrices": lambda: pt.log(X[:N]) @ pt.sqrt(Y[:N]),
    "two readers": lambda: pt.log(X[:N]).sum() * (pt.log(X[:N]) ** 2).sum(),
    "nothing": lambda: pt.sqrt(X[: N - 2] * T).sum() + T**2,
    "reversed": lambda: (pt.log(_last())[::-1] * pt.sqrt(_last()) * T).sum(),
    "neighbours": lambda: (pt.log(_last())[1:] * pt.sqrt(_last())[:-1]).sum(),
    "running sums": lambda: pt.sqrt(pt.cumsum(pt.log(_last()) + 3) * T).sum(),
    "sums of rows": lambda: pt.log((X[C > 0][:, None] * X[:N][None, :] * T).sum(1)).sum(),
    "products of rows": lambda: pt.log((X[C > 0][:, None] / X[:N][None, :]).prod(1)).sum(),
    "a reshape": lambda: pt.log(X[C > 0].reshape((-1, 1)) * T).sum(),
    "written back": lambda: (pt.zeros(5)[C > 0].set(pt.log(X[C > 0]) * T) ** 2).sum(),
    "added": lambda: (pt.ones(5)[C > 0].inc(pt.sqrt(X[C > 0]) * T) ** 2).sum(),
    "written to places": lambda: pt.zeros(7)[pt.arange(5)[C > 0]].set(pt.log(X[C > 0] * T)).sum(),
    "joined to the rest": lambda: (
        pt.join(0, pt.log(X[:N]), pt.sqrt((pt.arange(5) - N + T)[N:])) ** 2
    ).sum(),
    "a gradient": lambda: (pt.grad(pt.log(_last()).sum() * T, X) ** 2).sum(),
    "a second gradient": lambda: pt.grad(
        (pt.grad((pt.log(_last()) ** 2).sum() * T, X) ** 2).sum(), X
    ).sum(),
    "a loop over a mask": lambda: _loop(lambda x, s: s * T + pt.log(x), _last(), state=ZERO).sum(),
    "a gradient of a loop over a mask": lambda: (
        pt.grad(_loop(lambda x, s: s * T + pt.log(x), _last(), state=ZERO)[-1], X) ** 2
    ).sum(),
}


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("name", GRAPHS)
def test_they_are_those_of_pytensor(name: str) -> None:
    output = GRAPHS[name]()
    inputs = inputs_of(output)
    reals = [v for v in inputs if v in (X, Y, T)]
    values = [VALUES[v] for v in inputs]
    expected = pytensor.function(inputs, pytensor.grad(output, reals), mode="FAST_COMPILE")(*values)
    places = tuple(map(inputs.index, reals))
    f = pytensor.function(inputs, output, mode=JAXLinker(dynamic=True))
    for traced in (jaxify(inputs, output), lambda *given: f.jax_fn(*given)[0]):
        both = [derivative(traced, argnums=places) for derivative in (jax.grad, jax.jacfwd)]
        for found in jax.jit(lambda *given: [derived(*given) for derived in both])(*values):  # noqa: B023
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other)


def test_second_derivatives_and_batches() -> None:
    output = pt.log(X[:N] - T).sum()
    traced = jaxify([X, T, N], output)
    slope = jax.jit(jax.vmap(jax.hessian(traced, argnums=1), in_axes=(None, 0, None)))
    found = slope(VALUES[X], np.array([0.5, 0.25]), VALUES[N])
    reference = pytensor.function([X, T, N], pytensor.grad(pytensor.grad(output, T), T))
    expected = [reference(VALUES[X], t, 2) for t in (0.5, 0.25)]
    np.testing.assert_allclose(found, expected)


def test_operations_are_traced_again_once_and_computed_once() -> None:
    """Each sum reads all operations before it; XLA drops what nobody reads, and the selections."""
    entries, total = X[:N], pt.zeros(())
    for _ in range(8):
        entries = pt.exp(-entries)
        total = total + pt.log(entries + 1).sum()
    traced = jax.jit(jaxify([X, N], total))
    arguments = np.ones(5), np.array(3)
    written = str(jax.make_jaxpr(traced)(*arguments)).count("= exp ")
    computed = traced.lower(*arguments).compile().as_text().count(" exponential(")
    assert 2 * computed <= written <= 32


def _declaring(factor: float) -> Callable[[Any], Any]:
    """Squares whose gradient an `OpFromGraph` declares, another one than JAX would give."""

    def squares(values: Any) -> Any:
        z = values.type()
        return OpFromGraph([z], [z**2], pullback=lambda _, __, given: [given[0] * factor])(values)

    return squares


@pytest.mark.parametrize(
    "selection", [X[X > 0], X[: (X > 0).sum()], X[pt.nonzero(X > 0)[0]], X[X > 0] * 2]
)
def test_a_declared_gradient_is_not_replaced(selection: Any) -> None:
    """Where only the graph of such an Op is left, JAX's own derivative would be another one."""
    total = _declaring(3.0)(selection).sum() * T
    inputs = inputs_of(total)
    values = [VALUES[v] for v in inputs]
    run = jaxify(inputs, total)
    expected = pytensor.function(inputs, total, mode="FAST_COMPILE")(*values)
    np.testing.assert_allclose(run(*values), expected)
    place = inputs.index(X)
    with pytest.raises(NotDifferentiableError, match=r"test_selected_gradients\.py:\d+.*PJL502"):
        jax.grad(run, place)(*values)
    # What does not go through it has its derivative, and PyTensor's gradients are graphs.
    np.testing.assert_allclose(jax.grad(run, inputs.index(T))(*values), expected / 0.5)
    gradient = pytensor.grad(total, X)
    np.testing.assert_allclose(
        jaxify(inputs, gradient)(*values),
        pytensor.function(inputs, gradient, mode="FAST_COMPILE")(*values),
    )


def test_files_do_not_replace_it_either(tmp_path: Path) -> None:
    f = pytensor.function([X], _declaring(3.0)(X[X > 0]).sum(), mode="JAXSELECTIVE")
    assert f.explain().graph_break_count == 0
    assert f(VALUES[X]) == 17.0
    pytensor_jaxlink.save(f, tmp_path / "values.jaxlink")
    assert pytensor_jaxlink.load(tmp_path / "values.jaxlink")(VALUES[X]) == 17.0
    with pytest.raises(NotDifferentiableError, match="PJL502"):
        pytensor_jaxlink.save(f, tmp_path / "derivatives.jaxlink", vjp_order=1)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_a_row_that_is_read_as_a_vector_too() -> None:
    """In the matrix each of its entries is many, and in the vector one."""
    row, mask = jnp.array([[1.0, -1.0, 4.0]]), jnp.array([[1, 0, 0], [1, 0, 1]], dtype=bool)

    def total(row: jax.Array) -> jax.Array:
        vector = jnp.asarray(unstretched(mask, without_others(mask, row), row))[0]
        return jnp.where(mask.any(0), jnp.sqrt(vector), 0).sum()

    np.testing.assert_array_equal(jax.grad(total)(row), [[0.5, 0, 0.25]])


@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:invalid value")
def test_one_number_beside_a_mask_without_entries() -> None:
    """It stretches to none of them, and stays a number where it is moved (seed 1200002526)."""
    mask = pt.vector("mask", dtype="bool")
    total = (X[mask].mean() * X).sum()
    function = pytensor.function([X, mask], pytensor.grad(total, X), mode="JAXSELECTIVE")
    [found] = jax.jit(function.jax_fn)(np.ones(3), np.zeros(0, dtype=bool))
    np.testing.assert_array_equal(found, [np.nan] * 3)
