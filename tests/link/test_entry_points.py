"""Every entry point gives the same answer about one graph."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify

from pytensor_jaxlink import (
    JAXLinker,
    JAXLinkWarning,
    NotJittableError,
    UntranspilableOpError,
    jaxify,
)
from tests.helpers import black_box, sort_down

X, N, V, R = pt.dvector("x"), pt.lscalar("n"), pt.lvector("v"), pt.dscalar("r")


class Fill(Op):
    """Its JAX rule needs a concrete count, and nobody said so."""

    def make_node(self, array: Any, count: Any) -> Apply:
        return Apply(self, [pt.as_tensor(array), pt.as_tensor(count)], [pt.dvector()])

    def perform(self, node: Apply, inputs: list[Any], cells: list[list[Any]]) -> None:
        cells[0][0] = np.full(int(inputs[1]), inputs[0].sum())


class FillThree(Fill):
    """The same, for three entries only: a trace with others says nothing."""


class Doubled(Op):
    """Its JAX rule asks for the values of its array."""

    def make_node(self, array: Any) -> Apply:
        return Apply(self, [pt.as_tensor(array)], [pt.dvector()])

    def perform(self, node: Apply, inputs: list[Any], cells: list[list[Any]]) -> None:
        cells[0][0] = inputs[0] * 2


@jax_funcify.register(Doubled)
def _doubled(op: Doubled, **_: Any) -> Any:
    return lambda array: array * 2 if array.sum() > 0 else array + array


class FillScaled(Op):
    """Its JAX rule needs one of its numbers."""

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, list(map(pt.as_tensor, inputs)), [pt.dvector()])

    def perform(self, node: Apply, inputs: list[Any], cells: list[list[Any]]) -> None:
        array, count, scale, shift = inputs
        cells[0][0] = np.full(int(count), array.sum() * scale + shift)


@jax_funcify.register(FillScaled)
def _fill_scaled(op: FillScaled, **_: Any) -> Any:
    return lambda array, count, scale, shift: jnp.full(int(count), array.sum() * scale + shift)


@jax_funcify.register(Fill)
def _fill(op: Fill, **_: Any) -> Any:
    return lambda array, count: jnp.full(int(count), array.sum())


@jax_funcify.register(FillThree)
def _fill_three(op: FillThree, **_: Any) -> Any:
    def rule(array: Any, count: Any) -> Any:
        if array.shape[0] != 3:
            raise RuntimeError("not three")
        return jnp.full(int(count), array.sum())

    return rule


class TestUndeclaredSizes:
    def test_jaxify(self) -> None:
        fn = jaxify([X, N], Fill()(X, N))
        assert fn.static_argnums == (1,)
        jitted = jax.jit(fn, static_argnums=fn.static_argnums)
        np.testing.assert_array_equal(jitted(np.ones(3), 4), [3, 3, 3, 3])

    @pytest.mark.parametrize("jit", ["selective", True, False])
    def test_the_call_and_compile(self, jit: Any) -> None:
        f = pytensor.function([X, N], Fill()(X, N), mode=JAXLinker(jit=jit))
        f.compile(np.ones(3), 3)
        np.testing.assert_array_equal(f(np.ones(3), 3), [3, 3, 3])
        assert f.static_argnums == (1,)
        assert f.stats.fallbacks == 0

    def test_in_a_loop(self) -> None:
        out = pytensor.scan(lambda x: Fill()(x[None], N).sum(), [X], return_updates=False)
        fn = jaxify([X, N], out)
        assert fn.static_argnums == (1,)
        found = jax.jit(fn, static_argnums=(1,))(np.arange(3.0), 2)
        np.testing.assert_array_equal(found, [0, 2, 4])

    def test_compile_records_failures_as_a_call_does(self) -> None:
        f = pytensor.function([X, N], FillThree()(X, N), mode="JAXSELECTIVE")
        assert f.static_argnums == ()
        f.compile(np.ones(3), 3)
        assert f.static_argnums == (1,)
        np.testing.assert_array_equal(f(np.ones(3), 3), [3, 3, 3])
        assert f.stats.compilations == [1]

    def test_compile_raises_what_the_call_raises(self) -> None:
        f = pytensor.function([X, N], FillThree()(X, N), mode=JAXLinker(jit=True))
        for attempt in (f.compile, f):
            with pytest.raises(NotJittableError, match="FillThree"):
                attempt(np.ones(2), 3)
        y = pt.dvector("y")
        g = pytensor.function([X, y], X + y, mode="JAXSELECTIVE")
        for attempt in (g.compile, g):
            with pytest.raises(ValueError, match=r"(?i)shape|dimension|broadcast"):
                attempt(np.ones(2), np.ones(3))

    @pytest.mark.parametrize("jit", ["selective", True, False])
    @pytest.mark.parametrize("count", [pt.constant(2), pt.constant(np.int64(2))])
    def test_constants_are_concrete(self, count: Any, jit: Any) -> None:
        expected = [6, 6, 6, 6, 6, 6, 6, 6]
        out = pt.concatenate([Fill()(X, count), Fill()(X, N), Fill()(2 * X, count)[:1] / 2])
        wrapped = OpFromGraph([X], [Fill()(X, count)])(X)
        for inputs, graph, values in ([[X, N], out, (3,)], [[X], wrapped, ()]):
            f = pytensor.function(inputs, graph, mode=JAXLinker(jit=jit))
            arguments, wanted = (np.array([1.0, 2.0, 3.0]), *values), expected[: 6 if values else 2]
            np.testing.assert_array_equal(f(*arguments), wanted)
            assert f.stats.fallbacks == f.explain().graph_break_count == 0
            fn = jaxify(inputs, graph)
            static = tuple(range(1, len(inputs)))
            assert fn.static_argnums == f.static_argnums == static
            np.testing.assert_array_equal(jax.jit(fn, static_argnums=static)(*arguments), wanted)

    def test_a_constant_that_only_a_call_shows(self) -> None:
        f = pytensor.function([X], FillThree()(X, pt.constant(2)), mode="JAXSELECTIVE")
        for _ in range(2):
            np.testing.assert_array_equal(f(np.ones(3)), [3, 3])
        assert f.stats.fallbacks == 1
        assert f.explain().graph_break_count == 0

    def test_as_few_as_possible(self) -> None:
        out = FillScaled()(X, N, R, pt.lscalar("shift"))
        inputs = [X, N, R, out.owner.inputs[3]]
        fn = jaxify(inputs, out)
        assert fn.static_argnums == (1,)
        slope = jax.grad(lambda r: fn(np.ones(3), 2, r, 1).sum())(0.5)
        assert slope == 6
        f = pytensor.function(inputs, out, mode=JAXLinker(dynamic=False))
        for scale in range(3):
            np.testing.assert_array_equal(f(np.ones(3), 2, scale, 4), [3 * scale + 4] * 2)
        assert f.stats.compilations == [1]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (pt.unique(V), [0, 1, 2]),
        (X[pt.nonzero(V)[0]], [0, 1]),
        (pt.repeat(X, V), [0, 1, 1]),
        (pt.repeat(pt.exp(X), pt.sort(V))[:1] * 0 + 2, [2]),
    ],
)
def test_integer_vectors_are_static_where_the_user_holds_the_jit(out: Any, expected: Any) -> None:
    x, v = np.arange(3.0), (1, 2, 0)
    fn = jaxify([X, V], out)
    f = pytensor.function([X, V], out, mode="JAXSELECTIVE", on_unused_input="ignore")
    assert fn.static_argnums == f.static_argnums == (1,)
    np.testing.assert_array_equal(jax.jit(fn, static_argnums=(1,))(x, v), expected)
    np.testing.assert_array_equal(jax.jit(lambda x: fn(x, np.array(v)))(x), expected)
    np.testing.assert_array_equal(f(x, v), expected)
    with pytest.raises(NotJittableError, match=r"'?v'?"):
        jax.jit(fn)(x, v)


def test_a_real_vector_is_no_size() -> None:
    fn = jaxify([X], pt.unique(X))
    with pytest.raises(NotJittableError, match="unique"):
        _ = fn.static_argnums


def test_a_tuple_that_jax_traces() -> None:
    out = X.reshape(V, ndim=2)
    f = pytensor.function([X, V], out, mode="JAXSELECTIVE")
    for fn in (jaxify([X, V], out), f.jax_fn):
        with pytest.raises(NotJittableError, match="argument"):
            jax.jit(fn)(np.ones(6), (2, 3))
    assert jax.jit(jaxify([X, V], X[:2] * V.sum()))(np.ones(2), (2, 3)).tolist() == [5, 5]


class TestHostOpsError:
    def test_a_rule_that_fails_while_tracing(self) -> None:
        f = pytensor.function([X, N], FillThree()(X, N), mode=JAXLinker(host_ops="error"))
        np.testing.assert_array_equal(f(np.ones(3), 2), [3, 3])
        for _ in range(2):
            with pytest.raises(UntranspilableOpError, match="FillThree"):
                f(np.ones(2), 2)

    def test_under_the_users_jit(self) -> None:
        fn = jaxify([X, N], FillThree()(X, N), host_ops="error", jit=False)
        with pytest.raises(UntranspilableOpError, match=r"FillThree.*not three"):
            jax.jit(fn, static_argnums=(1,))(np.ones(2), 2)


@pytest.mark.parametrize("jit", ["selective", False])
def test_a_rule_that_fails_where_nobody_traces(jit: Any) -> None:
    """With concrete values `jaxify` runs whatever the graph, as a call does."""
    doubled = Doubled()
    in_loop = pytensor.scan(lambda step: doubled(X * step).sum(), [X], return_updates=False)
    x = np.array([1.0, 2.0, 3.0])
    fn = jaxify([X], in_loop, jit=jit)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(lambda: fn(x))()  # which says nothing of calls without a jit
    assert fn.static_argnums == ()
    for value in (x, jnp.asarray(x)):
        np.testing.assert_array_equal(fn(value), [12, 24, 36])
    with pytest.raises(NotJittableError, match="Doubled"):
        _ = fn.static_argnums
    with pytest.raises(NotJittableError, match="Doubled"):
        jax.jit(fn)(x)
    y = pt.dvector("y")
    added = jaxify([X, y], X + y, jit=jit)
    with pytest.raises((TypeError, ValueError)):
        added(x, x[:2])
    assert added.static_argnums == ()
    whole = jaxify([X], in_loop, jit=True)
    for _ in range(2):
        with pytest.raises(NotJittableError, match="Doubled"):
            whole(x)


def test_static_arguments_are_not_donated() -> None:
    f = pytensor.function([V, X], X.reshape(V, ndim=2) * 2, mode=JAXLinker(donate="all"))
    shape, x = jnp.array([2, 3]), jnp.ones(6)
    f(shape, x)
    assert not shape.is_deleted()
    np.testing.assert_array_equal(shape, [2, 3])
    assert f.donate_argnums == (1,)


class TestJaxify:
    def test_one_variable_in_two_leaves(self) -> None:
        w = pt.dvector("w")
        fn = jaxify([{"a": w, "b": w}, X], (w * X).sum())
        value = np.ones(3)
        assert fn({"a": value, "b": value}, np.arange(3.0)) == 3
        assert jax.jit(fn)({"a": value, "b": value}, np.arange(3.0)) == 3
        slopes = jax.grad(fn)({"a": value, "b": value}, np.arange(3.0))
        np.testing.assert_array_equal(slopes["a"] + slopes["b"], np.arange(3.0))
        with pytest.raises(ValueError, match="their values differ"):
            fn({"a": value, "b": value + 1}, np.arange(3.0))

    def test_a_new_state_that_is_a_size_can_be_passed_again(self) -> None:
        k = pytensor.shared(2, "k")
        fn = jaxify([X], X[:k].sum(), updates={k: k + 1})
        assert fn.static_argnums == (1,)
        _, state = fn(np.arange(5.0), *fn.initial_state())
        assert state == (3,)
        assert type(state[0]) is int
        jitted = jax.jit(fn, static_argnums=fn.static_argnums)
        assert jitted(np.arange(5.0), *state)[0] == 3


def test_profiles_count_calls() -> None:
    f = pytensor.function([X], pt.exp(X), mode="JAXSELECTIVE", profile=True)
    for _ in range(3):
        f(np.ones(3))
    assert f.profile.fct_callcount == f.stats.calls == 3


def test_fallbacks_are_explained() -> None:
    f = pytensor.function([X], pt.exp(X).sum(), mode=JAXLinker(recompile_limit=2, dynamic=False))
    with pytest.warns(JAXLinkWarning, match="recompile_limit"):
        np.testing.assert_allclose([f(np.ones(n)) for n in range(1, 6)], np.e * np.arange(1, 6))
    [text] = f.explain().fallbacks
    assert text == "region 0 reached its recompile_limit of 2 and ran on the host 3 times"
    assert f"fallback: {text}" in str(f.explain())
    assert f.stats.host_regions == 3
    y = pt.dvector("y")
    g = pytensor.function([X, y], X + y, mode="JAXSELECTIVE")
    with pytest.raises(ValueError, match=r"."):
        g(np.ones(2), np.ones(3))
    assert "1 call" in g.explain().fallbacks[0]


def test_pytensor_may_be_blocked() -> None:
    program = """
import sys
sys.modules["pytensor"] = None
import pytensor_jaxlink
pytensor_jaxlink.load
del sys.modules["pytensor"]
import pytensor
pytensor.compile.mode.get_mode("JAXSELECTIVE")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_host_steps_need_no_size() -> None:
    """A break that no static argument removes is still named."""
    f = pytensor.function(
        [X, N],
        black_box(sort_down)(X)[:N] * R * 0 + N,
        givens={R: 1.0},
        mode="JAXSELECTIVE",
        on_unused_input="ignore",
    )
    with pytest.raises(NotJittableError, match="sort_down"):
        _ = f.static_argnums
