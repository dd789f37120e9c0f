"""The compiled layer: the same results, for open dimensions, without PyTensor."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytensor.xtensor
import pytest
from jax import monitoring
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.io import In
from pytensor.raise_op import Assert
from pytensor.scan.utils import until

from pytensor_jaxlink import (
    ArtifactError,
    JAXLinker,
    JAXLinkWarning,
    NotSavedError,
    inspect,
    load,
    save,
)
from pytensor_jaxlink.artifact.documents import dump_document, parse_document
from pytensor_jaxlink.artifact.records import describe, reader
from pytensor_jaxlink.errors import CheckFailedError, NotJittableError
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.lowering.size_arithmetic import describe_size
from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.size_functions import size_function
from tests.corpus.graphs import CORPUS, INPUTS, values
from tests.helpers import as_list, black_box, sort_down
from tests.lowering.test_failures import RepeatEach
from tests.lowering.test_size_arithmetic import performed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.jaxlink"


def open_regions(path: Path) -> list[bool]:
    """For each region whether its code is for open dimensions."""
    functions = inspect(path).manifest["layers"]["compiled"]["functions"]
    return [
        any(letter.isalpha() for letter in line.split(": ")[-1])
        for function in functions.values()
        for line in function["regions"]
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dims", [{}, None])
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, dims: Any, path: Path) -> None:
    _, graph = CORPUS[name]
    f = pytensor.function(INPUTS, graph(), mode="JAXSELECTIVE", on_unused_input="ignore")
    expected = as_list(f(*values(1)))
    save(f, path, graph=False, dims=dims)
    found = as_list(load(path, allow=("tests",))(*values(1)))
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
        assert one.dtype == other.dtype


def gaussian_process() -> Any:
    """The covariance follows from the parameters: nothing is open.

    Without the barriers XLA computes the distances in two ways, which are clipped differently, and
    the first entry of the gradient is wrong by more than a half.
    """
    rng = np.random.default_rng(0)
    places, seen = rng.normal(size=(20, 1)), rng.normal(size=20)
    log_length, log_scale, log_noise = parameters = pt.dscalars("length", "scale", "noise")
    scaled = pt.as_tensor(places) / pt.exp(log_length)
    squares = (scaled**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * scaled @ scaled.T
    covariance = pt.exp(2 * log_scale) * pt.exp(-pt.clip(distances, 0, np.inf) / 2)
    root = pt.linalg.cholesky(covariance + pt.exp(2 * log_noise) * np.eye(20))
    white = pt.linalg.solve_triangular(root, seen, lower=True)
    density = -0.5 * (white**2).sum() - pt.log(pt.diag(root)).sum()
    return parameters, [density, *pytensor.grad(density, parameters)], [0.1, 0.2, 0.3]


def solves() -> Any:
    rng = np.random.default_rng(3)
    a, b = pt.dmatrix("a"), pt.dvector("b")
    matrix = pt.tanh(a) @ pt.tanh(a).T + pt.diag(pt.exp(b))
    cost = (pt.linalg.solve(matrix, b) * pt.log(pt.diag(pt.linalg.cholesky(matrix)))).sum()
    return [a, b], [cost, *pytensor.grad(cost, [a, b])], [rng.normal(size=(6, 4)), rng.random(6)]


@pytest.mark.parametrize("graph", [gaussian_process, solves])
def test_shapes_of_calls_have_the_same_bits(graph: Any, path: Path) -> None:
    inputs, outputs, given = graph()
    f = pytensor.function(inputs, outputs, mode="JAXSELECTIVE")
    expected = f(*given)
    save(f, path, graph=False)
    for one, other in zip(load(path)(*given), expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_code_for_the_shapes_of_calls_stands_beside_that_for_others(path: Path) -> None:
    x, y = pt.dvector("x"), pt.dscalar("y")
    for inputs, outputs, calls, expected in (
        ([x], pt.exp(x).sum(), [[np.ones(3)], [np.ones(5)]], "region 0: (3,); (5,); (x,)"),
        ([y], pt.exp(y), [[np.array(1.0)]], "region 0: ()"),
    ):
        f = pytensor.function(inputs, outputs, mode="JAXSELECTIVE")
        for arguments in calls:
            f(*arguments)
        save(f, path, graph=False)
        [function] = inspect(path).manifest["layers"]["compiled"]["functions"].values()
        assert function["regions"] == [expected]


@pytest.mark.filterwarnings("ignore")
def test_most_of_the_corpus_has_open_dimensions(path: Path) -> None:
    found = []
    for _, graph in [*CORPUS.values()][::2]:
        f = pytensor.function(INPUTS, graph(), mode="JAXSELECTIVE", on_unused_input="ignore")
        f(*values(1))
        save(f, path, graph=False)
        found += open_regions(path)
    assert sum(found) >= 15


def test_rows(path: Path) -> None:
    x, w = pt.dmatrix("x"), pytensor.shared(np.array([0.5, -1.0, 2.0]), name="w")
    cost = pt.log1p(pt.exp(x @ w)).mean()
    f = pytensor.function([x], [cost, pytensor.grad(cost, x)], mode="JAXSELECTIVE")
    save(f, path, graph=False, dims={"x": ("batch", None)}, vjp_order=1)
    g = load(path)
    for rows in (1, 7, 10_000):
        given = np.random.default_rng(rows).normal(size=(rows, 3))
        for one, other in zip(g(given), f(given), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-18)
        slope = jax.jit(jax.grad(lambda x: g.jax_fn(x, w.get_value())[0]))(given)
        np.testing.assert_allclose(slope, f(given)[1], rtol=1e-12, atol=1e-18)
    with pytest.raises(NotSavedError, match=r"for \(batch, 3\)"):
        g(np.ones((2, 4)))


def _with_another_gradient(x: Any) -> Any:
    word = "pullback" if "pullback" in signature(OpFromGraph).parameters else "lop_overrides"
    return OpFromGraph([x], [x * 2], **{word: lambda *given: [given[-1][0] * 100]})(x)


DIFFERENTIATED: dict[str, Any] = {
    "a mask": lambda x, n: pt.log(x[x > 0.5]).sum(),
    "a prefix": lambda x, n: pt.log(x[:n]).sum(),
    "a loop": lambda x, n: pytensor.scan(
        lambda entry, s: s / 2 + pt.log(entry), sequences=[x[:n]], outputs_info=[pt.zeros(())],
        return_updates=False,
    )[-1],
    "an Op with a gradient": lambda x, n: _with_another_gradient(x)[:2].sum(),
    "with a condition": lambda x, n: _with_another_gradient(Assert("big")(x, n < 5))[:2].sum(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives_are_those_of_the_function(name: str, path: Path) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    output = DIFFERENTIATED[name](x, n)
    f = pytensor.function([x, n], output, mode=JAXLinker(dynamic=True), on_unused_input="ignore")
    given = np.array([1.0, 2.0, 0.0, -1.0, np.nan])
    f(given, 2)
    save(f, path, graph=False, vjp_order=1)
    loaded = load(path)
    found = jax.jit(jax.grad(lambda x: loaded.jax_fn(x, 2)[0]))(given)
    expected = jax.jit(jax.grad(lambda x: f.jax_fn(x, 2)[0]))(given)
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(found).all()


def test_platforms(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x.sum(), mode="JAXSELECTIVE")
    save(f, path, platforms=("cpu", "cuda", "tpu"))
    assert "compiled for cpu, cuda, tpu" in str(inspect(path))
    assert load(path)(np.ones(3)) == 3
    save(f, path, platforms=("tpu",))
    with caplog.at_level("INFO", logger=Topic.FALLBACKS.logger.name):
        assert hasattr(load(path), "explain")  # the graph is compiled instead
    assert "with code for tpu is compiled from its graph" in caplog.text


def test_loops_for_another_platform(path: Path) -> None:
    """There JAX allocates their stacked outputs by a call of its own."""
    x = pt.dvector("x")
    states = pytensor.scan(
        lambda s: (s * 2, until(s.sum() > 40)), outputs_info=[x], n_steps=9, return_updates=False
    )
    f = pytensor.function([x], states, mode="JAXSELECTIVE")
    expected = f(np.ones(3))
    save(f, path, platforms=("cpu", "cuda"), graph=False)
    np.testing.assert_array_equal(load(path)(np.ones(3)), expected)


def test_checks(path: Path) -> None:
    x, i = pt.dvector("x"), pt.lscalar("i")
    f = pytensor.function([x, i], x[i] * 2, mode="JAXSELECTIVE")
    f(np.ones(3), 1)
    save(f, path, graph=False)
    g = load(path)
    assert g(np.arange(3.0), 2) == 4
    with pytest.raises(CheckFailedError):
        g(np.arange(3.0), 5)
    with pytest.raises(IndexError):
        g(np.arange(3.0), -4)


def test_where_the_user_traces_results_of_a_false_condition_are_nan(path: Path) -> None:
    """Saved code does not tell checks from assumptions, and there nobody could raise."""
    x = pt.dvector("x")
    k = (x > 0).sum()
    f = pytensor.function([x], [x[k : k + 2].sum(), k], mode="JAXSELECTIVE")
    right, wrong = np.array([-1.0, 2.0, -3.0]), np.array([0.25, 0.5, -1.0])
    f(right)
    save(f, path, vjp_order=1)
    g = load(path)
    slope = jax.jit(jax.grad(lambda x: g.jax_fn(x)[0]))
    for given, total, derivative in (
        (right, -1.0, [0.0, 1.0, 1.0]),
        (wrong, np.nan, [0.0, np.nan, np.nan]),
    ):
        np.testing.assert_array_equal(jax.jit(g.jax_fn)(given), [total, (given > 0).sum()])
        np.testing.assert_array_equal(slope(given), derivative)
        np.testing.assert_array_equal(g(given), f(given))


def test_a_false_check_is_left_to_the_graph(path: Path) -> None:
    """PyTensor knows which exception it is; or the value, where the code cannot give it."""
    a, i, total = pt.fmatrix("a"), pt.lscalar("i"), pytensor.shared(0.0, name="total")
    f = pytensor.function(
        [a, i], [pt.linalg.inv(a), a[i]], updates={total: total + 1}, mode="JAXSELECTIVE"
    )
    square = np.eye(2, dtype="float32")
    f(square, 1)
    save(f, path)
    g = load(path)
    g(square, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is no news that there is a graph
        found, row = g(square * np.nan, 1)
        assert np.isnan(found).all()
        assert np.isnan(row).all()
        with pytest.raises(IndexError) as caught:
            g(square, 5)
    assert not isinstance(caught.value, CheckFailedError)
    assert g.state[0].get_value() == 3.0


def _unstacked(x: Any, n: Any) -> Any:
    labelled = pytensor.xtensor.as_xtensor(x, dims=("all",))
    return labelled.unstack({"all": {"a": n, "b": 2}})


CHECKED: dict[str, Any] = {
    "unstacked": lambda x, n: _unstacked(x, n).values,
    "an entry of it": lambda x, n: _unstacked(x, n).isel(a=n).values,
    "another entry": lambda x, n: _unstacked(x, 3).isel(a=n, b=-1).values,
    "chosen": lambda x, n: pt.choose(pt.stack([n]), [x[:1], x[1:2]]) + pt.zeros(n).sum(),
    "of several": lambda x, n: x.reshape((n, 2))[n] + pt.cumsum(pt.zeros(n - 3))[-1],
}


@pytest.mark.filterwarnings("ignore::pytensor_jaxlink.JAXLinkWarning")  # code for each size
@pytest.mark.parametrize("name", CHECKED)
def test_false_checks_raise_as_in_the_function_that_was_saved(name: str, path: Path) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], CHECKED[name](x, n), mode="JAXSELECTIVE")
    raised(f, np.arange(6.0), 3)
    save(f, path)
    loaded = load(path), load(path, prefer="graph")
    for size in (3, 1, 0, -1, 4, 9):
        expected = raised(f, np.arange(6.0), size)
        assert [raised(each, np.arange(6.0), size) for each in loaded] == [expected] * 2


def raised(function: Any, *arguments: Any) -> Any:
    try:
        function(*arguments)
    except Exception as error:
        return type(error), str(error).partition("\n")[0]
    return None


def test_a_false_check_comes_before_an_op_that_is_not_allowed(path: Path) -> None:
    """The graph would know which exception it is, and cannot be read."""
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], RepeatEach()(x, 1)[n], mode="JAXSELECTIVE")
    f(np.ones(3), 2)
    save(f, path)
    g = load(path)
    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            g(np.ones(3), 3)
        assert isinstance(caught.value, CheckFailedError)
        assert "test_failures" in str(caught.value.__cause__)
    assert g(np.arange(3.0), 2) == 2
    with pytest.raises(ArtifactError, match=r"allow=\('tests',\)"):
        g.explain()


@pytest.mark.parametrize("graph", [True, False])
def test_a_host_step_may_raise_before_a_check_is_read(path: Path, graph: bool) -> None:
    """The index is out of bounds, so the region gives counts that are none."""
    x, v, places = pt.dvector("x"), pt.dvector("v"), pt.lvector("places")
    repeated = pt.repeat(v, pt.cast(x[places], "int64")) * 2
    f = pytensor.function([x, v, places], repeated, mode="JAXSELECTIVE")
    f(np.ones(3), np.ones(2), [0, 1])
    save(f, path, graph=graph)
    g = load(path)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            g(-np.ones(3), np.ones(2), [0, 1])
        with pytest.raises(IndexError if graph else ValueError):
            g(-np.ones(3), np.ones(2), [0, 9])
    assert g.stats.fallbacks == (4 if graph else 0)
    np.testing.assert_array_equal(g(np.ones(3), np.ones(2), [0, 1]), [2, 2])


def test_lengths_that_the_code_needs_equal(path: Path) -> None:
    """Only XLA sees that the sums fit the matrix if it has one row."""
    x = pt.dmatrix("x")
    save(pytensor.function([x], x.sum(axis=0).reshape(x.shape), mode="JAXSELECTIVE"), path)
    f = load(path)
    np.testing.assert_array_equal(f(np.ones((1, 3))), np.ones((1, 3)))
    with (
        pytest.warns(JAXLinkWarning, match="lengths that must agree do not"),
        pytest.raises(ValueError, match="reshape"),
    ):
        f(np.ones((2, 3)))
    assert f.stats.fallbacks == 1


@pytest.mark.filterwarnings("ignore")
def test_lengths_that_the_code_needs_equal_without_a_graph(path: Path) -> None:
    x = pt.dmatrix("x")
    f = pytensor.function([x], x.sum(axis=0).reshape(x.shape), mode="JAXSELECTIVE")
    save(f, path, graph=False)
    with pytest.raises(NotSavedError, match="lengths that must agree do not"):
        load(path)(np.ones((2, 3)))


def test_no_open_length_is_stretched_at_places(path: Path) -> None:
    x, places = pt.dvector("x"), pt.lvector("places")
    none = pt.inc_subtensor(x[np.zeros(0, "int64")], x[places])
    save(pytensor.function([x, places], none, mode="JAXSELECTIVE"), path)
    with pytest.raises(ValueError, match="broadcast"):
        load(path)(np.ones(3), [1])


@pytest.mark.filterwarnings("ignore")
def test_size_arithmetic_without_pytensor() -> None:
    n, m = pt.lscalar("n"), pt.lscalar("m")
    x = pt.dmatrix("x")
    shape = pt.stack([n, m // 2, x.shape[0]])
    outputs = [
        pt.zeros((n // 2 + m * 3 - 1, pt.maximum(n, m) % 4)),
        x[: n % 3 + 1, m - 3 :],
        pt.ones(shape[1:]),
        pt.zeros(pt.concatenate([shape, shape])[:2].prod()),
        pt.zeros(pt.switch(n > m, n, pt.abs(-m))),
    ]
    f = pytensor.function([x, n, m], outputs, mode="JAXSELECTIVE")
    lowered = f.vm.compiled.lowered
    sizes, variables = np.array([5, 4], dtype="int64"), lowered.view.variables
    found = 0
    for step in lowered.plan.steps:
        if isinstance(step, Region):
            continue
        node = lowered.view.nodes[lowered.view.producer[step.results[0]]]
        described = describe_size(node)
        assert described is not None, node
        if described[0] == "shape":
            continue
        given = [
            lowered.constants.get(number, sizes[0] if variables[number].ndim == 0 else sizes)
            for number in step.arguments
        ]
        [one], other = size_function(described)(*given), performed(node, given)
        assert np.array_equal(one, other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        found += 1
    assert found >= 8


@pytest.mark.filterwarnings("ignore")
def test_plans_round_trip() -> None:
    for _, graph in CORPUS.values():
        f = pytensor.function(INPUTS, graph(), mode="JAXSELECTIVE", on_unused_input="ignore")
        document = parse_document(dump_document(describe(f.plan)))
        assert reader(Plan)(document) == f.plan


WITHOUT_PYTENSOR = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pytensor":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
import numpy as np
from pytensor_jaxlink import ArtifactError, inspect, load
f = load(sys.argv[1])
print(float(f(np.ones((4, 3)), n=2)[0]), float(f.state[0].get_value()), inspect(sys.argv[1]).path)
layers = "lowering analysis partition rewriting link ops graph".split()
def is_compiler(module):
    first, _, rest = module.partition(".")
    return first == "pytensor" or first == "pytensor_jaxlink" and rest.split(".")[0] in layers
compilers = [module for module in sys.modules if is_compiler(module)]
print(compilers)
for how in ({"prefer": "graph"}, {}):
    try:
        load(sys.argv[1], **how)(np.ones((4, 3)), 3)
    except ArtifactError as error:
        print(error)
"""


