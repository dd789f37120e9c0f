"""Tracing fails although the analysis passed the node: the call succeeds, and the plan changes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax.extend.core import Primitive
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.raise_op import CheckAndRaise

from pytensor_jaxlink import JAXLinker, NotJittableError

X = np.array([1.0, 2.0])


class RepeatEach(Op):
    """Its JAX rule needs a concrete count, and nobody said so."""

    def make_node(self, array: Any, count: Any) -> Apply:
        return Apply(self, [pt.as_tensor(array), pt.as_tensor(count)], [pt.dvector()])

    def perform(self, node: Apply, inputs: list[Any], cells: list[list[Any]]) -> None:
        cells[0][0] = np.repeat(inputs[0], inputs[1])


class RepeatSome(RepeatEach):
    """Its JAX rule refuses arrays of two entries, so that a trace with those says nothing."""


class Doubled(Op):
    """Its JAX rule is broken."""

    def make_node(self, array: Any) -> Apply:
        return Apply(self, [pt.as_tensor(array)], [pt.dvector()])

    def perform(self, node: Apply, inputs: list[Any], cells: list[list[Any]]) -> None:
        cells[0][0] = inputs[0] * 2


class WrongRank(Doubled):
    """Its JAX rule returns an array of another rank."""


class NoKernel(Doubled):
    """JAX can trace it and has no code for it on this platform."""


class WrongType(Doubled):
    """JAX can trace it and has no code for values of this type."""


NO_KERNEL = Primitive("no_kernel")
NO_KERNEL.def_abstract_eval(lambda array: array)


@jax_funcify.register(NoKernel)
def _no_kernel(op: NoKernel, **_: Any) -> Any:
    return NO_KERNEL.bind


@jax_funcify.register(WrongType)
def _wrong_type(op: WrongType, **_: Any) -> Any:
    return lambda array: array * 2 + 0 * jnp.argmax(array + 0j)


@jax_funcify.register(RepeatEach)
def _repeat_each(op: RepeatEach, **_: Any) -> Any:
    return jnp.repeat


@jax_funcify.register(RepeatSome)
def _repeat_some(op: RepeatSome, **_: Any) -> Any:
    def repeat(array: Any, count: Any) -> Any:
        if array.shape == (2,):
            raise RuntimeError("two entries")
        return jnp.repeat(array, count)

    return repeat


@jax_funcify.register(Doubled)
def _doubled(op: Doubled, **_: Any) -> Any:
    def broken(array: Any) -> Any:
        raise RuntimeError("the author forgot something")

    return broken


@jax_funcify.register(WrongRank)
def _wrong_rank(op: WrongRank, **_: Any) -> Any:
    return lambda array: array[None] * 2


def test_an_undeclared_size_is_demanded() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], RepeatEach()(x * 2, n) + 1, mode="JAXSELECTIVE")
    assert f.explain().static_inputs == ("n",)
    for count in (2, 3, 3):
        np.testing.assert_allclose(f(X, count), np.repeat(X * 2, count) + 1)
    assert f.stats.fallbacks == 0


def test_an_undeclared_size_that_a_trace_does_not_show_is_demanded() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], RepeatSome()(x * 2, n) + 1, mode="JAXSELECTIVE")
    assert f.explain().static_inputs == ()
    given = np.arange(3.0)
    for count in (2, 3, 3):
        np.testing.assert_allclose(f(given, count), np.repeat(given * 2, count) + 1)
    explanation = f.explain()
    assert explanation.static_inputs == ("n",)
    assert explanation.graph_break_count == 0
    assert f.stats.fallbacks == 1
    [failure] = explanation.failures
    assert "RepeatSome" in failure
    assert "needs n to be concrete" in failure


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (Doubled(), "the author forgot something"),
        (WrongRank(), "2 dimensions"),
        (NoKernel(), "no_kernel"),
        (WrongType(), "complex"),
    ],
)
def test_a_rule_that_fails_becomes_a_host_step(op: Op, reason: str) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], op(pt.exp(x)) + 1, mode="JAXSELECTIVE")
    for _ in range(3):
        np.testing.assert_allclose(f(X), np.exp(X) * 2 + 1)
    [cut] = f.explain().breaks
    assert cut.kind == "JAX failed to trace"
    assert reason in cut.reason
    assert f.stats.fallbacks == 1
    assert f.stats.host_steps == 2


def test_an_operation_without_code_in_a_loop_and_beside_a_donated_state() -> None:
    x = pt.dvector("x")
    states = pytensor.scan(
        lambda s: NoKernel()(s) + 1, outputs_info=[x], n_steps=3, return_updates=False
    )
    f = pytensor.function([x], states[-1], mode="JAXSELECTIVE")
    state = pytensor.shared(np.zeros(200_000))
    updates = {state: NoKernel()(state) + x[0]}
    g = pytensor.function([x], NoKernel()(x).sum(), updates=updates, mode="JAXSELECTIVE")
    for _ in range(3):
        np.testing.assert_allclose(f(X), X * 8 + 7)
        assert g(X) == 6
    np.testing.assert_array_equal(state.get_value(), 7)


def test_the_users_own_error_teaches_nothing() -> None:
    x, y = pt.dvector("x"), pt.dvector("y")
    f = pytensor.function([x, y], x + y, mode="JAXSELECTIVE")
    with pytest.raises(ValueError, match="broadcast"):
        f(X, np.ones(3))
    assert f.explain().failures == ()
    assert f.explain().graph_break_count == 0
    np.testing.assert_allclose(f(X, X), 2 * X)


def test_jit_true_refuses_recorded_failures() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], Doubled()(pt.exp(x)) + 1, mode=JAXLinker(jit=True))
    for _ in range(2):
        with pytest.raises(NotJittableError, match="the author forgot something"):
            f(X)


def test_without_jit_too() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], Doubled()(pt.exp(x)) + 1, mode=JAXLinker(jit=False))
    np.testing.assert_allclose(f(X), np.exp(X) * 2 + 1)


def test_what_the_fallback_gives_has_the_dtype_of_a_region() -> None:
    """`CumOp.perform` gives NumPy's dtype of a sum, which is wider than the declared one."""
    x, narrow = pt.dvector("x"), pt.vector("narrow", dtype="uint16")
    last = pytensor.shared(np.zeros(3, "uint16"))
    f = pytensor.function(
        [x, narrow],
        [WrongRank()(x), pt.cumsum(narrow)],
        updates={last: pt.cumsum(narrow)},
        mode="JAXSELECTIVE",
    )
    for fallbacks in (1, 1):
        _, total = f(np.ones(2), np.arange(3, dtype="uint16"))
        assert f.stats.fallbacks == fallbacks
        assert (total.dtype, last.get_value().dtype) == ("uint64", "uint16")
        np.testing.assert_array_equal(total, [0, 1, 3])


class Positive(CheckAndRaise):
    """A check of another package, which registers a rule that drops it, as PyMC does."""


@jax_funcify.register(Positive)
def _dropped(op: Positive, **options: Any) -> Any:
    return lambda value, *conditions: value


@pytest.mark.parametrize("jit", ["selective", False])
def test_a_rule_that_drops_a_check_is_not_taken(jit: Any) -> None:
    x = pt.dvector("x")
    checked = Positive(ValueError, "negative")(x, x.sum() > 0)
    f = pytensor.function([x], pt.exp(checked), mode=JAXLinker(jit=jit))
    np.testing.assert_allclose(f(np.ones(2)), np.e)
    with pytest.raises(ValueError, match="negative"):
        f(-np.ones(2))
