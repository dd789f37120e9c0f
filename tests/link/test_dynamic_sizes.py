"""Sizes that are the values of arguments: specialised first, then data, to the same values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.scalar
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.linalg import cholesky

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, jaxify, load, save
from tests.helpers import PYTHON, as_list
from tests.lowering.test_failures import RepeatSome

X, Y, M, T = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m"), pt.dvector("t")
G, N, K = pt.lvector("g"), pt.lscalar("n"), pt.lscalar("k")
_RNG = np.random.default_rng(0)
VALUES = {
    X: _RNG.normal(size=9),
    Y: _RNG.normal(size=9),
    M: _RNG.normal(size=(9, 9)),
    T: _RNG.normal(size=4),
    G: _RNG.integers(0, 4, 9),
}
VALUES[X][4] = np.nan  # beyond a bound it reaches nothing
SIZES = (3, 0, 1, 4, 9, 10, -1, -10)


def with_gradient(value: Any, *of: Any) -> list[Any]:
    return [value, *pytensor.grad(value, list(of))]


def walk(steps: Any, start: Any) -> Any:
    return pytensor.scan(
        lambda step, state: state * 0.9 + step,
        sequences=[steps],
        outputs_info=[start],
        return_updates=False,
    )


def unlike(y: Any) -> Any:
    return pt.exp(-((y[:, None] - y[None, :]) ** 2)) + pt.eye(y.shape[0])


DYNAMIC: dict[str, Callable[[], Any]] = {
    "sum": lambda: with_gradient((X[:N] ** 2).sum(), X),
    "both_sides": lambda: with_gradient((X[:N] * T[0]).sum() + (Y[N:] * T[1]).sum(), T),
    "between": lambda: X[N:K].sum(),
    "deviation": lambda: [X[:N].mean(), X[:N].std()],
    "from_the_end": lambda: [X[-N:].sum(), Y[:-N].sum()],
    "range": lambda: [pt.arange(N).sum(), pt.arange(K).max()],
    "unit_matrix": lambda: pt.eye(N).sum(),
    "product": lambda: [X[:N] @ Y[:N], (M[:N] @ Y).sum()],
    "largest": lambda: [X[:N].max(), X[:N].argmax()],
    "order": lambda: [pt.sort(X[:N])[0], pt.cumsum(X[:N])[-1], X[:N][::-1].sum()],
    "softmax": lambda: pt.special.softmax(Y[:N]).max(),
    "joined": lambda: pt.concatenate([X[:N], Y[N:]]).sum(),
    "gather": lambda: with_gradient(((Y[:N] - T[G[:N]]) ** 2).sum(), T),
    "scatter": lambda: [pt.inc_subtensor(T[G[:N]], 1.0), pt.inc_subtensor(M[G[N:]], Y[N:, None])],
    "difference": lambda: ((Y[:N][1:] - Y[:N][:-1]) ** 2).sum(),
    "later_difference": lambda: [(Y[N:][2:] * Y[N:][:-2]).sum(), Y[:N][1:-1].mean()],
    "two_lengths": lambda: [(X[:N] + Y[:K]).sum(), X[:N] @ Y[K:]],
    "steps": lambda: with_gradient((X[:N:2] ** 2).sum() + (Y[N::3] * T[0]).sum(), X, T),
    "steps_of_two": lambda: [(X[:N:2] * Y[:N:2]).sum(), X[1:N:2].mean(), M[1:N:2, N::3].sum()],
    "steps_written": lambda: [pt.set_subtensor(X[:N:2], 0.0), pt.inc_subtensor(Y[N::2], 1.0)],
    "update": lambda: [pt.set_subtensor(X[:N], 0.0), pt.inc_subtensor(X[:N], Y[:N])],
    "update_of_rows": lambda: pt.inc_subtensor(M[N:], 1.0),
    "selected_by_it": lambda: X[pt.arange(X.shape[0]) < N].sum(),
    "steps_between": lambda: with_gradient(walk(Y[N:K], T[0]).sum(), Y, T),
    "diagonal_between": lambda: pt.diagonal(cholesky(unlike(Y[N:K]))).sum(),
    "selected_of_it": lambda: [Y[:N][Y[:N] > 0] * 2, (Y[:N][G[:N] > 1] * 2).sum()],
    "inner_graph": lambda: OpFromGraph([X, N], [X[:N].sum()])(Y, N),
    "repeated": lambda: pt.repeat(Y[:N], 2),
    "pairs": lambda: Y[: 2 * pt.clip(N, 0, 4)].reshape((pt.clip(N, 0, 4), 2)).sum(axis=0),
    "reshape": lambda: X.reshape((N, -1)).sum(),
    "result": lambda: X[:N] * 2,
}
STATIC: dict[str, Callable[[], Any]] = {
    "draws": lambda: pt.random.normal(size=N),
}


def inputs_of(outputs: Any) -> list[Any]:
    found = graph_inputs(as_list(outputs))
    return [v for v in dict.fromkeys(found) if v.name and not isinstance(v, Constant)]


def answer(function: Any, arguments: Any) -> Any:
    try:
        return [np.asarray(each) for each in as_list(function(*arguments))]
    except Exception as error:
        return type(error)


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected
        return
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def arguments_of(inputs: Any, size: int) -> list[Any]:
    return [size if v is N else size + 2 if v is K else VALUES[v] for v in inputs]


def compare(outputs: Any, dynamic: Any) -> Any:
    inputs = inputs_of(outputs)
    f, reference = (
        pytensor.function(inputs, outputs, mode=mode)
        for mode in (JAXLinker(dynamic=dynamic), PYTHON)
    )
    for size in SIZES:
        arguments = arguments_of(inputs, size)
        assert_same(answer(f, arguments), answer(reference, arguments))
    return f


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_second_value_makes_a_size_data(name: str) -> None:
    f = compare(DYNAMIC[name](), "auto")
    assert f.stats.dynamic_sizes > 0
    assert f.stats.compilations[0] <= 3  # again after a check is false
    assert f.stats.host_regions == f.explain().graph_break_count == 0
    assert "data: one program serves all its values" in str(f.explain())


@pytest.mark.parametrize("name", STATIC)
def test_where_a_size_stays_static(name: str) -> None:
    outputs = STATIC[name]()
    f = pytensor.function(inputs_of(outputs), outputs, mode=JAXLinker(dynamic=True))
    assert f.stats.dynamic_sizes == f.explain().graph_break_count == 0
    assert f.explain().static_inputs == ("n",)
    [size] = f.explain().sizes
    assert size.startswith("n is static: JAX must know it for")
    assert "test_dynamic_sizes.py" in size


@pytest.mark.parametrize("dynamic", [True, False])
def test_from_the_start_and_never(dynamic: bool) -> None:
    f = compare(DYNAMIC["sum"](), dynamic)
    assert f.stats.dynamic_sizes == (2 if dynamic else 0)  # n, and the length of x
    assert f.stats.host_regions == (0 if dynamic else len(SIZES) - 8)
    assert f.explain().static_inputs == (() if dynamic else ("n",))


def test_one_of_two_sizes() -> None:
    f = pytensor.function([X, Y, N, K], [X[:N].sum(), Y[:K].sum()], mode=JAXLinker())
    x, y = VALUES[Y], VALUES[Y]
    for n in range(5):
        np.testing.assert_allclose(f(x, y, n, 3)[0], x[:n].sum())
    assert f.explain().static_inputs == ("k",)
    assert f.stats.dynamic_sizes == 1


def test_one_size_is_data_and_another_is_not() -> None:
    f = pytensor.function([X, N, K], [X[:N].sum(), pt.exp(X[K::-2])], mode=JAXLinker())
    x = VALUES[Y]
    for n in range(4):
        total, part = f(x, n, n + 1)
        np.testing.assert_allclose(total, x[:n].sum())
        np.testing.assert_allclose(part, np.exp(x[n + 1 :: -2]))
    assert len(f.explain().sizes) == 2
    assert f.explain().static_inputs == ("k",)
    assert f.stats.compilations == [3]  # for each k but the first, which has gone with its program


def test_the_rule_of_cost() -> None:
    """Few values that need little of a long array keep their programs; further ones share one."""
    long = np.random.default_rng(1).normal(size=1_000_000)
    f = pytensor.function([X, N], (X[:N] ** 2).sum(), mode=JAXLinker(recompile_limit=3))
    sizes = [10, 20, 30, 40, 10, 20, 500_000, 30, 7]
    for n in sizes:
        np.testing.assert_allclose(f(long, n), (long[:n] ** 2).sum())
    assert f.stats.compilations == [3]
    assert (f.stats.padded_calls, f.stats.host_regions) == (3, 0)
    assert f.stats.calls == len(sizes)
    assert "n is static for 3 values" in str(f.explain())


def test_the_last_batch_is_a_length_of_its_own() -> None:
    f = pytensor.function([X, N], (X[N * 4 : (N + 1) * 4] ** 2).sum(), mode=JAXLinker())
    x = VALUES[Y]
    for _ in range(2):
        for n in range(3):
            np.testing.assert_allclose(f(x, n), (x[4 * n : 4 * n + 4] ** 2).sum())
    assert f.stats.compilations == [2]
    assert f.stats.dynamic_sizes == f.stats.fallbacks == 0


def test_a_number_that_is_no_tensor() -> None:
    n = pytensor.scalar.int64("n")
    size = pt.tensor_from_scalar(n)
    inputs, outputs = [n], [pt.arange(size), pt.arange(size).sum() + size]
    f, reference = (pytensor.function(inputs, outputs, mode=m) for m in (JAXLinker(), PYTHON))
    for value in (3, 5, 2, 0, -1, 9):
        assert_same(answer(f, [value]), answer(reference, [value]))


def test_states_that_are_sizes() -> None:
    state, count = pytensor.shared(np.zeros(6)), pytensor.shared(np.int64(2))
    updates = {state: pt.inc_subtensor(state[:count], X[:count]), count: count + 1}
    total = (X[:count] * state[:count]).sum()
    f = pytensor.function([X], total, updates=updates, mode=JAXLinker())
    x = np.arange(6.0)
    assert [float(f(x)) for _ in range(4)] == [0.0, 1.0, 6.0, 20.0]
    np.testing.assert_array_equal(state.get_value(), [0, 4, 6, 6, 4, 0])
    assert f.stats.dynamic_sizes == 1


def test_a_failed_call_changes_no_state() -> None:
    state = pytensor.shared(np.arange(3.0))
    f = pytensor.function(
        [X, N], (X[:N] * state).sum(), updates={state: state + 1}, mode=JAXLinker()
    )
    f(np.ones(5), 3)
    with pytest.raises(ValueError, match=r"[Dd]imension|broadcast"):
        f(np.ones(5), 2)
    np.testing.assert_array_equal(state.get_value(), [1, 2, 3])
    np.testing.assert_allclose(f(np.ones(5), 3), 6)


@pytest.mark.parametrize("options", [{"jit": True}, {"outputs": "numpy"}, {"donate": "all"}])
def test_other_options(options: Any) -> None:
    f = pytensor.function([X, N], X[:N].sum(), mode=JAXLinker(**options))
    assert [float(f(np.arange(5.0), n)) for n in (2, 3, 4)] == [1.0, 3.0, 6.0]
    assert f.stats.dynamic_sizes == 1


def test_compiled_ahead() -> None:
    f = pytensor.function([X, N], X[:N].sum(), mode=JAXLinker())
    x = np.arange(5.0)
    f.compile(x, 2).compile(x, 3).compile(x, 4)
    assert f.stats.compilations == [1]
    assert float(f(x, 4)) == 6.0
    assert f.stats.compilations == [1]
    g = pytensor.function([X, N], pt.exp(X[N::-2]), mode=JAXLinker())
    g.compile(x, 2).compile(x, 3)
    assert g.stats.compilations == [2]


@pytest.mark.parametrize("layer", ["graph", "compiled"])
def test_saved(layer: Any, tmp_path: Path) -> None:
    f = pytensor.function([X, N], X[:N].sum(), mode=JAXLinker())
    x = np.arange(5.0)
    assert [float(f(x, n)) for n in (2, 3)] == [1.0, 3.0]
    save(f, tmp_path / "f")
    g = load(tmp_path / "f", prefer=layer)
    assert [float(g(x, n)) for n in (0, 1, 4, 5, -1)] == [0.0, 0.0, 6.0, 10.0, 6.0]
    assert g.stats.compilations[0] <= 2


def test_the_start_up_cache_keeps_values_up_to_the_limit(tmp_path: Path) -> None:
    mode = JAXLinker(cache_dir=tmp_path, recompile_limit=2)
    for status in ("miss", "hit"):
        f = pytensor.function([X, N], X[:N].sum(), mode=mode)
        assert [float(f(np.arange(5.0), n)) for n in (2, 3, 4, 5)] == [1.0, 3.0, 6.0, 10.0]
        assert f.stats.start_up_cache == status
        assert (f.stats.dynamic_sizes, f.stats.host_regions) == (1, 0)
    f = pytensor.function([X, N], X[N::-2] * 2, mode=mode)
    with pytest.warns(JAXLinkWarning, match="recompile_limit"):
        assert [len(f(np.arange(5.0), n)) for n in (2, 4, 6)] == [2, 3, 3]
    assert f.stats.host_regions == 1


def test_what_the_user_traces() -> None:
    jax.config.update("jax_enable_x64", True)
    size = pt.dscalar("size")
    x = np.arange(5.0)
    prefix = jaxify([X, size], X[: pt.cast(size, "int64")].sum())
    assert float(jax.jit(prefix)(x, 3.0)) == 3.0
    squares = jaxify([X, N], (X[:N] ** 2).sum())
    assert squares.static_argnums == (1,)  # for who wants a program for each value
    assert float(jax.jit(squares, static_argnums=1)(x, 3)) == 5.0
    np.testing.assert_array_equal(
        jax.vmap(squares, (None, 0))(x, np.arange(6)), [0, 0, 1, 5, 14, 30]
    )
    np.testing.assert_array_equal(jax.jit(jax.grad(squares))(x, 3), [0, 2, 4, 0, 0])
    f = pytensor.function([X, N], X[:N].sum(), mode=JAXLinker(dynamic=True))
    assert f.static_argnums == ()


def test_a_log_says_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="pytensor_jaxlink"):
        f = pytensor.function([X, N], X[:N].sum(), mode=JAXLinker())
        f(np.arange(5.0), 2)
        f(np.arange(5.0), 3)
    assert any("n is data" in record.getMessage() for record in caplog.records)


def test_a_rule_that_needs_the_size_to_be_static() -> None:
    """It is found out while JAX traces; the size is static from then on."""
    outputs = [X[:N].sum(), RepeatSome()(X * 2, N)]
    f = pytensor.function([X, N], outputs, mode=JAXLinker(dynamic=True))
    x = np.arange(4.0)
    for size in (2, 3, 2):
        total, repeated = f(x, size)
        np.testing.assert_allclose(total, x[:size].sum())
        np.testing.assert_allclose(repeated, np.repeat(x * 2, size))
    assert f.stats.fallbacks == 1
    assert f.explain().graph_break_count == 0
    assert f.explain().static_inputs == ("n",)


def test_beside_a_size_that_is_data_another_one_reaches_the_limit() -> None:
    long = np.random.default_rng(1).normal(size=1_000_000)
    outputs = [(X[:N] ** 2).sum(), pt.exp(X[K::-2])]  # k stays static
    f = pytensor.function([X, N, K], outputs, mode=JAXLinker(recompile_limit=2))
    calls = [(10, 1), (20, 1), (30, 1), (40, 1), (50, 2), (60, 3), (70, 4), (10, 1)]
    with pytest.warns(JAXLinkWarning, match="recompile_limit"):
        found = [f(long, n, k) for n, k in calls]
    for (n, k), (total, part) in zip(calls, found, strict=True):
        np.testing.assert_allclose(total, (long[:n] ** 2).sum())
        np.testing.assert_allclose(part, np.exp(long[k::-2]))
    assert (f.stats.dynamic_sizes, f.stats.host_regions) == (1, 2)


def test_threads_that_meet_new_sizes_at_once() -> None:
    f = pytensor.function([X, N], (X[:N] ** 2).sum(), mode=JAXLinker())
    x, wrong = np.arange(7.0), []

    def work(seed: int) -> None:
        for n in np.random.default_rng(seed).integers(0, 8, 20).tolist():
            if not np.isclose(f(x, n), (x[:n] ** 2).sum()):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.stats.dynamic_sizes == 1


def test_buckets_that_end_are_explained() -> None:
    x = pt.dvector("x")
    mode = JAXLinker(buckets=lambda length: next(each for each in (1000,) if each >= length))
    f = pytensor.function([x], pt.exp(x).sum(), mode=mode)
    for count in (3, 4):
        f(np.ones(count))
    assert "is padded, to 1000, ...:" in str(f.explain())


def _solved_by_factors(m: Any) -> list[Any]:
    factors = pt.linalg.lu_factor(m)
    return [*factors, pt.linalg.lu_solve(factors, pt.ones(m.shape[0]))]


@pytest.mark.parametrize("name", ["lu_factor", "det", "slogdet"])
def test_pivots_of_padded_matrices_are_rows_of_the_matrix(name: str) -> None:
    """Among NaN LAPACK may choose a row of the padding."""
    m = pt.dmatrix("m")
    make = _solved_by_factors if name == "lu_factor" else getattr(pt.linalg, name)
    outputs = as_list(make(m))
    f, reference = (
        pytensor.function([m], outputs, mode=mode) for mode in (JAXLinker(dynamic=True), PYTHON)
    )
    rng = np.random.default_rng(0)
    for length in range(1, 8):
        for value in (np.nan, np.inf, 0.0):
            matrix = rng.normal(size=(length, length))
            matrix[rng.random(matrix.shape) < 0.3] = value
            with np.errstate(all="ignore"):
                results = [each(matrix) for each in (f, reference)]
            for found, expected in zip(*results, strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert f.stats.padded_calls
