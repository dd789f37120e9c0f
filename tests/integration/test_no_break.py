"""Graphs with sizes that are known when the function is called: one region, no break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

from pytensor_jaxlink import JAXLinker
from tests.helpers import as_list, assert_same, check_against_python, compile_both

X, M = np.arange(1.0, 7.0), np.arange(12.0).reshape(3, 4)


@dataclass
class Symbols:
    """The symbolic inputs, in the floatX of the test."""

    x: Any
    y: Any
    m: Any
    n: Any
    k: Any
    shape: Any


def scan_product(x: Any) -> Any:
    return pytensor.scan(
        lambda element, total: total * element,
        sequences=[x],
        outputs_info=[pt.ones((), dtype=pytensor.config.floatX)],
        return_updates=False,
    )


def reshape_in_op(s: Symbols) -> Any:
    inner, rows = pt.vector("inner"), pt.lscalar("rows")
    return OpFromGraph([inner, rows], [inner.reshape((rows, -1)) * 2])(s.x, s.n)


def reshape_in_scan(s: Symbols) -> Any:
    return pytensor.scan(
        lambda row, total, rows: total + row.reshape((rows, -1)).sum(axis=0).max(),
        sequences=[s.m],
        outputs_info=[pt.zeros((), dtype=pytensor.config.floatX)],
        non_sequences=[s.n],
        return_updates=False,
    )


# For each graph, the outputs, and the arguments of some calls by the names of the symbols.
GRAPHS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "reshape": (lambda s: s.x.reshape((s.n, -1)), [{"x": X, "n": 3}, {"x": X, "n": 2}]),
    "reshape_times_n": (lambda s: s.x.reshape((s.n, -1)) * s.n, [{"x": X, "n": 3}]),
    "reshape_half": (lambda s: s.x.reshape((s.n // 2, -1)), [{"x": X, "n": 6}]),
    "reshape_by_vector": (
        lambda s: s.x.reshape(s.shape, ndim=2),
        [{"x": X, "shape": np.array([2, 3])}, {"x": X, "shape": np.array([3, -1])}],
    ),
    "reshape_to_scalar": (
        lambda s: s.x[0].reshape(s.shape, ndim=0),
        [{"x": X, "shape": np.zeros(0, int)}],
    ),
    "reshape_two_sizes": (
        lambda s: s.x.reshape((s.n * s.k, s.x.shape[0] // (s.n * s.k))),
        [{"x": X, "n": 1, "k": 3}],
    ),
    "reshape_like": (lambda s: s.x.reshape((s.y.shape[0], -1)), [{"x": X, "y": X[:2]}]),
    "zeros": (lambda s: pt.zeros(s.n), [{"n": 3}, {"n": 0}]),
    "full": (lambda s: pt.full((s.n, s.k), 2.5), [{"n": 3, "k": 2}]),
    "eye": (lambda s: pt.eye(s.n), [{"n": 3}]),
    "eye_offset": (lambda s: pt.eye(s.n, s.n + 2, 1), [{"n": 3}]),
    "arange": (lambda s: pt.arange(s.n), [{"n": 4}, {"n": 0}]),
    "arange_step": (lambda s: pt.arange(s.n, s.k, 3), [{"n": 1, "k": 9}]),
    "arange_float": (lambda s: pt.arange(0.0, s.n / 2, 0.5), [{"n": 5}]),
    "arange_shape": (lambda s: pt.arange(s.x.shape[0] + 1), [{"x": X}]),
    "linspace": (lambda s: pt.linspace(0, 1, s.n), [{"n": 5}]),
    "repeat": (lambda s: pt.repeat(s.x, s.n), [{"x": X, "n": 2}]),
    "repeat_axis": (lambda s: pt.repeat(s.m, s.n, axis=1), [{"m": M, "n": 2}]),
    "tile": (lambda s: pt.tile(s.x, (s.n,)), [{"x": X, "n": 2}]),
    "pad": (lambda s: pt.pad(s.x, (s.n, 0)), [{"x": X, "n": 2}]),
    "prefix": (lambda s: s.x[: s.n], [{"x": X, "n": 3}, {"x": X, "n": 0}, {"x": X, "n": 99}]),
    "suffix": (lambda s: s.x[-s.n :], [{"x": X, "n": 2}]),
    "negative_bound": (lambda s: s.x[: s.n], [{"x": X, "n": -2}]),
    "strided": (lambda s: s.x[:: s.n], [{"x": X, "n": 2}, {"x": X, "n": -1}]),
    "window": (lambda s: s.x[s.n : s.n + 2], [{"x": X, "n": 3}]),
    "set_prefix": (lambda s: s.x[: s.n].set(0), [{"x": X, "n": 3}]),
    "add_to_window": (lambda s: s.x[s.n : s.n + 2].inc(s.x[:2]), [{"x": X, "n": 3}]),
    "half_by_shape": (lambda s: s.x[: s.x.shape[0] // 2], [{"x": X}]),
    "capped": (lambda s: s.x[: pt.minimum(s.n, s.x.shape[0] - 1)], [{"x": X, "n": 9}]),
    "split": (lambda s: list(pt.split(s.x, [s.n, s.x.shape[0] - s.n])), [{"x": X, "n": 2}]),
    "triangle": (lambda s: s.m[pt.triu_indices(s.m.shape[0])], [{"m": M[:, :3]}]),
    "triangle_of_n": (lambda s: pt.tri(s.n).nonzero()[0] + s.n, [{"n": 3}]),
    "grad_concatenate": (
        lambda s: pt.grad((pt.concatenate([s.x, s.m[0], s.x]) ** 2).sum(), s.x),
        [{"x": X, "m": M}],
    ),
    "grad_trace": (lambda s: pt.grad(pt.trace(s.m) ** 2, s.m), [{"m": M}]),
    "grad_diag_of_vector": (lambda s: pt.grad((pt.diag(s.x) ** 2).sum(), s.x), [{"x": X}]),
    "grad_diag_of_matrix": (lambda s: pt.grad((pt.diag(s.m) ** 2).sum(), s.m), [{"m": M}]),
    "grad_prefix": (lambda s: pt.grad((s.x[: s.n] ** 2).sum(), s.x), [{"x": X, "n": 4}]),
    "grad_scan_last": (lambda s: pt.grad(scan_product(s.x)[-1], s.x), [{"x": X}]),
    "grad_scan_all": (lambda s: pt.grad(scan_product(s.x).sum(), s.x), [{"x": X}]),
    "specify_shape": (lambda s: pt.specify_shape(s.x, (s.n,)) * 2, [{"x": X, "n": 6}]),
    "op_from_graph": (reshape_in_op, [{"x": X, "n": 3}]),
    "scan_body": (reshape_in_scan, [{"m": M, "n": 2}]),
}
CASES = [pytest.param(*graph, id=name) for name, graph in GRAPHS.items()]


def build(graph: Any, calls: list[dict[str, Any]], floatX: str) -> Any:
    with pytensor.config.change_flags(floatX=floatX):
        symbols = Symbols(
            pt.vector("x"),
            pt.vector("y"),
            pt.matrix("m"),
            pt.lscalar("n"),
            pt.lscalar("k"),
            pt.lvector("shape"),
        )
        outputs = graph(symbols)
    names = list(calls[0])
    inputs = [getattr(symbols, name) for name in names]
    arguments = [
        [
            call[name].astype(floatX) if name in ("x", "y", "m") else np.asarray(call[name])
            for name in names
        ]
        for call in calls
    ]
    return inputs, outputs, arguments


def as_static(value: Any) -> Any:
    """Sizes as ints or tuples of ints, other arrays as they are."""
    return value if value.dtype.kind == "f" else jax.tree.map(int, _nested(value.tolist()))


def _nested(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("floatX", ["float64", "float32"])
@pytest.mark.parametrize(("graph", "calls"), CASES)
def test_one_region_without_break(graph: Any, calls: Any, floatX: str) -> None:
    inputs, outputs, arguments = build(graph, calls, floatX)
    function = check_against_python(inputs, outputs, *arguments)
    explanation = function.explain()
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


@pytest.mark.parametrize(("graph", "calls"), CASES)
def test_jitted_by_the_user(graph: Any, calls: Any) -> None:
    inputs, outputs, arguments = build(graph, calls, "float64")
    function, reference = compile_both(inputs, outputs, mode="JAXSELECTIVE")
    jitted = jax.jit(function.jax_fn, static_argnums=function.static_argnums)
    for values in arguments:
        found = jitted(*map(as_static, values))
        assert_same(found, as_list(reference(*values)))


@pytest.mark.parametrize("floatX", ["float64", "float32"])
def test_random_draws_have_the_size_asked_for(floatX: str) -> None:
    n = pt.lscalar("n")
    with pytensor.config.change_flags(floatX=floatX):
        draws = pt.random.normal(size=(n, 2 * n), rng=pytensor.shared(np.random.default_rng(1)))
    f = pytensor.function([n], draws, mode="JAXSELECTIVE")
    explanation = f.explain()
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)
    assert f(3).shape == (3, 6)
    assert f(2).dtype == floatX
    again = pytensor.function([n], draws, mode="JAXSELECTIVE")
    np.testing.assert_array_equal(f(3), again(3))


class TestSpecialisation:
    def test_on_the_demanded_value_not_on_the_input(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = check_against_python([x, n], x.reshape((n // 2, -1)), (X, 6), (X, 7), (X, 4))
        assert f.stats.compilations == [2]
        assert f.stats.cache_hits == [1]

    def test_the_number_stays_a_traced_argument(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = check_against_python([x, n], x.reshape((n // 2, -1)) * n, (X, 6), (X, 7))
        assert f.stats.compilations == [1]

    def test_a_shared_integer_respecialises_and_comes_back(self) -> None:
        length = pytensor.shared(np.int64(3), "length")
        f = pytensor.function([], pt.ones((length, 2)), mode=JAXLinker(dynamic=False))
        assert f().shape == (3, 2)
        length.set_value(np.int64(5))
        assert f().shape == (5, 2)
        length.set_value(np.int64(3))
        assert f().shape == (3, 2)
        assert f.stats.compilations == [2]
        assert f.explain().static_inputs == ("length",)

    def test_an_updated_shared_integer(self) -> None:
        length = pytensor.shared(np.int64(1), "length")
        f = pytensor.function(
            [], pt.arange(length), updates={length: length + 1}, mode="JAXSELECTIVE"
        )
        assert [f().shape[0] for _ in range(3)] == [1, 2, 3]


class TestTransformations:
    def test_grad(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = pytensor.function([x, n], (x[:n] ** 2).sum(), mode="JAXSELECTIVE")
        slope = jax.grad(lambda values: f.jax_fn(values, 3)[0])(X)
        np.testing.assert_allclose(slope, np.where(np.arange(6) < 3, 2 * X, 0))

    def test_vmap(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = pytensor.function([x, n], x[:n] ** 2, mode="JAXSELECTIVE")
        batch = np.stack([X, -X, 2 * X])
        [squares] = jax.vmap(lambda row: f.jax_fn(row, 2))(batch)
        np.testing.assert_allclose(squares, batch[:, :2] ** 2)

    def test_grad_of_a_scan(self) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], scan_product(x)[-1], mode="JAXSELECTIVE")
        slope = jax.jit(jax.grad(lambda values: f.jax_fn(values)[0]))(X)
        np.testing.assert_allclose(slope, X.prod() / X)


@pytest.mark.parametrize("final", [True, False])
def test_a_loop_over_an_empty_prefix(final: bool) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    states = pytensor.scan(
        lambda entry, state: state * 0.5 + entry,
        sequences=[x[:n]],
        outputs_info=[pt.constant(np.float64(1))],
        return_updates=False,
    )
    result = states[-1] if final else states
    f = check_against_python([x, n], result, (X, 3), (X, 0), (X, 2), (X[:0], 0))
    assert not f.explain().failures
    assert f.explain().graph_break_count == 0
