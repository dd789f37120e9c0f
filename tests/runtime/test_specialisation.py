"""How often a region is compiled, and what happens beyond that."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.scan.utils import until

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, RecompileLimitError, load, save
from pytensor_jaxlink.analysis import Questions, facts_of
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.lowering import ProgramBuilder, Rules
from pytensor_jaxlink.partition import RegionDraft
from pytensor_jaxlink.runtime import hashable
from tests.helpers import PYTHON, assert_same, black_box, sort_down


def function(**options: Any) -> Any:
    x, n = pt.dvector("x"), pt.lscalar("n")
    mode = JAXLinker(dynamic=False, **options)
    return pytensor.function([x, n], (pt.exp(x)[:n] * 2).sum(), mode=mode)


X = np.arange(40.0) / 10


def expected(n: int) -> float:
    return (np.exp(X)[:n] * 2).sum()


def check(f: Any, *sizes: int) -> None:
    for n in sizes:
        np.testing.assert_allclose(f(X, n), expected(n))


def test_beyond_the_limit_regions_run_on_the_host() -> None:
    f = function(recompile_limit=3)
    with pytest.warns(JAXLinkWarning) as found:
        check(f, *range(1, 11))
    assert [str(warning.message) for warning in found] == [
        "region 0 was compiled 3 times, which is its recompile_limit: the value of n was 1, 2, 3, "
        "4, .... From now on new ones run on the host, by PyTensor's own implementation. Pad "
        "arrays to a few lengths and mask the rest, pass fewer different sizes, or raise "
        "JAXLinker(recompile_limit=...). [PJL301]"
    ]
    assert f.stats.compilations == [3]
    assert f.stats.host_regions == 7
    f(X, 2)  # still compiled
    assert f.stats.host_regions == 7


def test_changing_shapes_count_and_are_named() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x) * 2, mode=JAXLinker(recompile_limit=2, dynamic=False))
    with pytest.warns(JAXLinkWarning, match=r"the shape of x was \(1,\), \(2,\), \(3,\)"):
        results = [f(X[:n]) for n in range(1, 6)]
    for n, result in enumerate(results, start=1):
        np.testing.assert_allclose(result, np.exp(X[:n]) * 2)
    assert f.stats.compilations == [2]


def test_error() -> None:
    f = function(recompile_limit=2, on_recompile_limit="error")
    f(X, 1), f(X, 2)
    with pytest.raises(RecompileLimitError, match="the value of n was 1, 2, 3"):
        f(X, 3)
    np.testing.assert_allclose(f(X, 2), expected(2))


def test_compile_keeps_the_last_used() -> None:
    f = function(recompile_limit=2, on_recompile_limit="compile")
    with pytest.warns(JAXLinkWarning):
        check(f, 1, 2, 3, 4, 3, 4, 3)
    assert f.stats.compilations == [4]
    f(X, 5)  # drops 4
    f(X, 3)
    assert f.stats.compilations == [5]
    f(X, 4)
    assert f.stats.compilations == [6]


def test_generators_loops_and_branches_on_the_host() -> None:
    rng, x, n = pytensor.shared(np.random.default_rng(1)), pt.dvector("x"), pt.lscalar("n")
    following, noise = pt.random.normal(size=(n,), rng=rng).owner.outputs
    total = pytensor.scan(
        lambda s: s * 2 + noise.shape[0], outputs_info=[x.sum()], n_steps=3, return_updates=False
    )[-1]
    f = pytensor.function(
        [x, n], [noise, total], updates={rng: following}, mode=JAXLinker(recompile_limit=1)
    )
    f(X, 2)
    with pytest.warns(JAXLinkWarning):
        first, found = f(X, 3)
    second, _ = f(X, 3)
    assert first.shape == (3,)
    assert not np.allclose(first, second)
    np.testing.assert_allclose(found, X.sum() * 8 + 7 * 3)


def test_checks_on_the_host_raise_what_python_raises() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], pt.zeros(n) + x[7], mode=JAXLinker(recompile_limit=1))
    f(X, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JAXLinkWarning)
        with pytest.raises(IndexError):
            f(X[:3], 3)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "bool"])
def test_results_of_the_host_have_the_declared_dtype(dtype: str) -> None:
    """NumPy's running sum of narrow integers is int64, and PyTensor declares their dtype."""
    x = pt.vector("x", dtype=dtype)
    running = pt.cumsum(x)
    f = pytensor.function([x], [running, running * 2], mode=JAXLinker(recompile_limit=1))
    compiled = [each.dtype for each in f(np.ones(2, dtype=dtype))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JAXLinkWarning)
        on_host = [each.dtype for each in f(np.ones(3, dtype=dtype))]
    assert on_host == compiled


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match="recompile_limit=0 is not a positive integer"):
        JAXLinker(recompile_limit=0)
    with pytest.raises(ValueError, match="on_recompile_limit='stop' is not one of"):
        JAXLinker(on_recompile_limit="stop")  # type: ignore[arg-type]


