"""Arguments whose lengths change: compiled for, then padded to buckets, to the same values."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.basic import Alloc

from pytensor_jaxlink import JAXLinker, load, save
from pytensor_jaxlink.link.analyses import Analyses
from pytensor_jaxlink.link.padded_graph import padded_graph
from pytensor_jaxlink.runtime import Executor
from tests.edges.compare import outcome
from tests.helpers import PYTHON, as_list, black_box, compile_both, sort_down
from tests.link.test_dynamic_sizes import answer, assert_same, with_gradient

X, Y, M, T, S = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m"), pt.dvector("t"), pt.dscalar("s")
G, N, C = pt.lvector("g"), pt.lscalar("n"), pt.TensorType("bool", shape=(None,))("c")
CHANGING = {X, Y, M, G, C}
LENGTHS = (3, 0, 1, 5, 1025, 3)


def arguments_of(inputs: Any, length: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    values = {
        X: rng.normal(size=length),
        Y: rng.normal(size=length),
        M: rng.normal(size=(length, 3)),
        G: rng.integers(0, 4, length),
        C: rng.normal(size=length) > 0,
        T: rng.normal(size=4),
        S: np.array(0.7),
        N: np.array(2),
    }
    values[X][5:6] = np.nan
    return [values[v] for v in inputs]


def regression() -> list[Any]:
    mean = T[G] + S * Y
    density = -0.5 * ((pt.exp(Y) - mean) ** 2).sum() - (T**2).sum() - S**2
    return with_gradient(density, T, S)


def recursion(step: Any, sequence: Any) -> Any:
    return pytensor.scan(step, sequences=[sequence], outputs_info=[pt.zeros(())])[0]


PADDED: dict[str, Callable[[], Any]] = {
    "sum": lambda: with_gradient((Y**2).sum(), Y),
    "elementwise": lambda: [pt.exp(X) * 2, Y + 1],
    "several_as_long": lambda: [(Y * pt.exp(-Y)).sum(), Y * G, (Y[:, None] * M).sum(0)],
    "regression": regression,
    "softmax": lambda: pt.special.softmax(Y),
    "log_sum": lambda: pt.logsumexp(X),
    "deviation": lambda: [Y.mean(), Y.std()],
    "largest": lambda: [Y.max(), Y.argmax()],
    "matrix_times_vector": lambda: with_gradient((pt.exp(M @ T[:3]) * Y).sum(), T),
    "rows": lambda: [M.sum(axis=1), M.sum(axis=0), M[:, 0], M.T],
    "gram": lambda: [M.T @ M, pt.dot(M.T, Y)],
    "cumsum": lambda: [pt.cumsum(Y), pt.cumsum(Y)[-1]],
    "order": lambda: [pt.sort(Y)[0], Y[::-1].sum()],
    "difference": lambda: ((Y[1:] - Y[:-1]) ** 2).sum(),
    "length": lambda: [Y.shape[0], Y.sum() / Y.shape[0]],
    "as_long": lambda: [pt.ones_like(Y), pt.zeros(Y.shape[0]), (pt.arange(Y.shape[0]) * Y).sum()],
    "selected": lambda: with_gradient((Y[C] ** 2).sum(), Y),
    "where": lambda: pt.where(Y > 0, Y, 0).sum(),
    "condition": lambda: pt.switch(C, Y, -Y),
    "gather": lambda: [T[G], T[G].sum()],
    "scatter": lambda: pt.inc_subtensor(T[G], Y),
    "one_number_to_places": lambda: pt.grad(pt.exp(Y[G % Y.shape[0]].set(1.0)).sum(), Y),
    "integers": lambda: [G * 2, G.sum(), pt.cast(G, "int8").max()],
    "set_all": lambda: pt.set_subtensor(Y[:], 1.0),
    "part_as_long": lambda: [T[: X.shape[0]].sum(), X.sum()],
    "column": lambda: Y.reshape((-1, 1)) * 2,
    "every_other": lambda: [Y[::2].sum(), Y[1:-1:3].mean()],
    "a_slice": lambda: [Y[:N].sum(), Y[N:].sum(), Y[-N:].max()],
    "untouched": lambda: [Y, T * 2],
    "longer": lambda: pt.repeat(Y, 2),
}
STATIC: dict[str, Callable[[], Any]] = {
    "host_step": lambda: black_box(sort_down)(pt.exp(Y)).sum(),
    "draws": lambda: pt.random.normal(size=Y.shape[0]),
    "eigenvalues": lambda: pt.linalg.eigvalsh(pt.outer(Y, Y))[-1],
}


def inputs_of(outputs: Any) -> list[Any]:
    found = graph_inputs(as_list(outputs))
    return [v for v in dict.fromkeys(found) if v.name and not isinstance(v, Constant)]


def functions(graph: Any, **options: Any) -> Any:
    inputs = inputs_of(graph)
    modes = JAXLinker(**options), PYTHON
    return inputs, *(
        pytensor.function([pytensor.In(v, borrow=True) for v in inputs], graph, mode=mode)
        for mode in modes
    )


def compare(graph: Any, lengths: Any = LENGTHS, **options: Any) -> Any:
    inputs, f, reference = functions(graph, **options)
    for seed, length in enumerate(lengths):
        arguments = arguments_of(inputs, length, seed)
        assert_same(answer(f, arguments), answer(reference, arguments))
    return f


@pytest.mark.parametrize("name", PADDED)
def test_a_second_length_has_an_argument_padded(name: str) -> None:
    f = compare(PADDED[name]())
    stats = f.stats
    assert stats.padded_calls > 0
    assert stats.compilations[0] <= 2  # again after a check is false
    assert stats.padded.compilations[0] <= 2 * 3
    assert stats.host_regions == stats.padded.host_regions == stats.slow_calls == 0
    assert f.explain().graph_break_count == 0
    assert not f.explain().failures
    assert re.search(r"is padded, to (64|256|1024), \d+, \.\.\.: one program", str(f.explain()))


@pytest.mark.parametrize("name", PADDED)
def test_padded_from_the_start(name: str) -> None:
    f = compare(PADDED[name](), dynamic=True)
    stats = f.stats
    assert set(stats.compilations) == {0}
    assert stats.padded_calls + stats.fallbacks >= len(LENGTHS)
    assert stats.padded.compilations[0] <= 2 * 3  # again after a check is false
    assert stats.host_regions == stats.padded.host_regions == stats.slow_calls == 0
    assert f.explain().graph_break_count == 0


def test_from_the_start_equal_lengths_of_one_call_say_nothing() -> None:
    f = pytensor.function([X, Y], [(X**2).sum(), Y.sum()], mode=JAXLinker(dynamic=True))
    for lengths in ((3, 3), (3, 4), (5, 4)):
        x, y = map(np.arange, map(float, lengths))
        assert [float(each) for each in f(x, y)] == [(x**2).sum(), y.sum()]
    assert (f.stats.compilations, f.stats.padded.compilations) == ([0], [1])
    assert f.stats.fallbacks == 0


def test_from_the_start_no_length_has_a_program_of_its_own() -> None:
    f = compare(PADDED["sum"](), lengths=(3,) * 40 + (4,) * 40, dynamic=True)
    assert (f.stats.compilations, f.stats.padded.compilations) == ([0], [1])


def test_from_the_start_in_several_regions() -> None:
    sort = black_box(sort_down)
    f = compare([pt.exp(sort(pt.exp(Y))), (X[:, None] * M).sum(0)], dynamic=True)
    assert set(f.stats.compilations) == {0}
    assert f.stats.host_regions == f.stats.padded.host_regions == 0


@pytest.mark.parametrize("name", STATIC)
def test_where_a_length_stays_static(name: str) -> None:
    outputs = STATIC[name]()
    inputs, f, reference = functions(outputs)
    for length in (3, 4, 5):
        arguments = arguments_of(inputs, length)
        if name == "draws":
            assert f(*arguments).shape == (length,)
        else:
            assert_same(answer(f, arguments), answer(reference, arguments))
    assert f.stats.compilations[0] == 3
    assert f.stats.dynamic_sizes == f.stats.padded_calls == 0
    assert "the length of y is static: JAX must know it for" in str(f.explain())


def test_a_form_that_breaks_is_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(self: Any, dynamic: frozenset[int], **options: Any) -> Any:
        asked.append((self, dynamic))
        return form(self, dynamic, **options)

    form = Analyses.form
    monkeypatch.setattr(Analyses, "form", noted)
    compare(STATIC["eigenvalues"](), lengths=(2, 3))
    assert [dynamic for _, dynamic in asked] == [frozenset(), frozenset({1}), frozenset()]


def test_the_nodes_of_padded_arguments_are_not_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def noted(self: Any, *args: Any) -> Any:
        made.append(self)
        return make_node(self, *args)

    make_node = Alloc.make_node
    inputs, f, reference = functions(
        [(pt.zeros_like(Y)[None] + Y[:, None]).sum(1), pt.full(Y.shape, S)]
    )
    f(*arguments_of(inputs, 2))
    monkeypatch.setattr(Alloc, "make_node", noted)
    arguments = arguments_of(inputs, 3)
    graph = padded_graph(f.maker.fgraph, (((0, 0),),))
    assert any(isinstance(node.op, Alloc) for node in graph.apply_nodes)
    assert not made
    assert_same(answer(f, arguments), answer(reference, arguments))


def test_never() -> None:
    f = compare(PADDED["sum"](), lengths=(2, 3, 4, 5), dynamic=False)
    assert (f.stats.compilations, f.stats.dynamic_sizes) == ([4], 0)


def test_a_thousand_lengths() -> None:
    f = compare(regression(), lengths=np.random.default_rng(0).integers(0, 1_000, 300).tolist())
    assert sum(f.stats.compilations) + sum(f.stats.padded.compilations) <= 2 * 2
    assert f.stats.calls == 300
    assert (
        f.stats.region_calls[0] + f.stats.padded.region_calls[0] <= 305
    )  # some fail, and are finished


@pytest.mark.parametrize(
    "options",
    [
        {"outputs": "numpy"},
        {"donate": "all"},
        {"dynamic": True},
        {"recompile_limit": 1},
        {"checks": "ignore"},
        {"jit": True},
        {"host_ops": "callback"},
        {"device": "cpu"},
    ],
)
def test_other_options(options: Any) -> None:
    graph = [*regression(), pt.exp(Y)]
    f = compare(graph, lengths=(3, 5, 70, 2, 64), **options)
    assert f.stats.padded_calls > 0
    expected = np.ndarray if options.get("outputs") == "numpy" else jax.Array
    assert all(isinstance(each, expected) for each in f(*arguments_of(inputs_of(graph), 9)))


@pytest.mark.parametrize(
    ("graph", "smallest"),
    [(lambda: Y.sum(), 1024), (lambda: (M @ pt.ones((3, 50))).sum(), 64), (regression, 1024)],
)
def test_the_smallest_bucket_depends_on_what_is_computed(graph: Any, smallest: int) -> None:
    f = compare(graph(), lengths=(3, 4))
    assert f"is padded, to {smallest}, {2 * smallest}, ..." in str(f.explain())


def test_a_program_is_measured_where_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    measure = Executor.measure

    def noted(self: Executor, inputs: Any) -> int | None:
        measured.append(max(each.shape[0] for each in inputs if each.shape))
        return measure(self, inputs)

    monkeypatch.setattr(Executor, "measure", noted)
    f = compare(regression(), lengths=(5, 3000, 1500, 700, 513, 1025))
    assert not measured
    inputs = inputs_of(regression())
    f(*arguments_of(inputs, 512))
    f(*arguments_of(inputs, 2))
    assert not measured  # a longer program serves them
    compare(regression(), lengths=(5, 512, 2))
    assert measured == [1024]  # a thousand entries are computed as fast as a few


def test_the_program_of_a_longer_bucket_serves_shorter_arguments() -> None:
    f = compare(regression(), lengths=(5, 3000, 1500, 2, 0, 700, 1024, 1025, 4097, 2000))
    assert f.stats.compilations == [1]
    assert f.stats.padded.compilations == [2]  # for 4096, then for 8192
    f = compare(regression(), lengths=(5, 3000, 2000), buckets=[1024, 2048, 4096])
    assert f.stats.padded.compilations == [2]  # the user's


def test_buckets() -> None:
    f = compare(PADDED["sum"](), buckets=[10, 100], lengths=(2, 9, 10, 11, 99, 101))
    assert f.stats.padded.compilations == [3]
    assert "padded, to 10, 100, ..." in str(f.explain())
    g = compare(PADDED["sum"](), buckets=lambda n: -(-n // 5) * 5, lengths=(2, 4, 5, 6, 10, 11))
    assert g.stats.padded.compilations == [3]
    wrong = pytensor.function([Y], Y.sum(), mode=JAXLinker(buckets=lambda n: n - 1))
    wrong(np.ones(3))
    with pytest.raises(ValueError, match=r"for an array of length .; a bucket has to be"):
        wrong(np.ones(4))
    for bad in (0, [], [0], [2.5], "ab"):
        with pytest.raises(ValueError, match="neither a sequence of positive integers nor"):
            JAXLinker(buckets=bad)  # pyright: ignore[reportArgumentType]


def test_errors_are_those_of_python() -> None:
    inputs, f, reference = functions([(X * Y).sum(), T[G].sum()])
    for length in (3, 4, 5):
        arguments = arguments_of(inputs, length)
        assert_same(answer(f, arguments), answer(reference, arguments))
    good = dict(zip(inputs, arguments_of(inputs, 7), strict=True))
    for changed in ({X: np.ones(6)}, {X: np.ones(1)}, {G: np.array([4, 0, 0, 0, 0, 0, 0])}):
        arguments = [*(good | changed).values()]
        expected = answer(reference, arguments)
        assert isinstance(expected, type)
        assert answer(f, arguments) is expected
    assert_same(answer(f, [*good.values()]), answer(reference, [*good.values()]))
    lists = [good[v].tolist() if v in CHANGING else good[v] for v in inputs]
    assert_same(answer(f, lists), answer(reference, lists))


def test_equally_long_by_chance() -> None:
    inputs, f, reference = functions([(X**2).sum() * Y.max(), pt.exp(Y)])
    rng = np.random.default_rng(0)
    for one, other in [(3, 3), (4, 4), (5, 5), (5, 6), (70, 6), (4, 4), (0, 70)]:
        arguments = [rng.normal(size=one if v is X else other) for v in inputs]
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert f.stats.fallbacks == 1
    assert len(f.explain().sizes) == 2


def test_a_further_length_changes_later() -> None:
    inputs, f, reference = functions([(X**2).sum() * Y.max(), pt.exp(Y)])
    rng = np.random.default_rng(0)
    for one, other in [(3, 7), (4, 7), (5, 7), (5, 8), (6, 9), (3, 7)]:
        arguments = [rng.normal(size=one if v is X else other) for v in inputs]
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert f.stats.dynamic_sizes == 2
    assert f.stats.fallbacks == 0


def test_a_size_stays_data_beside_a_length_that_cannot_be() -> None:
    """The eigenvalues of a matrix need its length, after results have been cut to `n` entries."""
    inputs, f, reference = functions(
        [pt.exp(Y), pt.arange(N) + S, pt.linalg.eigvalsh(pt.outer(X, X))]
    )
    rng = np.random.default_rng(0)
    for one, n, other in [(3, 2, 3), (4, 2, 3), (4, 5, 3), (4, 6, 5), (5, 7, 5), (6, 9, 3)]:
        known = {X: rng.normal(size=other), Y: rng.normal(size=one), S: np.array(0.5)}
        arguments = [np.array(n) if v is N else known[v] for v in inputs]
        assert_same(answer(f, arguments), answer(reference, arguments))
    sizes = "; ".join(f.explain().sizes)
    assert "n has become data" in sizes
    assert "the length of x is static" in sizes
    assert f.stats.fallbacks == 0


def test_both_lengths_of_a_matrix() -> None:
    """Each is padded when it changes."""
    f = pytensor.function([M], [M * 2, M.sum(axis=1)], mode=JAXLinker())
    for shape in [(2, 3), (3, 3), (4, 3), (5, 4), (6, 4), (7, 5), (0, 3), (3, 0)]:
        value = np.random.default_rng(0).normal(size=shape)
        double, total = f(value)
        np.testing.assert_allclose(double, value * 2)
        np.testing.assert_allclose(total, value.sum(axis=1))
    assert f.stats.padded.compilations == [1]
    for size in f.explain().sizes:
        assert size.startswith("the length of m")
        assert "is padded" in size


@pytest.mark.parametrize(
    "calls",
    [
        [(5, 2), (6, 3), (70, 4), (5, 65), (9, -2), (8, 0), (5, 2), (2000, 100)],
        [(5, 2), (6, 2), (5, 3), *((length, 1) for length in range(7, 17))],
        [(5, 2), (5, 3), (6, 2), (7, 4), (5, 1), (8, 9)],
    ],
)
def test_lengths_and_values_change_together(calls: Any) -> None:
    inputs, f, reference = functions([(Y[:N] ** 2).sum(), Y * 2])
    rng = np.random.default_rng(0)
    for length, n in calls:
        arguments = [rng.normal(size=length) if v is Y else np.array(n) for v in inputs]
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert f.stats.host_regions == f.stats.padded.host_regions == 0
    assert f.stats.padded.compilations[0] <= 4


def test_states() -> None:
    total, data = pytensor.shared(0.0), pytensor.shared(np.arange(3.0))
    updates = {total: total + (Y * data).sum(), data: data + Y}
    f = pytensor.function([Y], Y * 2, updates=updates, mode=JAXLinker())
    expected, held = 0.0, np.arange(3.0)
    for length in (3, 3, 4, 4, 70, 5):
        if length != len(held):
            held = np.arange(float(length))
            data.set_value(held)
        y = np.linspace(0, 1, length)
        np.testing.assert_allclose(f(y), y * 2)
        expected, held = expected + (y * held).sum(), held + y
        np.testing.assert_allclose(total.get_value(), expected)
        np.testing.assert_allclose(data.get_value(), held)
    with pytest.raises(ValueError, match=r"."):
        f(np.ones(9))
    np.testing.assert_allclose(data.get_value(), held)
    np.testing.assert_allclose(total.get_value(), expected)


def test_a_length_that_comes_often_has_its_own_program() -> None:
    f = pytensor.function([Y], (Y**2).sum(), mode=JAXLinker())
    for length in (3, 4, 5):
        f(np.ones(length))
    for _ in range(100):
        assert float(f(np.ones(6))) == 6.0
    assert f.stats.compilations == [2]
    assert f.stats.padded_calls < 50
    assert f.stats.calls == 103


def test_arrays_of_jax() -> None:
    f = pytensor.function([Y], [pt.exp(Y), Y.sum()], mode=JAXLinker())
    for length in (3, 4, 70):
        y = jnp.arange(float(length))
        double, total = f(y)
        np.testing.assert_allclose(double, np.exp(y))
        assert float(total) == y.sum()
        assert isinstance(double, jax.Array)
    assert f.stats.padded_calls == 2


def test_compiled_ahead() -> None:
    f = pytensor.function([Y], (Y**2).sum(), mode=JAXLinker())
    f.warmup([(np.ones(n),) for n in (3, 4, 5, 2000)], progress=lambda done: None)
    f.compile(jax.ShapeDtypeStruct((6,), "float64"))
    assert (f.stats.compilations, f.stats.padded.compilations) == ([1], [2])
    for length in (3, 4, 5, 6, 2000):
        assert float(f(np.ones(length))) == length
    assert (f.stats.compilations, f.stats.padded.compilations) == ([1], [2])


@pytest.mark.parametrize("layer", ["graph", "compiled"])
def test_saved(layer: Any, tmp_path: Path) -> None:
    f = pytensor.function([Y], [pt.exp(Y), Y.sum()], mode=JAXLinker())
    for length in (3, 4):
        f(np.ones(length))
    save(f, tmp_path / "f")
    g = load(tmp_path / "f", prefer=layer)
    for length in (3, 1, 5, 70):
        y = np.linspace(0, 1, length)
        np.testing.assert_allclose(g(y)[0], np.exp(y))
        np.testing.assert_allclose(g(y)[1], y.sum())


def test_copies() -> None:
    f = pytensor.function([Y], (Y**2).sum(), mode=JAXLinker())
    for length in (3, 4):
        f(np.ones(length))
    for g in (f.copy(), pickle.loads(pickle.dumps(f))):
        assert [float(g(np.ones(n))) for n in (3, 4, 5)] == [3.0, 4.0, 5.0]
        assert (g.stats.compilations, g.stats.padded_calls) == ([1], 2)


def test_the_start_up_cache_keeps_lengths_up_to_the_limit(tmp_path: Path) -> None:
    mode = JAXLinker(cache_dir=tmp_path, recompile_limit=2)
    for status in ("miss", "hit"):
        f = pytensor.function([Y], (Y**2).sum(), mode=mode)
        assert [float(f(np.ones(n))) for n in (2, 3, 4, 5)] == [2.0, 3.0, 4.0, 5.0]
        assert f.stats.start_up_cache == status
        assert f.stats.host_regions == 0
        assert f.stats.padded_calls == 2


def test_a_log_says_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="pytensor_jaxlink"):
        f = pytensor.function([Y], Y.sum(), mode=JAXLinker())
        f(np.ones(2)), f(np.ones(3))
    assert any("the length of y is padded" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("read", [False, True], ids=["not read", "returned"])
def test_a_state_that_is_replaced(read: bool) -> None:
    state = pytensor.shared(np.zeros(2), "state")
    f = pytensor.function([X], [X.sum(), *[state] * read], updates={state: X}, mode="JAXSELECTIVE")
    before = np.zeros(2)
    for length in (2, 3, 9, 2):
        x = np.random.default_rng(length).normal(size=length)
        found = f(x)
        np.testing.assert_allclose(found[0], x.sum())
        if read:
            np.testing.assert_array_equal(found[1], before)
        np.testing.assert_array_equal(state.get_value(), x)
        before = x


def nested_loops() -> Any:
    def row_sum(row: Any) -> Any:
        zero = pt.zeros((), dtype="float64")
        kept = {"sequences": [row], "outputs_info": [zero], "return_updates": False}
        return pytensor.scan(lambda entry, total: total * 0.5 + pt.exp(entry), **kept).sum()

    return pytensor.scan(row_sum, sequences=[M], return_updates=False)


@pytest.mark.filterwarnings("ignore")
def test_loops_that_have_run_in_python() -> None:
    """PyTensor 3.0 rewrites the graph of a loop in place when it runs."""
    index = pt.lscalar("index")
    f = pytensor.function([M, index], nested_loops()[index], mode="JAXSELECTIVE")
    f(np.ones((2, 3)), 1)
    with pytest.raises(IndexError):
        f(np.ones((2, 3)), 5)
    reference = pytensor.function([M, index], nested_loops()[index], mode=PYTHON)
    for shape in [(3, 3), (4, 2), (1, 5), (70, 3)]:
        m = np.random.default_rng(0).normal(size=shape)
        np.testing.assert_allclose(f(m, 0), reference(m, 0), rtol=1e-10)
    assert not f.explain().failures, f.explain()


@pytest.mark.parametrize("checks", ["raise", "ignore"])
@pytest.mark.parametrize("dtype", ["uint64", "int64", "int8"])
def test_places_of_unsigned_integers_count_from_the_end(dtype: str, checks: Any) -> None:
    places, value = pt.vector("places", dtype=dtype), pt.exp(S)
    outputs = [X[places], pt.set_subtensor(X[places], value), pt.inc_subtensor(X[places], value)]
    f = pytensor.function([X, places, S], outputs, mode=JAXLinker(checks=checks))
    plain = pytensor.function([X, places, S], outputs, mode=PYTHON)
    for given, length in (([0, 1, 1], 2), ([-1, -2, 1], 2), ([-1, -1], 2), ([-1, -3], 3)):
        arguments = np.arange(1.0, length + 1), np.array(given).astype(dtype), 0.7
        assert_same(f(*arguments), plain(*arguments))
    assert f.stats.fallbacks == 0


def test_inner_graphs_that_pytensor_has_run() -> None:
    """PyTensor 3.0 leaves operations in place in graphs that another function has, too."""
    a, b = pt.dmatrix("a"), pt.dmatrix("b")
    output = pt.linalg.solve_discrete_lyapunov(a, b, method="bilinear")
    plain = pytensor.function([a, b], output, mode=PYTHON)
    expected = [plain(np.eye(n) / 2, np.eye(n)) for n in (2, 3, 5)]
    f = pytensor.function([a, b], output, mode="JAXSELECTIVE")
    for n, value in zip((2, 3, 5), expected, strict=True):
        assert_same(f(np.eye(n) / 2, np.eye(n)), value)


OF_A_FEW: dict[str, Any] = {
    "outer product": lambda x: pt.outer(x[:6], x[:6]),
    "from a place on": lambda x: pt.outer(x[2:6], x[2:6]),
    "diagonal": lambda x: pt.diag(x[:6])[:2, :9],
    "Kronecker product": lambda x: pt.linalg.kron(pt.diag(x[:6])[:2], pt.diag(x[:6])[:, :2]),
    "gradient": lambda x: pytensor.grad((pt.outer(x[:6], x[:6]) ** 2).sum(), x)[:7],
    "set": lambda x: pt.outer(pt.set_subtensor(x[:3], x[1:4] * 2)[:6], x[:6]),
    "beside the rest": lambda x: pt.outer(x[:6], x[:6]).sum() + x.sum() + pt.cumsum(x)[:6],
    "slices of slices": lambda x: pt.outer(x[:9][1:5], x[:3]),
}


@pytest.mark.parametrize("name", OF_A_FEW)
def test_a_few_entries_of_a_long_array_stay_a_few(name: str) -> None:
    """The padded program computes as much for them as for short arrays."""
    x = pt.dvector("x")
    f, reference = compile_both([x], OF_A_FEW[name](x))
    for length in (9, 12, 7, 2500, 10, 4, 1):
        given = np.arange(float(length)) + 1
        found, expected = outcome(f, given), outcome(reference, given)
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    padded = f.vm.compiled.changing._padded
    assert padded is None or padded.executor.entries < 200_000


def test_a_long_argument_is_not_padded_where_that_computes_far_too_much() -> None:
    """The last entries of an argument may be anywhere in a bucket, so their product is large."""
    x = pt.dvector("x")
    f = pytensor.function([x], pt.outer(x[-3:], x[-3:]), mode="JAXSELECTIVE")
    for length in (5, 7, 100_000, 9, 100_001):
        given = np.arange(float(length))
        np.testing.assert_array_equal(f(given), np.outer(given[-3:], given[-3:]))
    assert f.stats.padded_calls > 0
    assert f.vm.compiled.changing._padded.executor.entries < 1 << 24