def test_without_pytensor(path: Path) -> None:
    x, n = pt.dmatrix("x"), pt.lscalar("n")
    total = pytensor.shared(1.0, name="total")
    f = pytensor.function(
        [x, n], [x[: n // 2].sum() + total], updates={total: total * 2}, mode="JAXSELECTIVE"
    )
    save(f, path, static={"n": 2})
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTENSOR, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    first, second, third, *rest = done.stdout.splitlines()
    assert first == f"4.0 2.0 {path}"
    assert second == "[]"
    assert "needs PyTensor, which cannot be imported" in third
    assert rest == []  # 3 // 2 is 1 again: the code is there


@pytest.mark.filterwarnings("ignore")
def test_loops_and_branches_host_executed(path: Path) -> None:
    from pytensor_jaxlink.compat import ifelse
    from tests.helpers import black_box, sort_down

    host = black_box(sort_down)
    x, n = pt.dvector("x"), pt.lscalar("n")
    states = pytensor.scan(
        lambda state: pt.exp(host(pt.sin(state))),
        outputs_info=[x],
        n_steps=n,
        return_updates=False,
    )
    chosen = ifelse(x.sum() > 0, host(pt.exp(x)).sum(), pt.cos(x).sum())
    f = pytensor.function([x, n], [states, chosen], mode="JAXSELECTIVE")
    given = np.linspace(-1, 1.5, 6)
    expected = f(given, 3), f(-given, 2)
    save(f, path, graph=False)
    assert "needs PyTensor for" in str(inspect(path))
    g = load(path, allow=("tests",))
    found = g(given, 3), g(-given, 2)
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_copies(path: Path) -> None:
    x, w, v = pt.dvector("x"), pytensor.shared(2.0, name="w"), pytensor.shared(5.0, name="v")
    f = pytensor.function([x], (x * w).sum(), updates={w: w + 1}, mode="JAXSELECTIVE")
    for copied in (f.copy(), f.copy(swap={w: v}), f.copy(delete_updates=True)):
        save(copied, path)
        for prefer in ("compiled", "graph"):
            g = load(path, prefer=prefer)
            before = w.get_value(), v.get_value()
            expected = [copied(np.ones(2)), copied(np.ones(2))]
            w.set_value(before[0])
            v.set_value(before[1])
            assert [g(np.ones(2)), g(np.ones(2))] == expected


def test_conditions_on_open_dimensions(path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], [x[2], x[1:][3], x[:-1].sum()], mode="JAXSELECTIVE")
    save(f, path, graph=False)
    g = load(path)
    for length in (5, 9):
        for one, other in zip(g(np.arange(length * 1.0)), f(np.arange(length * 1.0)), strict=True):
            assert one == other
    with pytest.raises(NotSavedError, match=r"where x >= "):
        g(np.ones(4))
    with pytest.raises(NotSavedError):
        g(np.ones(0))


def test_states_are_compiled_for_once(path: Path) -> None:
    """What `jax.export` gives stays on its device, which is another kind of argument for JAX."""
    x = pt.dvector("x")
    first, second = (pytensor.shared(np.zeros(3), name=name) for name in "ab")
    updates = {first: first + x, second: second * 2 + first}
    save(pytensor.function([x], first.sum(), updates=updates, mode="JAXSELECTIVE"), path)
    f = load(path)
    compiled: list[float] = []
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if "backend_compile" in event else None
    )
    f(np.ones(3))
    count = len(compiled)
    assert [float(f(np.ones(3))) for _ in range(3)] == [3, 6, 9]
    assert len(compiled) == count