# -- real numbers ----------------------------------------------------------------------------------


def loop_on_a_sum(x: Any) -> Any:
    return pytensor.scan(
        lambda t: (t * 1.5 + 1, until(t > 4)),
        outputs_info=[x.sum()],
        n_steps=6,
        return_updates=False,
    )


def range_to_a_maximum(x: Any) -> Any:
    return pt.exp(pt.arange(0.0, abs(x).max() + 1, 0.5)).sum()


def range_of_fractions(x: Any) -> Any:
    count = (x > 0).sum() + 1
    return pt.exp(pt.arange(0.0, 1.0, 1 / count)) * x.sum()


def size_from_a_fraction(x: Any) -> Any:
    return pt.exp(x[: pt.cast(pt.floor((x > 0).sum() / 2), "int64")])


def size_from_a_sum(x: Any) -> Any:
    return pt.exp(pt.arange(pt.cast(pt.floor(abs(x.sum())), "int64") + 1))


def number_of_a_host_step(x: Any) -> Any:
    largest = black_box(sort_down, x.dtype)(x)[0]
    return pt.exp(pt.arange(largest, largest + 1.5)) * x.sum()


def state_of_a_loop_host_executed(x: Any) -> Any:
    def step(t: Any) -> Any:
        return pt.exp(-abs(pt.arange(t, t + 1.5)).sum() + black_box(sort_down, x.dtype)(x)[0])

    return pytensor.scan(step, outputs_info=[x.sum()], n_steps=2, return_updates=False)


def inside_a_loop(x: Any) -> Any:
    highest = abs(x).max()
    return pytensor.scan(
        lambda t: t + pt.arange(0, highest + 1).sum(),
        outputs_info=[x.sum()],
        n_steps=3,
        return_updates=False,
    )


def gradient_of_a_range(x: Any) -> Any:
    return pt.grad((pt.arange(0.0, abs(x).max() + 1, 0.5) * x.sum()).sum(), x)


COMPUTED = [
    loop_on_a_sum,
    range_to_a_maximum,
    range_of_fractions,
    size_from_a_fraction,
    size_from_a_sum,
    number_of_a_host_step,
    state_of_a_loop_host_executed,
    inside_a_loop,
    gradient_of_a_range,
]


def static_values(f: Any) -> list[Any]:
    return [v for region in f.stats.signatures for static, _ in region for v in static]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 8), ("float32", 1)])
@pytest.mark.parametrize("graph", COMPUTED)
def test_computed_real_numbers_select_nothing(graph: Any, dtype: str, limit: int) -> None:
    x = pt.vector("x", dtype=dtype)
    output = graph(x)
    mode = JAXLinker(recompile_limit=limit)
    f = pytensor.function([x], output, mode=mode, on_unused_input="ignore")
    g = pytensor.function([x], output, mode=PYTHON, on_unused_input="ignore")
    generator = np.random.default_rng(3)
    for _ in range(11):
        values = generator.normal(size=5).astype(dtype)
        assert_same(f(values), g(values))
    assert not any(isinstance(value, float) for value in static_values(f))
    assert f.stats.fallbacks == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", [8, 1])
