"""JAX's derivatives of graphs that declare other gradients: `zero_grad`, `grad_clip` and others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor import sparse
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode, get_mode
from pytensor.compile.ops import ViewOp
from pytensor.gradient import (
    disconnected_grad,
    grad_clip,
    grad_scale,
    hessian,
    undefined_grad,
    zero_grad,
)

from pytensor_jaxlink import ArtifactError, NotDifferentiableError, jaxify, load, save
from pytensor_jaxlink.compat import ifelse

x = pt.dvector("x")
VALUE = np.array([1.5, -2.0, 0.5])


class Reversed(ViewOp):
    """The gradient changes its sign."""

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        return [-cotangents[0]]

    L_op = pullback

    def grad(self, inputs: Any, cotangents: Any) -> list[Any]:
        return [-cotangents[0]]


def loop(step: Callable[..., Any], **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def clipped_states(given: Any) -> Any:
    def step(entry: Any, state: Any) -> Any:
        return pt.tanh(grad_clip(state * entry * 3, -0.01, 0.01) + entry)

    return loop(step, sequences=[given], outputs_info=[given[0]])


def batch(given: Any) -> Any:
    """An inner graph for each of two rows."""
    row = pt.dvector()
    op = OpFromGraph([row], [grad_scale(row**2, 0.5)])
    return pt.vectorize(lambda each: op(each), signature="(n)->(n)")(pt.stack([given, given]))


def wrapped(step: Callable[[Any], Any]) -> Any:
    given = pt.dvector()
    return OpFromGraph([given], [step(given)])


def twice(given: Any) -> Any:
    return grad_clip(given**2, -1, 1) + grad_clip(given**2, -1, 1)


COSTS: dict[str, Callable[[Any], Any]] = {
    "zero_grad": lambda x: (zero_grad(x) * x).sum(),
    "disconnected_grad": lambda x: (disconnected_grad(x) * x).sum(),
    "grad_clip": lambda x: (grad_clip(x, -0.5, 0.5) ** 2 + x).sum(),
    "grad_scale": lambda x: (grad_scale(x, 3.0) ** 2).sum(),
    "of the user": lambda x: (Reversed()(x) ** 2).sum() + x.sum(),
    "what is rewritten together": lambda x: pt.log(grad_clip(pt.sigmoid(x), -0.5, 0.5)).sum(),
    "a matrix": lambda x: grad_clip(pt.linalg.cholesky(pt.diag(x**2)), -0.1, 0.1).sum(),
    "a branch": lambda x: ifelse(x.sum() > 5, x, grad_scale(x, 2.0)).sum(),
    "a loop": lambda x: clipped_states(x)[-1] + x.sum(),
    "a repeated step": lambda x: loop(
        lambda state: zero_grad(state) * state * 2, outputs_info=[x], n_steps=3
    )[-1].sum(),
    "an inner graph": lambda x: OpFromGraph([x], [grad_scale(x**2, 0.5)])(x).sum(),
    "before a selection": lambda x: (grad_clip(x, -0.5, 0.5) ** 2)[x > 0].sum(),
    "after a selection": lambda x: grad_clip(x[x > 0] ** 2, -0.5, 0.5).sum(),
    "equal ones": lambda x: (grad_clip(x**2, -1, 1) + grad_clip(x**2, -1, 1)).sum(),
    "what has no derivative elsewhere": lambda x: grad_scale(pt.sqrt(x[x > 0]), 2.0).sum(),
    "a slope that is infinite": lambda x: grad_scale(x[x > 0], np.inf).sum(),
    "bounds without zero": lambda x: (grad_clip(x[x > 0], 0.1, 0.5) ** 2).sum(),
    "a selection that is set": lambda x: pt.set_subtensor(
        x[x > 0], grad_clip(1 / pt.sqrt(x[x > 0]), -1, 1)
    ).sum(),
    "equal ones inside": lambda x: wrapped(twice)(x).sum(),
    "equal ones in a loop": lambda x: loop(twice, sequences=[x]).sum(),
    "a size": lambda x: (
        x[: zero_grad(x.shape[0]) - 1] * pt.arange(zero_grad(pt.constant(2)))
    ).sum(),
    "two": lambda x: (zero_grad(x[x > 0]) * grad_scale(x[x > 0], 0.5)).sum(),
}


def expected(outputs: Any) -> Any:
    return pytensor.function([x], outputs, mode=Mode("py", "fast_run"))(VALUE)


@pytest.mark.parametrize("name", COSTS)
def test_gradients_are_those_of_pytensor(name: str) -> None:
    cost = COSTS[name](x)
    wanted = expected([cost, pytensor.grad(cost, x)])
    fn = jaxify([x], cost)
    for value, slope in (
        jax.value_and_grad(fn)(VALUE),
        jax.jit(jax.value_and_grad(fn))(VALUE),
        jax.value_and_grad(jax.jit(fn))(VALUE),
    ):
        assert isinstance(value, jax.Array)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
        np.testing.assert_allclose(slope, wanted[1], rtol=1e-12)
    rows = jax.jit(jax.vmap(jax.grad(fn)))(np.stack([VALUE, VALUE]))
    np.testing.assert_allclose(rows, [wanted[1]] * 2, rtol=1e-12)


@pytest.mark.skipif(
    pytensor.__version__.startswith("3.0"),
    reason="PyTensor makes one Op of the two",
)
def test_two_that_pytensor_takes_for_equal() -> None:
    fn = jaxify([x], (grad_scale(x, 2.0) * x + grad_scale(x, 3.0) * x).sum())
    np.testing.assert_allclose(jax.grad(fn)(VALUE), 7 * VALUE)
    op = wrapped(lambda given: grad_clip(given**2, -1, 1))
    np.testing.assert_allclose(jax.grad(jaxify([x], (op(x) + op(x)).sum()))(VALUE), 4 * VALUE)


def test_a_mode_that_keeps_them() -> None:
    mode = get_mode("JAXSELECTIVE").excluding("local_view_op")
    f = pytensor.function([x], twice(x).sum(), mode=mode)
    np.testing.assert_allclose(jax.grad(lambda given: f.jax_fn(given)[0])(VALUE), [6, -8, 2])


def test_generators_and_sparse_matrices() -> None:
    state = pytensor.shared(np.random.default_rng(1))
    following, draws = pt.random.normal(0, 1, size=(3,), rng=state).owner.outputs
    fn = jaxify([x], (zero_grad(x) * x * draws).sum(), updates={state: following})
    keys = jax.random.key_data(jax.random.split(jax.random.key(0), 2))
    derived = jax.grad(lambda given, key: fn(given, key)[0])
    slopes = jax.jit(jax.vmap(derived))(np.stack([VALUE] * 2), keys)
    for slope, key in zip(slopes, keys, strict=True):
        alone = jax.jit(derived)(VALUE, key)
        np.testing.assert_allclose(slope, alone)
        assert abs(alone).min() > 0
    matrix = sparse.csr_matrix("matrix", dtype="float64")
    fn = jaxify([x, matrix], [matrix * 2.0, (zero_grad(x) * x).sum()])
    given = scipy.sparse.csr_matrix(np.diag(VALUE))
    np.testing.assert_array_equal(jax.grad(lambda value: fn(value, given)[1])(VALUE), VALUE)


def test_forward_mode_of_many_entries() -> None:
    many = np.ones(300_000)
    fn = jaxify([x], (grad_scale(x, 2.0) ** 2).sum())
    assert jax.jit(lambda given: jax.jvp(fn, (given,), (given,)))(many)[1] == 4 * many.size
    roots = jaxify([x], grad_scale(pt.sqrt(x), 2.0))
    _, moves = jax.jvp(roots, (np.array([0.0, 1.0]),), (np.ones(2),))
    np.testing.assert_array_equal(moves, [np.inf, 1])


def test_open_dimensions() -> None:
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), "float64")
    slope = jax.jit(jax.grad(jaxify([x], COSTS["grad_clip"](x))))
    exported = jax.export.export(slope)(shape)
    np.testing.assert_allclose(exported.call(VALUE), slope(VALUE))


def test_nothing_leaks() -> None:
    number = pt.lscalar("number")
    fn = jaxify([x, number], [(zero_grad(x) * grad_clip(x, -1, 1)).sum(), number + 1])
    with jax.checking_leaks():
        jax.jit(fn)(VALUE, 2)
        jax.jit(jax.grad(lambda *given: fn(*given)[0]))(VALUE, 2)
        jax.jit(jax.vmap(jax.grad(lambda given: fn(given, 2)[0])))(VALUE[None])


def test_what_jax_cannot_trace_with_them() -> None:
    cost = (Reversed()(x[x > 0]) ** 2).sum()
    with pytest.raises(NotDifferentiableError, match=r"Take the gradient by PyTensor.*PJL502"):
        jax.grad(jaxify([x], cost))(VALUE)
    np.testing.assert_allclose(jaxify([x], pytensor.grad(cost, x))(VALUE), [-3, 0, -1])


def test_values_are_those_of_the_rewritten_graph() -> None:
    far = np.array([-800.0])
    cost = pt.log(grad_clip(pt.sigmoid(x), -0.5, 0.5)).sum()
    fn = jaxify([x], cost)
    for function in (fn, jax.jit(fn), lambda given: jax.value_and_grad(fn)(given)[0]):
        assert function(far) == -800.0


@pytest.mark.parametrize(
    "name", ["zero_grad", "grad_clip", "grad_scale", "what is rewritten together"]
)
@pytest.mark.parametrize("second", [jax.hessian, lambda fn: jax.jacrev(jax.grad(fn))])
def test_second_derivatives(name: str, second: Callable[..., Any]) -> None:
    cost = COSTS[name](x)
    got = jax.jit(second(jaxify([x], cost)))(VALUE)
    np.testing.assert_allclose(got, expected(hessian(cost, x)), rtol=1e-9, atol=1e-12)


def test_forward_mode() -> None:
    fn = jaxify([x], (zero_grad(x) * grad_scale(x, 3.0)).sum())
    value, move = jax.jvp(fn, (VALUE,), (np.ones(3),))
    assert (value, move) == (6.5, 0.0)
    assert jax.linearize(fn, VALUE)[1](VALUE) == 3 * 6.5


def test_an_undefined_gradient() -> None:
    y = pt.dvector("y")
    fn = jaxify([x, y], (undefined_grad(y) * x).sum())
    np.testing.assert_array_equal(jax.grad(fn)(VALUE, VALUE), VALUE)
    with pytest.raises(
        NotDifferentiableError, match=r"JAX differentiates undefined_grad.* respect to y"
    ):
        jax.grad(fn, argnums=1)(VALUE, VALUE)


def test_a_multiplier_that_is_no_constant() -> None:
    factor = pt.dscalar("factor")
    fn = jaxify([x, factor], grad_scale(x**2, factor).sum() * factor)
    with pytest.raises(NotDifferentiableError, match="it depends on factor, which is no input"):
        jax.grad(fn)(VALUE, 2.5)


def test_state_and_sizes() -> None:
    power, state = pt.lscalar("power"), pytensor.shared(np.ones(3), "state")
    updates = {state: state * grad_clip(x, -0.1, 0.1)}
    fn = jaxify([x, power], (grad_scale(x, 3.0) ** power * state).sum(), updates=updates)
    slope = jax.grad(lambda given: fn(given, 2, np.ones(3))[0])(VALUE)
    np.testing.assert_allclose(slope, 6 * VALUE)
    moved = jax.grad(lambda *given: fn(given[0], 2, given[1])[1][0].sum(), argnums=(0, 1))
    slopes = moved(VALUE, np.ones(3))
    np.testing.assert_allclose(slopes[0], [0.1] * 3)
    np.testing.assert_allclose(slopes[1], VALUE)


def test_functions_and_their_copies(tmp_path: Path) -> None:
    f = pytensor.function([x], (zero_grad(x) * x).sum(), mode="JAXSELECTIVE")
    f(VALUE)
    save(f, tmp_path / "f.jaxlink")
    loaded = load(tmp_path / "f.jaxlink", prefer="graph")
    for function in (f, f.copy(), pickle.loads(pickle.dumps(f)), loaded):
        slope = jax.grad(lambda given, fn=function.jax_fn: fn(given)[0])(VALUE)
        np.testing.assert_array_equal(slope, VALUE)


def test_functions_from_the_start_up_cache(tmp_path: Path) -> None:
    from pytensor_jaxlink import JAXLinker

    for _ in range(2):
        given = pt.dvector("given")
        cost = (zero_grad(given) * given).sum()
        f: Any = pytensor.function([given], cost, mode=JAXLinker(cache_dir=tmp_path))
        assert f(VALUE) == 6.5
        np.testing.assert_array_equal(jax.grad(lambda v, fn=f.jax_fn: fn(v)[0])(VALUE), VALUE)


def test_saved_code_has_no_such_derivative(tmp_path: Path) -> None:
    f = pytensor.function([x], (zero_grad(x) * x).sum(), mode="JAXSELECTIVE")
    f(VALUE)
    with pytest.raises(ArtifactError, match=r"declares another gradient .*PJL713"):
        save(f, tmp_path / "f.jaxlink", vjp_order=1)
    cost = (zero_grad(x) * x).sum()
    both = pytensor.function([x], [cost, pytensor.grad(cost, x)], mode="JAXSELECTIVE")
    both(VALUE)
    save(both, tmp_path / "both.jaxlink")
    np.testing.assert_array_equal(load(tmp_path / "both.jaxlink")(VALUE)[1], VALUE)