@pytest.mark.parametrize("compared", [pt.eq, pt.neq])
def test_undecided_equality_of_lengths_is_a_condition(compared: Any, path: Path) -> None:
    x = pt.dvector("x")
    length = pt.switch(compared(x.shape[0], 2), 5, 3)
    f = pytensor.function([x], pt.zeros(length) + 1.0, mode="JAXSELECTIVE")
    f(np.ones(4))
    save(f, path, graph=False)
    loaded = load(path)
    assert loaded(np.ones(9)).shape == f(np.ones(9)).shape
    with pytest.raises(NotSavedError, match="x >= 3"):
        loaded(np.ones(2))


@pytest.mark.parametrize("graph", [True, False])
def test_a_loaded_function_tells_of_itself(tmp_path: Path, graph: bool) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    total = pytensor.shared(np.zeros(3), name="total")
    result = (x[:n].sum() + total).sum()
    f = pytensor.function([x, n], result, updates={total: total + 1}, mode="JAXSELECTIVE")
    save(f, tmp_path / "f", static={"n": [2]}, graph=graph)
    g = load(tmp_path / "f")
    assert g.input_names == f.input_names == ("x", "n", "total")
    assert g.static_argnums == f.static_argnums == (1,)
    assert g.donate_argnums == f.donate_argnums == (2,)
    assert g.output_names[1:] == f.output_names[1:] == ("total",)
    traced = jax.jit(g.jax_fn, static_argnums=g.static_argnums)
    with jax.enable_x64(True):
        assert traced(np.ones(3), 2, np.zeros(3))[0] == 6
    if graph:
        assert str(g.explain()) == str(f.explain())
    else:
        with pytest.raises(ArtifactError, match=r"no graph to explain. Save it with save\(f, path"):
            g.explain()


