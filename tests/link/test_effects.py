"""Ops of the user's run as seldom as they can where a call fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, load, save
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.link.fallback import PythonFallback
from tests.edges.known import OLD
from tests.helpers import black_box

X, Y, Z, N, K = *map(pt.dvector, "xyz"), *map(pt.lscalar, "nk")


def counted() -> tuple[Any, list[int]]:
    runs: list[int] = []

    def noted(values: np.ndarray) -> np.ndarray:
        runs.append(1)
        if values[0] < 0:
            raise KeyError("negative")
        return values + 1

    return black_box(noted), runs


M = pt.dmatrix("m")
CHOSEN = M[M[:, 0] > 0, 1:]


@pytest.mark.parametrize(
    "made",
    [
        pt.cumsum(CHOSEN.ravel()).reshape(CHOSEN.shape) + CHOSEN,
        pytensor.grad((CHOSEN * pt.cumsum(CHOSEN.ravel())).sum(), M),
    ],
)
@pytest.mark.parametrize("limit", [8, 1])
def test_what_a_rewrite_takes_for_granted_fails_no_call(made: Any, limit: int) -> None:
    """Two rows without columns: the length of a reshaped array does not follow from its entries.

    JAX runs the region, or the host beyond the limit.
    """
    box, _ = counted()
    f = pytensor.function(
        [M, X], [made, box(X)], mode=JAXLinker(recompile_limit=limit, dynamic=False)
    )
    if limit == 1:
        f(-np.ones((1, 1)), np.ones(2))
        with pytest.warns(JAXLinkWarning, match="run on the host"):
            f(-np.ones((2, 1)), np.ones(2))
    given = np.array([[-1.0], [4.0], [5.0]]), np.ones(2)
    expected = pytensor.function([M], made, mode="FAST_COMPILE")(given[0])
    for _ in range(3):
        found, more = f(*given)
        np.testing.assert_array_equal(found, expected, strict=True)
        np.testing.assert_array_equal(more, [2.0, 2.0])
    assert f.stats.fallbacks


def test_a_fallback_leaves_what_operations_in_place_leave() -> None:
    """It is one output more than those of the graph that the user gave."""
    box, _ = counted()
    inplace = pt.inc_subtensor(Y[:1], 5.0, inplace=True)
    inputs = [X, pytensor.In(Y, mutable=True)]
    outputs = [pt.exp(X[X > 0]).sum(), box(X), inplace]
    f = pytensor.function(inputs, outputs, mode=JAXLinker(), accept_inplace=True)
    source = f.vm.compiled.source
    found = PythonFallback(source)([np.ones(2), np.ones(2)], None, f.stats)
    assert len(found) == len(source.outputs)
    np.testing.assert_array_equal(found[2], [6.0, 1.0])


def test_a_fallback_drops_no_integers() -> None:
    """PyTensor's rewrites for BLAS do: docs/upstream.md."""
    box, _ = counted()
    total = X @ M + Y - pt.lvector("i")
    inputs = [*pytensor.graph.traversal.explicit_graph_inputs([total])]
    outputs = [total, pt.exp(X[X > 0]).sum(), box(X)]
    f = pytensor.function(inputs, outputs, mode=JAXLinker())
    values = {X: np.ones(2), M: np.eye(2), Y: np.full(2, 3.0)}
    given = [values.get(v, np.array([5, 1])) for v in inputs]
    found = PythonFallback(f.vm.compiled.source)(given, None, f.stats)
    np.testing.assert_array_equal(found[0], [-1.0, 3.0])


@pytest.mark.skipif(OLD, reason="PyTensor 3.0 converts to integers in Python, which overflow")
def test_what_is_fused_does_not_overflow() -> None:
    """As above a call is finished in Python, where fused operations convert to its integers."""
    box, _ = counted()
    level, made = pt.dscalar("level"), pytensor.grad((CHOSEN * pt.cumsum(CHOSEN.ravel())).sum(), M)
    whole = pt.cast(pt.cast(level, "int64"), "uint32")
    f = pytensor.function([M, X, level], [made, box(X), whole], mode=JAXLinker())
    given = np.array([[-1.0], [4.0], [5.0]]), np.ones(2)
    for value, expected in [(3.0, 3), (-np.inf, 0)]:
        assert f(*given, value)[-1] == expected
    assert f.stats.fallbacks == 2