def test_a_node_of_which_one_output_is_an_argument(limit: int) -> None:
    """Beyond the limit the host computes the others."""
    x = pt.dvector("x")
    counts = pytensor.scan(
        lambda k: (k * 2 + 1, until(k > 40)),
        outputs_info=[(x > 0).sum()],
        n_steps=6,
        return_updates=False,
    )
    f = pytensor.function([x], pt.exp(-counts) * x.sum(), mode=JAXLinker(recompile_limit=limit))
    g = pytensor.function([x], pt.exp(-counts) * x.sum(), mode=PYTHON)
    for positive in range(12):
        values = np.where(np.arange(12) < positive, 1.5, -0.5)
        assert_same(f(values), g(values))


def test_on_host_keeps_what_is_given() -> None:
    """An argument is taken as it is, and the other outputs of its node are computed."""
    x = pt.dvector("x")
    graph = FunctionGraph([x], pt.linalg.svd(pt.outer(x, x), full_matrices=False), clone=True)
    view = GraphView.of(graph)
    first, *rest = view.outputs
    rules = Rules(lambda *_: None, callbacks=False)
    questions = Questions(rules.obstacle, lambda node: ())
    builder = ProgramBuilder(view, facts_of(view, questions), rules, checks=True)
    draft = RegionDraft(traced=set(range(len(view.nodes))))
    program = builder.region(draft, (), (*view.inputs, first), (first, *rest))
    given = np.full((3, 3), 7.0)
    (found, *others), _ = program.on_host((), np.arange(3.0), given)
    np.testing.assert_array_equal(found, given)
    assert [each.shape for each in others] == [(3,), (3, 3)]


def padded(x: Any, v: Any) -> Any:
    return pt.pad(pt.exp(x), 2, mode="linear_ramp", end_values=v)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("limit", [8, 1])
def test_numbers_that_are_equal_and_not_the_same(dtype: str, limit: int) -> None:
    v = pt.scalar("v", dtype=dtype)
    x = pt.vector("x", dtype=dtype)
    for output in (1 / pt.arange(v, v + 1.5), padded(x, v)):
        mode = JAXLinker(recompile_limit=limit)
        f = pytensor.function([x, v], output, mode=mode, on_unused_input="ignore")
        g = pytensor.function([x, v], output, mode=PYTHON, on_unused_input="ignore")
        ones = np.ones(3, dtype)
        for value in np.array([0.0, -0.0, 0.0, -0.0, 1.0], dtype):
            with np.errstate(divide="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", JAXLinkWarning)
                found, wanted = np.asarray(f(ones, value)), g(ones, value)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_nan_is_nan() -> None:
    """One specialisation, and not one for each call."""
    x, v = pt.dvector("x"), pt.dscalar("v")
    f = pytensor.function([x, v], padded(x, v), mode="JAXSELECTIVE")
    for _ in range(12):
        assert np.isnan(f(np.ones(3), np.nan)[0])
    assert f.stats.compilations == [1]


def test_values_of_other_types_are_other_keys() -> None:
    """Of one input all values have one type; two inputs with equal values keep their own."""
    b, i, v = pt.bscalar("b"), pt.lscalar("i"), pt.dscalar("v")
    x = pt.dvector("x")
    outputs = [pt.arange(v, v + 2), x[:i], x[b:], pt.arange(b, b + 2), pt.arange(i, i + 2)]
    f = pytensor.function([x, b, i, v], outputs, mode="JAXSELECTIVE")
    g = pytensor.function([x, b, i, v], outputs, mode=PYTHON)
    for arguments in ((1, 1, 1.0), (True, 1, 1), (1, True, True), (0, 0, -0.0), (0, 0, 0.0)):
        assert_same(f(X, *arguments), g(X, *arguments))
    assert [hashable(each) == 1 for each in (True, 1, 1.0)] == [True, True, False]
    assert hashable(np.float64(1)) == hashable(1.0) != hashable(np.int64(1))


def test_saved_code_is_chosen_by_the_number(tmp_path: Path) -> None:
    x, v = pt.dvector("x"), pt.dscalar("v")
    outputs = [1 / pt.arange(v, v + 1.5), pt.exp(x)]
    f = pytensor.function([x, v], outputs, mode="JAXSELECTIVE")
    for value in (0.0, -0.0):
        f(np.ones(3), value)
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    for value, first in ((-0.0, -np.inf), (0.0, np.inf)):
        quotient, values = loaded(np.ones(3), value)
        assert quotient[0] == first
        np.testing.assert_array_equal(values, f(np.ones(3), value)[1])