def test_a_host_step_has_no_static_arguments(tmp_path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], black_box(sort_down)(x * 2) + 1, mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f")
    with pytest.raises(NotJittableError, match=r"on the host run .*sort_down"):
        load(tmp_path / "f", allow=["tests.helpers"]).static_argnums  # noqa: B018


def test_transformations_that_the_code_does_not_have(tmp_path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f", graph=False)
    g = load(tmp_path / "f")
    for call in (g.jax_fn, jax.jit(g.jax_fn)):
        with jax.enable_x64(True), pytest.raises(ArtifactError) as raised:
            jax.grad(lambda value, call=call: call(value)[0])(np.ones(3))
        assert str(raised.value) == (
            f"{tmp_path / 'f'}: region 0: the code holds no derivative. Save it with save(f, path, "
            "vjp_order=1), or as high as you differentiate, or load(path, prefer='graph'). "
            "[PJL814]"
        )
    with pytest.raises(NotImplementedError, match=r"Leave that axis open when you save, dims="):
        jax.vmap(g.jax_fn)(np.ones((2, 3)))
    np.testing.assert_allclose(g(np.zeros(3)), 3)


def test_the_mismatch_comes_before_the_missing_code(tmp_path: Path) -> None:
    x, y, m = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m")
    f = pytensor.function([x, y, m], [x + y, m * 2], mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False, dims={"m": ("rows", 3)})
    g = load(tmp_path / "f")
    g(np.ones(4), np.ones(4), np.ones((2, 3)))
    with pytest.raises(ArtifactError) as raised:
        g(np.ones(3), np.ones(4), np.ones((2, 3)))
    assert str(raised.value).startswith(
        "axis 0 of y has length 4, axis 0 of x has 3, and they must be equal: no code was saved for"
    )
    with pytest.raises(ArtifactError, match=r"^axis 1 of m has length 5 and not 3: no code was"):
        g(np.ones(3), np.ones(3), np.ones((2, 5)))
    with pytest.raises(TypeError, match="x: expected"):
        g(np.ones((3, 1)), np.ones(3), np.ones((2, 5)))


def test_an_open_length_of_1_is_stretched_where_pytensor_does(tmp_path: Path) -> None:
    """PyTensor 3.0 refuses to add one value at an index to a longer array, later ones do not."""
    x, k = pt.dvector("x"), pt.vector("k", dtype="uint32")
    gradient = pytensor.grad((pt.cumsum(x[k]) * x[k]).sum(), x)
    f = pytensor.function([x, k], gradient, mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    for places in ([1, 2], [3]):
        given = np.arange(6.0), np.array(places, "uint32")
        try:
            expected = f(*given)
        except ValueError:
            with pytest.raises(ValueError, match="a check of the saved function is false"):
                loaded(*given)
        else:
            np.testing.assert_allclose(loaded(*given), expected)


def test_the_pure_function_for_sizes_without_code(tmp_path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f", dims=None)
    loaded = load(tmp_path / "f")
    with pytest.warns(JAXLinkWarning, match="compiled from its graph"):
        [found] = jax.jit(loaded.jax_fn)(np.ones(5))
    assert found == pytest.approx(5 * np.e)
    save(f, tmp_path / "g", dims=None, graph=False)
    with pytest.raises(NotSavedError, match="no code was saved for"):
        load(tmp_path / "g").jax_fn(np.ones(5))


SERVED: dict[str, Any] = {
    "a slice": lambda x, n: pt.exp(x[:n]),
    "a computed size": lambda x, n: pt.alloc(x.sum(), n + 1),
    "a size of a shape": lambda x, n: pt.alloc(x.sum(), x.shape[0] // 2 + n),
}


@pytest.mark.parametrize("name", SERVED)
def test_the_sizes_of_calls_that_one_program_served(name: str, path: Path) -> None:
    """The second call brings another size and another length, and no code for the two is made."""
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], SERVED[name](x, n), mode="JAXSELECTIVE")
    calls = (np.ones(2), 2), (np.ones(0), 0)
    expected = [f(*call) for call in calls]
    save(f, path, graph=False)
    loaded = load(path)
    for call, value in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(loaded(*call), value)


def test_bytes_and_classes_of_arguments(path: Path) -> None:
    """Arguments that JAX would take for others once it has compiled."""
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, In(n, strict=True)], x * n, mode="JAXSELECTIVE")
    values, count = np.arange(3.0), np.array(2)
    f(values, count)
    save(f, path, graph=False)
    g = load(path)
    for trusted in (False, True):
        g.signature = replace(g.signature, trust_input=trusted)
        for given in (values, values.astype(">f8"), values):
            np.testing.assert_array_equal(g(given, count), [0, 2, 4])
    g.signature = replace(g.signature, trust_input=False)
    for number in (2, np.int64(2)):
        with pytest.raises(TypeError, match="strict"):
            g(values, number)