def test_an_exception_of_its_own_ends_the_call() -> None:
    box, runs = counted()
    f = pytensor.function([X, N], [box(pt.exp(X) - 2), X[N]], mode=JAXLinker())
    with pytest.raises(KeyError):
        f(np.array([-5.0, 1.0]), 7)
    assert len(runs) == 1


@pytest.mark.parametrize("dynamic", ["auto", False])
def test_the_fallback_runs_it_once(dynamic: Any) -> None:
    box, runs = counted()
    y = ifelse(N > 5, box(pt.exp(X)).sum() + X[N], X.sum())
    f = pytensor.function([X, N], y, mode=JAXLinker(dynamic=dynamic))
    f(np.ones(8), 6)
    runs.clear()
    with pytest.raises(IndexError):
        f(np.ones(8), 9)
    assert len(runs) == 1  # in the plan: in the fallback the index comes first


def test_the_exception_of_another_operation() -> None:
    """The fallback does not look for the operation that raises first in the Python linker."""
    box, runs = counted()
    f = pytensor.function([X, N], [box(pt.exp(X)) - 2, X[N]], mode=JAXLinker())
    for _ in range(2):
        f(np.ones(8), 6)
    runs.clear()
    with pytest.raises(IndexError):
        f(np.ones(8), 9)
    assert len(runs) == 1


def after_a_false_index(box: Any) -> list[Any]:
    """An Op of the user's, and one of PyTensor's on the host that needs an entry of ``x``."""
    return [box(pt.exp(X)), pt.set_subtensor(Y[X[N] * Y > 0], pt.exp(Z))]


GIVEN = np.append(np.ones(8), -1.0), np.ones(3), np.ones(2)


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"donate": "all"}])
def test_an_exception_that_follows_from_a_false_condition(options: dict[str, Any]) -> None:
    """The index is out of range, so what the mask selects does not count."""
    box, runs = counted()
    f = pytensor.function([X, Y, Z, N], after_a_false_index(box), mode=JAXLinker(**options))
    for _ in range(2):
        with pytest.raises(IndexError):
            f(*GIVEN, 9)
        runs.clear()
        with pytest.raises(ValueError, match="boolean"):
            f(*GIVEN, 2)
        assert len(runs) <= 1


@pytest.mark.parametrize("graph", [True, False])
def test_the_same_from_a_file(graph: bool, tmp_path: Path) -> None:
    f = pytensor.function([X, Y, Z, N], after_a_false_index(pt.exp), mode=JAXLinker())
    f(*GIVEN[:2], np.ones(3), 2)
    save(f, tmp_path / "f.jaxlink", graph=graph)
    loaded = load(tmp_path / "f.jaxlink")
    with pytest.raises(IndexError):
        loaded(*GIVEN[:2], np.ones(3), 9)


def steps(step: Any, *boxes: Any) -> Any:
    """The function of a loop over two places of ``x``."""
    states = pytensor.scan(
        step, sequences=[pt.stack([N, K])], outputs_info=[Y], return_updates=False
    )
    return pytensor.function(
        [X, Y, Z, N, K], [states, *[box(pt.exp(Y)) for box in boxes]], mode=JAXLinker()
    )


STEPS: dict[str, Any] = {
    "of this step": lambda k, state: pt.set_subtensor(Y[X[k] * state > 0], pt.exp(Z)),
    "of the step before": lambda k, state: pt.set_subtensor(Y[state > 0], pt.exp(Z)) * X[k],
}


