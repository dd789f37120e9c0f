"""Values that XLA would compute again and again get an optimization barrier, and no others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink import jaxify
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.lowering.barriers import barriers_of, small_barriers_of
from tests.helpers import check_against_python

X = pt.dvector("x")


def chain(length: int) -> Any:
    value = X
    for _ in range(length):
        value = pt.tanh(value) * pt.cos(value)
    return value


def barriers(*outputs: Any) -> int:
    view = GraphView.of(FunctionGraph([X], list(outputs), clone=True))
    return len(barriers_of(view, range(len(view.nodes))))


def test_a_chain_has_barriers_where_it_has_become_dear() -> None:
    # A step costs two functions and a product, and reads the one before twice.
    assert barriers(chain(1)) == 0
    assert barriers(chain(12)) == 5  # each second step; nobody reads the last one twice


def test_what_is_read_once_or_is_cheap_is_not() -> None:
    once = pt.exp(pt.sin(pt.tanh(pt.log(pt.cos(pt.exp(pt.sin(X)))))))
    assert barriers(once) == 0
    cheap = X
    for _ in range(4):
        cheap = cheap * 2 + cheap
    assert barriers(cheap) == 0
    scalar = chain(12).sum()
    assert barriers(scalar * 2, scalar * 3) == 5


@pytest.mark.cpu("barriers are for its compiler")
def test_what_is_compiled_and_what_the_user_traces_have_them() -> None:
    cost = chain(12).sum()
    f = check_against_python([X], [cost, pytensor.grad(cost, X)], (np.linspace(-1, 1, 7),))
    traced = str(jax.make_jaxpr(f.jax_fn)(np.ones(7))).count("= optimization_barrier")
    assert traced == f._fast.call.lower(np.ones(7)).as_text().count(
        "stablehlo.optimization_barrier"
    )
    assert traced > 5


def functions(function: Any, *arguments: Any) -> float:
    """How many functions XLA computes: once for each operation that reads one."""
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["transcendentals"]


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="XLA of JAX 0.10 removes barriers")
@pytest.mark.parametrize("transform", [lambda f: f, jax.vmap], ids=["alone", "vmap"])
def test_what_the_user_differentiates_is_computed_once(transform: Any) -> None:
    """Without barriers the functions of a step are computed again by each step that follows."""

    def by_hand(x: Any) -> Any:
        for _ in range(24):
            x = jnp.tanh(x) * jnp.cos(x)
        return x.sum()

    value = np.linspace(0.1, 1, 12).reshape((3, 4) if transform is jax.vmap else 12)
    ours = transform(jax.value_and_grad(jaxify([X], chain(24).sum())))
    theirs = transform(jax.value_and_grad(by_hand))
    for found, expected in zip(jax.jit(ours)(value), jax.jit(theirs)(value), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert functions(ours, value) * 3 < functions(theirs, value)


def test_other_transformations_go_through_them() -> None:
    cost, value = jaxify([X], chain(12).sum()), np.linspace(-1, 1, 5)
    hessian = jax.jit(jax.hessian(cost))(value)
    backward = jax.jit(jax.jacrev(jax.grad(cost)))(value)
    np.testing.assert_allclose(hessian, backward, rtol=1e-6, atol=1e-12)
    along = jax.jit(lambda x: jax.jvp(jax.grad(cost), (x,), (np.ones(5),)))(value)[1]
    np.testing.assert_allclose(along, hessian.sum(1), rtol=1e-9, atol=1e-12)
    saved = jax.jit(jax.grad(jax.checkpoint(cost)))(value)
    np.testing.assert_allclose(saved, jax.jit(jax.grad(cost))(value), rtol=1e-9)


def test_other_devices_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "barrier" not in str(jax.make_jaxpr(jaxify([X], chain(12)))(np.ones(3)))


def test_small_functions_that_a_reduction_reads() -> None:
    out = pt.exp(X).sum() + (X * 2).sum() + pt.exp(X)[0]
    view = GraphView.of(FunctionGraph([X], [out], clone=True))
    [number] = small_barriers_of(view, range(len(view.nodes)))
    assert str(view.variables[number].owner.op) == "Exp"