def test_checks_where_jax_has_no_64_bit_types(path: Path) -> None:
    """JAX's default, in a process that does not import PyTensor."""
    x, places = pt.dvector("x"), pt.lvector("places")
    checked = Assert("must be positive")(pt.log(x), pt.all(x > 0))
    f = pytensor.function([x, places], [checked, x[places]], mode="JAXSELECTIVE")
    f(np.ones(3), np.array([2, 0]))
    save(f, path, graph=False)
    program = f"""
import numpy as np
from pytensor_jaxlink import load
f = load({str(path)!r})
for _ in range(3):
    logarithm, entries = f(np.full(3, 2.0), np.array([2, 0]))
    assert str(logarithm.dtype) == "float64" and entries.tolist() == [2.0, 2.0]
for wrong in ((-np.ones(3), np.array([2, 0])), (np.ones(3), np.array([3, 0]))):
    try:
        f(*wrong)
    except AssertionError:
        f(np.full(3, 2.0), np.array([2, 0]))
    else:
        raise SystemExit("a check was missed")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_sizes_that_are_data_from_the_start(path: Path) -> None:
    """No call of such a function runs the program that is saved."""
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], [x[:n], pt.arange(n) * 2.0], mode=JAXLinker(dynamic=True))
    values, sizes = np.arange(3.0), (2, 1, 3)
    for size in sizes:
        f(values, size)
    assert f.stats.compilations == [0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(f, path, graph=False)
    g = load(path)
    for size in sizes:
        for one, other in zip(g(values, size), f(values, size), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("outputs", ["jax", "numpy"])
def test_numbers_leave_as_they_did(outputs: Any, path: Path) -> None:
    x = pytensor.scalar.float64("x")
    f = pytensor.function([x], pytensor.scalar.mul(x, x), mode=JAXLinker(outputs=outputs))
    expected = [f(2.0) for _ in range(8)]
    save(f, path)
    loaded = load(path)
    found = [loaded(2.0) for _ in range(8)]  # more often than the fast path may fail
    assert found == expected
    assert {type(value) for value in found} == {type(value) for value in expected}


@pytest.mark.filterwarnings("ignore:no code was saved")  # the graph finishes the call
@pytest.mark.parametrize("operation", [pt.sub, pt.mod])
def test_a_length_of_1_is_not_stretched_to_an_open_one(operation: Any, tmp_path: Path) -> None:
    x, y = pt.dvectors("x", "y")
    f = pytensor.function([x, y], operation(x, y[:1]), mode="JAXSELECTIVE")
    for length in (4, 5):
        f(np.ones(1), np.ones(length))
    save(f, tmp_path / "f")
    loaded = load(tmp_path / "f")
    np.testing.assert_allclose(loaded(np.ones(1), np.ones(4)), f(np.ones(1), np.ones(4)))
    for function in (f, loaded):
        with pytest.raises(ValueError, match="broadcast"):
            function(np.ones(3), np.ones(4))


def test_a_name_of_two_inputs_is_no_keyword(path: Path) -> None:
    a, b, c = pt.dvector("x"), pt.dvector("x"), pt.dvector("c")
    shared = pytensor.shared(np.zeros(2), name="c")
    f = pytensor.function([a, b, c], a - b + c + shared, mode="JAXSELECTIVE")
    one, two = np.ones(2), np.full(2, 2.0)
    f(one, one, one)
    save(f, path)
    for function in (f, load(path), load(path, prefer="graph")):
        np.testing.assert_array_equal(function(two, one, one), two)
        for given, named in (((two,), {"x": one, "c": one}), ((two, one), {"c": one})):
            with pytest.raises(TypeError):
                function(*given, **named)