@pytest.mark.parametrize("name", STEPS)
def test_the_same_in_a_loop(name: str, tmp_path: Path) -> None:
    f, beside = steps(STEPS[name]), steps(STEPS[name], counted()[0])
    x, y, z = *GIVEN[:2], np.ones(3)
    f(x, y, z, 2, 2)
    save(f, tmp_path / "f.jaxlink", graph=False)
    for function in (f, beside, load(tmp_path / "f.jaxlink")):
        for _ in range(2):
            with pytest.raises(IndexError):
                function(x, y, z, 9, 2)


def test_where_the_user_calls_it() -> None:
    """There NumPy's numbers are checked, and nobody reads the conditions on JAX's."""
    f = pytensor.function([X, Y, Z, N], after_a_false_index(pt.exp), mode=JAXLinker())
    with pytest.raises(IndexError):
        f.jax_fn(*GIVEN, 9)
    with jax.enable_x64(True):
        found, _ = f.jax_fn(*map(jnp.asarray, GIVEN), jnp.asarray(9))
    np.testing.assert_allclose(found, np.exp(np.exp(GIVEN[0])))


@pytest.mark.parametrize("made", [lambda v: v[None], lambda v: v.sum()])
def test_a_value_of_another_rank_than_declared(made: Any) -> None:
    """What reads it runs on the host, as in PyTensor, and the user's Op runs once."""
    runs: list[int] = []

    def noted(values: np.ndarray) -> Any:
        runs.append(1)
        return made(values)

    box = black_box(noted)
    found = box(pt.exp(X))
    f = pytensor.function([X], [pt.sum(found), found], mode=JAXLinker())
    for length in (3, 3, 2):
        given = np.arange(float(length))
        total, value = f(given)
        np.testing.assert_allclose(total, np.exp(given).sum())
        np.testing.assert_allclose(value, made(np.exp(given)))
    assert len(runs) == 3
    assert f.stats.compilations == [2, 0]
    assert f.stats.fallbacks == 3


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize("limit", [1, 2, 8])
def test_beyond_the_limit_of_a_region_the_steps_before_it_run_once(limit: int) -> None:
    runs: list[int] = []

    def noted(values: np.ndarray) -> np.ndarray:
        runs.append(1)
        return values[values > 0]

    found = pt.exp(black_box(noted)(pt.sin(X))).sum()
    f = pytensor.function([X], found, mode=JAXLinker(recompile_limit=limit))
    for calls, count in enumerate([3, 3, *range(12), 3], 1):
        given = np.where(np.arange(12) < count, 0.5, -0.5)
        np.testing.assert_allclose(f(given), count * np.exp(np.sin(0.5)))
        assert len(runs) == calls
    assert f.stats.direct == calls


@pytest.mark.timeout(60)
def test_an_operation_may_call_the_function_that_it_is_in() -> None:
    """Also where the calls are finished by PyTensor, one inside of the other."""
    functions: list[Any] = []

    def again(value: np.ndarray) -> np.ndarray:
        if value[0] > 0:
            with pytest.raises(AssertionError, match="never"):
                functions[0](value - 1)
        return value * 2

    end = Assert("never")(black_box(again)(X), X[0] < -1)
    functions.append(pytensor.function([X], end, mode="JAXSELECTIVE"))
    with pytest.raises(AssertionError, match="never"):
        functions[0]([2.0])
    np.testing.assert_array_equal(functions[0]([-3.0]), [-6.0])


@pytest.mark.parametrize("options", [{}, {"host_ops": "callback"}, {"recompile_limit": 1}], ids=str)
def test_an_operation_that_asks_for_arrays_it_may_write_to(options: Any) -> None:
    """As Cython does for its arguments; it is called once more, at the first call only."""
    runs: list[int] = []

    def doubled(values: np.ndarray) -> np.ndarray:
        runs.append(1)
        if not values.flags.writeable:
            raise ValueError("buffer source array is read-only")
        values *= 2
        return values

    f = pytensor.function([X], black_box(doubled)(pt.exp(X)) + 1, mode=JAXLinker(**options))
    given = np.zeros(3)
    for _ in range(3):
        np.testing.assert_array_equal(f(given), np.full(3, 3.0))
    assert len(runs) <= 4
    np.testing.assert_array_equal(given, np.zeros(3))


def test_an_operation_that_asks_for_more_than_there_is() -> None:
    """An error of its own that reads like that is raised, as in the Python linker."""

    def refuses(values: np.ndarray) -> np.ndarray:
        raise OSError("the file is read-only")

    f = pytensor.function([X], black_box(refuses)(pt.exp(X)), mode="JAXSELECTIVE")
    for _ in range(2):
        with pytest.raises(OSError, match="read-only"):
            f(np.zeros(3))


LENGTHS = [3, 3, 2, 4, 5, 6, 7, 8, 9, 10, 11, 3, 2]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"dynamic": True},
    {"dynamic": False},
    {"recompile_limit": 2},
    {"dynamic": False, "recompile_limit": 2, "on_recompile_limit": "compile"},
    {"host_ops": "callback"},
    {"outputs": "numpy"},
    {"donate": "all"},
]


def counting() -> tuple[Any, list[int]]:
    """An Op that gives how often it ran."""
    runs: list[int] = []

    def noted(values: np.ndarray) -> np.ndarray:
        runs.append(1)
        return np.full(values.shape, len(runs), values.dtype)

    return black_box(noted), runs


def sized() -> dict[str, tuple[Any, Any, list[Any]]]:
    given = np.ones(2)
    arrays = [(given, np.ones(length)) for length in LENGTHS]
    numbers = [(given, length) for length in LENGTHS]
    return {
        "lengths": ([X, Y], lambda count: [count, Y * 2], arrays),
        "lengths of what depends on it": ([X, Y], lambda count: [count + Y.sum(), Y * 2], arrays),
        "sizes": ([X, K], lambda count: [count, pt.arange(K) * 2], numbers),
        "sizes of slices": (
            [X, Y, K],
            lambda count: [count, pt.exp(Y[:K])],
            [(given, np.ones(9), length % 9) for length in LENGTHS],
        ),
        "types": (
            [X, Y],
            lambda count: [count, Y * 2],
            [(given, np.ones(3, kind)) for kind in ("float32", "float64", "int8", "float32")],
        ),
    }


@pytest.mark.filterwarnings("ignore:region")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", sized())
@pytest.mark.parametrize("updated", [False, True])
def test_a_call_that_succeeds_runs_it_once(name: str, options: Any, updated: bool) -> None:
    """Also where a size is new, or the limit is reached, after it has run."""
    inputs, outputs, calls = sized()[name]
    op, runs = counting()
    state = pytensor.shared(np.zeros(()))
    updates: dict[Any, Any] = {state: state + inputs[1].sum()} if updated else {}
    f = pytensor.function(inputs, outputs(op(X)), updates=updates, mode=JAXLinker(**options))
    for number, arguments in enumerate(calls, start=1):
        f(*arguments)
        assert len(runs) == number


@pytest.mark.filterwarnings("ignore:region")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_types_that_the_region_before_it_finds(options: Any) -> None:
    """No argument is converted before the call for them."""
    op, runs = counting()
    f = pytensor.function([X], op(pt.exp(X)) * X, mode=JAXLinker(**options))
    for number, kind in enumerate(("float64", "float32", "int8", "float64", "bool"), start=1):
        np.testing.assert_array_equal(f(np.ones(number, kind)), np.full(number, number, float))
        assert len(runs) == number


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_call_that_fails_runs_it_twice_at_most(options: Any) -> None:
    op, runs = counting()
    f = pytensor.function([X, Y], [op(X), pt.specify_shape(Y, 3) * 2], mode=JAXLinker(**options))
    for length in (2, 3, 2, 4):
        before = len(runs)
        if length == 3:
            f(np.ones(2), np.ones(length))
        else:
            with pytest.raises(AssertionError):
                f(np.ones(2), np.ones(length))
        assert len(runs) <= before + 2
