"""Profiles: a profiled call gives what any call gives, and its time is all accounted for."""

from __future__ import annotations

import gc
import gzip
import json
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.raise_op import Assert
from scipy.sparse import csr_matrix

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, jaxify, load, profile, save
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.runtime import profiling
from tests.helpers import black_box, sort_down
from tests.runtime.test_donation import HUGE, LARGE

X, M, N, S = pt.dvector("x"), pt.dmatrix("rows"), pt.lscalar("n"), pt.dscalar("s")
sort = black_box(sort_down)
A = np.array([3.0, -1.0, 2.0])


def function(inputs: Any, outputs: Any, updates: Any = None, /, **options: Any) -> Any:
    mode, unused = JAXLinker(**options), {"on_unused_input": "ignore"}
    return pytensor.function(inputs, outputs, updates=updates, mode=mode, **unused)


def failing(values: np.ndarray) -> np.ndarray:
    if (values < 0).any():
        raise ZeroDivisionError("of the user's")
    return values


def counting(**options: Any) -> Any:
    state = pytensor.shared(np.zeros(3), "state")
    updates = {state: sort(state) + X}
    return function([X], (state * X).sum(), updates, **options)


def drawing() -> Any:
    generator = pytensor.shared(np.random.default_rng(3), "generator")
    new, draw = pt.random.normal(S, 1.0, rng=generator, size=(3,)).owner.outputs
    return function([S], [draw, sort(draw)], {generator: new})


def decaying(size: int, inner: Any = lambda x: x, **options: Any) -> Any:
    state = pytensor.shared(np.linspace(0, 1, size), "state")
    return function([In(X, mutable=True)], inner(X)[0] + state[0], {state: state * X[0]}, **options)


def loop() -> Any:
    states = pytensor.scan(
        lambda row, state: sort(state) + row,
        sequences=[M],
        outputs_info=[pt.zeros(3)],
        return_updates=False,
    )
    return function([M], states)


def beyond_the_limit(**options: Any) -> Any:
    return function([X], sort(pt.exp(X)).sum(), recompile_limit=2, dynamic=False, **options)


def matrices() -> Any:
    given = ps.csr_matrix("m", dtype="float64")
    return function([given, S], [given * S, ps.structured_dot(given, pt.ones((3, 2)))])


def loaded(make: Callable[[], Any], folder: Path) -> Any:
    f = make()
    f(A)
    save(f, folder / "f.jaxlink")
    return load(folder / "f.jaxlink", allow=("tests",))


CASES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "one region": (lambda: function([X], pt.exp(X).sum()), [(A,), (A + 1,), ([1, 2],), (A,)]),
    "no step": (lambda: function([X], [X, pt.constant(2.0)]), [(A,), (A,)]),
    "no output": (lambda: function([X], []), [(A,), (A,)]),
    "host steps": (lambda: function([X], pt.exp(sort(pt.tanh(X)))), [(A,), (A + 1,)]),
    "twice the same": (lambda: function([X, S], sort(X * 2) + X * S), [(A, 2.0), (A, 3)]),
    "large arguments": (
        lambda: function([X], sort(pt.exp(X)).sum() + X.sum()),
        [(np.linspace(0, 1, LARGE),), (np.linspace(0, 2, LARGE),)],
    ),
    "sizes": (lambda: function([X, N], X[N // 2 :: -2] * N), [(A, 2), (A, 6), (A, 4), (A, 5)]),
    "a size for each value": (
        lambda: function([X, N], X[: N // 2] * N, dynamic=False),
        [(A, 2), (A, 6), (A, 2)],
    ),
    "fetched": (lambda: function([X], X[: X.argmax() + 1] * 2), [(A,), (-A,), (A,)]),
    "loop": (loop, [(np.ones((4, 3)),), (np.ones((4, 3)),), (np.ones((2, 3)),)]),
    "branch": (
        lambda: function([X], ifelse(pt.gt(X.sum(), 0), sort(pt.exp(X)), sort(X))),
        [(A,), (-A,), (A,)],
    ),
    "updates": (counting, [(A,), (A,), (A + 1,)]),
    "as NumPy": (lambda: counting(outputs="numpy"), [(A,), (A,)]),
    "one region as NumPy": (
        lambda: function([X], pt.exp(X), outputs="numpy"),
        [(A,), (np.ones(LARGE),)],
    ),
    "drawn": (drawing, [(1.0,), (2.0,), (0.0,)]),
    "donated": (lambda: decaying(LARGE), [(A,), (A,), (A,)]),
    "donated after a host step": (lambda: decaying(HUGE, sort), [(A,), (A,), (A,)]),
    "donated arguments": (lambda: decaying(LARGE, donate="all"), [(A,), (np.ones(LARGE),)]),
    "padded": (
        lambda: function([X], [pt.exp(X), X.sum()], buckets=[4, 8]),
        [(np.ones(n),) for n in (3, 2, 4, 7, 7, 3, 9)],
    ),
    "padded around a host step": (
        lambda: function([X], [sort(pt.exp(X)) * 2]),
        [(np.ones(n),) for n in (3, 2, 4, 7, 70)],
    ),
    "beyond the limit": (beyond_the_limit, [(np.ones(n),) for n in (2, 3, 4, 5, 2, 4)]),
    "beyond the limit, compiled": (
        partial(beyond_the_limit, on_recompile_limit="compile"),
        [(np.ones(n),) for n in (2, 3, 4, 5, 2, 4)],
    ),
    "a size and the limit": (
        lambda: function([X, N], pt.exp(X[:N] * 2).sum(), recompile_limit=2),
        [(np.ones(9), n) for n in (2, 3, 4, 5, 2, 4)],
    ),
    "sparse": (matrices, [(csr_matrix(np.eye(3)), 2.0), (csr_matrix(np.eye(3)), 3.0)]),
    "callback": (
        lambda: function([X], pt.exp(sort(pt.tanh(X.reshape((3,))))), host_ops="callback"),
        [(A,), (A,)],
    ),
    "not compiled": (
        lambda: function([X, N], [pt.exp(X[:N]), X.reshape((N, -1)).sum(0)], jit=False),
        [(A, 1), (A, 3), (A, 2)],
    ),
    "host step that fails": (
        lambda: function([X], pt.exp(black_box(failing)(pt.tanh(X)))),
        [(abs(A),), (A,), (abs(A),)],
    ),
    "callback that fails": (
        lambda: function([X], pt.exp(black_box(failing)(X.reshape((3,)))), host_ops="callback"),
        [(abs(A),), (A,), (abs(A),)],
    ),
    "check": (
        lambda: function([X], Assert("negative")(pt.exp(X), (X >= -2).all())),
        [(A,), (A - 5,), (A,)],
    ),
    "index": (lambda: function([X, N], sort(X) * X[N]), [(A, 1), (A, 7), (A, 2)]),
    "wrong arguments": (
        lambda: function([X], pt.exp(X)),
        [(A,), ("three",), (np.ones((2, 2)),), (), (A, A), (A,)],
    ),
    "wrong shapes": (lambda: function([X, S], pt.exp(X) + sort(X)[:2]), [(A, 1.0), (A[:2], 1)]),
}


def outcome(f: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        found = f(*arguments)
    except Exception as error:
        return type(error), str(error)
    return jax.tree.map(value_of, found)


def value_of(leaf: Any) -> Any:
    array = np.asarray(leaf.toarray() if hasattr(leaf, "toarray") else leaf)
    return type(leaf), array.dtype, array.shape, array.tobytes()


def counters(f: Any) -> dict[str, Any]:
    found = asdict(f.stats)
    # Of two functions of equal graphs the second runs the code of the first.
    return {name: found[name] for name in found.keys() - {"padded", "signatures", "equal_code"}}


def states(f: Any) -> Any:
    shared = [spec.variable for spec in f.maker.inputs if isinstance(spec.variable, SharedVariable)]
    values = [variable.get_value() for variable in shared]
    return [v.bit_generator.state if hasattr(v, "bit_generator") else value_of(v) for v in values]


def seconds(found: Any) -> float:
    return sum(row.seconds for row in found.rows)


def all_accounted_for(found: Any) -> bool:
    """The times of the rows are those of the calls, without the clocks' own."""
    calls = [event.time / 1e9 for event in found._times.events if event.row.kind == "call"]
    least = min(row.seconds for row in found.rows)
    return len(calls) == found.calls and least >= 0 and 0 < seconds(found) <= sum(calls) * 1.001


CALLED_BEFORE = (
    "one region",
    "large arguments",
    "sizes",
    "loop",
    "updates",
    "drawn",
    "donated",
    "donated after a host step",
    "padded",
)


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize(
    ("name", "before"), [*((name, 0) for name in CASES), *((name, 1) for name in CALLED_BEFORE)]
)
def test_a_profiled_call_gives_the_same(name: str, before: int) -> None:
    make, calls = CASES[name]
    f, reference = make(), make()
    for arguments in calls[:before]:
        assert outcome(f, arguments) == outcome(reference, arguments)
    with profile(f) as found:
        for arguments in calls:
            assert outcome(f, arguments) == outcome(reference, arguments)
            assert states(f) == states(reference)
    assert found.calls == len(calls)
    assert all_accounted_for(found)
    assert counters(f) == counters(reference)
    shown = str(found), found._repr_html_()
    for arguments in calls[:2]:  # as before
        assert outcome(f, arguments) == outcome(reference, arguments)
    assert counters(f) == counters(reference)
    assert (str(found), found._repr_html_()) == shown
    assert type(f) is type(reference)
    assert vars(f).keys() == vars(reference).keys()


# -- what a profile says ---------------------------------------------------------------------------


def run(f: Any, *arguments: Any, calls: int = 3) -> Any:
    f(*arguments)  # compiles
    with profile(f) as found:
        for _ in range(calls):
            f(*arguments)
    assert all_accounted_for(found)
    return found


def table(found: Any) -> list[tuple[str, int, int]]:
    return [(row.name, row.depth, row.runs) for row in found.rows]


def line_of(source: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    [number] = [k for k, line in enumerate(lines, start=1) if line.strip() == source]
    return f"{__file__}:{number}"


def test_rows_are_named_as_in_the_explanation() -> None:
    f = function([X], pt.exp(sort(pt.tanh(X))))
    found = run(f, A)
    assert table(found) == [
        ("region 0: 1 operation", 0, 3),
        ("wait for region 0", 0, 3),
        ("transfer to host tanh(x)", 0, 3),
        ("host step sort_down(tanh(x))", 0, 3),
        ("region 1: 1 operation", 0, 3),
        ("wait for region 1", 0, 3),
        ("outputs", 0, 3),
        ("between the steps", 0, 3),
    ]
    names = {f"{box.kind} {box.title}" for box in f.explain().sketch.boxes}
    assert names <= {row.name for row in found.rows}
    where = line_of("f = function([X], pt.exp(sort(pt.tanh(X))))")
    assert {row.where for row in found.rows} == {"", where}
    assert found.rows[0].where == found.rows[3].where == where
    assert [row.bytes for row in found.rows] == [72, 0, 72, 0, 72, 0, 0, 0]
    assert f.stats.bytes_to_host == 4 * 24  # the first call was not profiled


def test_the_user_line_of_a_fetch() -> None:
    f = function([X], X[: X.argmax() + 1, None] * X)
    [row] = [row for row in run(f, A).rows if row.name.startswith("transfer to host")]
    assert row.where == line_of("f = function([X], X[: X.argmax() + 1, None] * X)")


def test_the_steps_of_a_loop_are_inside_of_it() -> None:
    found = run(loop(), np.ones((4, 3)), calls=2)
    rows = {(name, depth): count for name, depth, count in table(found)}
    [title] = [name for name, depth, _ in table(found) if name.startswith("loop ") and not depth]
    assert rows[title, 0] == 2
    assert rows["host step sort_down(input 1)", 1] == rows["region 1: 1 operation", 1] == 8
    depths = [row.depth for row in found.rows]
    place = [row.name for row in found.rows].index(title)
    assert set(depths[place + 1 : place + 5]) == {1}
    assert set(depths[:place] + depths[-3:]) == {0}
    text = str(found).splitlines()
    assert any(line.startswith("  region 1: 1 operation ") for line in text)


def test_loops_in_loops() -> None:
    def outer(row: Any, state: Any) -> Any:
        inner = pytensor.scan(
            lambda s: sort(s) / 2, outputs_info=[row + state], n_steps=2, return_updates=False
        )
        return inner[-1]

    states = pytensor.scan(outer, sequences=[M], outputs_info=[pt.zeros(3)], return_updates=False)
    found = run(function([M], states), np.ones((4, 3)), calls=1)
    assert max(row.depth for row in found.rows) == 2
    assert ("host step sort_down(input 0)", 2, 8) in table(found)


@pytest.mark.cpu("a GPU takes longer for transfers than for these products")
def test_what_takes_the_time() -> None:
    """A host step that sleeps, and a region that computes for long."""
    from time import sleep

    def slow(values: np.ndarray) -> np.ndarray:
        sleep(0.02)
        return values

    f = function([M], black_box(slow)((M @ M @ M @ M @ M @ M).sum(0)))
    rows = run(f, jax.device_put(np.ones((400, 400)))).rows
    times = {row.name: row.seconds for row in rows}
    host = next(name for name in times if name.startswith("host step"))
    computed = times["wait for region 0"] + times[rows[0].name]
    assert times[host] >= 0.06
    assert sum(times.values()) - times[host] - computed < computed


def test_large_arguments_are_transferred_on_their_own() -> None:
    f = function([X], sort(pt.exp(X)).sum() + X.sum())
    x = np.ones(LARGE)
    moved = {row.name: row.bytes for row in run(f, x).rows if row.bytes}
    assert moved == {
        "transfer to device an argument": 3 * x.nbytes,
        "transfer to host exp(x)": 3 * x.nbytes,
        "transfer to device sort_down(exp(x))": 3 * x.nbytes,
    }
    g = function([X], pt.exp(X).sum())
    assert {r.name: r.bytes for r in run(g, x).rows if r.bytes} == {
        "transfer to device x": 3 * x.nbytes
    }
    assert not [row for row in run(g, jax.device_put(x)).rows if row.bytes]


def test_results_as_numpy_are_transfers() -> None:
    for make in (CASES["one region as NumPy"][0], CASES["as NumPy"][0]):
        names = [row.name for row in run(make(), A).rows]
        assert any(name.startswith("transfer to host ") for name in names)


def test_compilations_and_what_pytensor_finishes_have_their_own_rows() -> None:
    f = function([X, N], sort(X) * X[N])
    with profile(f) as found:
        f(A, 1)
        with pytest.raises(IndexError):
            f(A, 7)
    [compiled] = [row for row in found.rows if row.name.startswith("compilation of region 0: ")]
    assert compiled.runs == 1  # a false condition needs no program of the slow path
    assert {row.name: row.runs for row in found.rows}["PyTensor's own implementation"] == 1
    g = beyond_the_limit()
    with profile(g) as found:
        for n in (2, 3):
            g(np.ones(n))
        with pytest.warns(JAXLinkWarning, match="recompile_limit"):
            g(np.ones(4))
        g(np.ones(5))
    counts = {row.name: row.runs for row in found.rows}
    assert counts["on the host: region 0: 1 operation"] == 2


def test_padding_has_rows() -> None:
    f = function([X], pt.exp(X))
    for n in (3, 2, 5):
        f(np.ones(n))
    names = [row.name for row in run(f, np.ones(5)).rows]
    assert "padding arguments" in names
    assert [name for name in names if name.startswith("cut exp(x)[")]


def test_many_threads() -> None:
    f, reference = (g for g in (CASES["host steps"][0](), CASES["host steps"][0]()))
    arguments = [np.random.default_rng(seed).normal(size=3) for seed in range(40)]
    f(A)
    with profile(f) as found, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(f, arguments))
    np.testing.assert_allclose(results, [reference(x) for x in arguments])
    assert all_accounted_for(found)
    assert {row.runs for row in found.rows} == {40}


def test_threads_that_call_while_profiles_begin_and_end() -> None:
    f, reference = CASES["sizes"][0](), CASES["sizes"][0]()
    calls = [(A, n) for n in (2, 4, 6)] * 60
    expected = {n: outcome(reference, (A, n)) for n in (2, 4, 6)}
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(outcome, f, arguments) for arguments in calls]
        while not results[-1].done():
            with profile(f):
                f(A, 2)
    assert [each.result() for each in results] == [expected[n] for _, n in calls]
    assert type(f) is type(reference)
    assert vars(f).keys() == vars(reference).keys()
    before = events_of(reference, A, 2)
    assert events_of(f, A, 2) == before


# -- several at once -------------------------------------------------------------------------------


def test_profiles_of_one_function_may_overlap() -> None:
    f = function([X], pt.exp(X))
    kind = type(f)
    f(A)
    one, two = profile(f), profile(f)
    first = one.__enter__()
    f(A)
    second = two.__enter__()
    f(A)
    one.__exit__(None, None, None)
    f(A)
    assert type(f) is not kind
    two.__exit__(None, None, None)
    f(A)
    assert type(f) is kind
    assert (first.calls, second.calls) == (2, 2)


def test_a_block_that_fails_ends_the_profile() -> None:
    f = function([X], pt.exp(X))
    found = []

    def block() -> None:
        with profile(f) as one:
            found.append(one)
            f(A)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    f(A)
    assert found[0].calls == 1
    assert "_recorder" not in vars(f)


def test_a_function_that_calls_another() -> None:
    inner = function([X], pt.exp(X))
    f = function([X], black_box(lambda x: np.asarray(inner(x)))(X) * 2)
    with profile(f) as one, profile(inner) as two:
        f(A)
    assert (one.calls, two.calls) == (1, 1)
    assert seconds(one) > seconds(two)


def test_no_calls() -> None:
    f = function([X], pt.exp(X))
    with profile(f) as found:
        pass
    assert (found.calls, found.rows, str(found)) == (0, (), "function: 0 calls")
    assert "function: 0 calls" in found._repr_html_()


@pytest.mark.parametrize("other", [len, jaxify([X], pt.exp(X)), None])
def test_other_functions(other: Any) -> None:
    with pytest.raises(TypeError, match=r"not .*\[PJL905\]$"), profile(other):
        pass


# -- nothing for those that are not profiled -------------------------------------------------------


def events_of(f: Any, *arguments: Any) -> list[tuple[str, str]]:
    """The Python and C functions that a warm call runs."""
    import sys

    found = []

    def note(frame: Any, event: str, what: Any) -> None:
        found.append((event, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        f(*arguments)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.cpu("calls that wait for a GPU do not all execute the same bytecode")
@pytest.mark.parametrize("name", ["one region", "host steps", "updates", "donated", "as NumPy"])
def test_a_function_that_was_profiled_runs_as_before(name: str) -> None:
    f = CASES[name][0]()
    for _ in range(3):
        f(A)
    before = events_of(f, A)
    with profile(f):
        f(A)
        assert len(events_of(f, A)) > len(before)
    f(A)
    assert events_of(f, A) == before


# -- what people do meanwhile ----------------------------------------------------------------------


def test_a_profiled_function_is_explained_compiled_copied_saved_and_pickled(tmp_path: Path) -> None:
    state = pytensor.shared(np.zeros(3), "state")
    f = function([X], (state * X).sum(), {state: pt.unique(state + X)})
    with profile(f) as found:
        f.compile(A)
        f.warmup([(A,)])
        assert f.explain().graph_count == 1
        save(f, tmp_path / "f.jaxlink")
        others = [f.copy(), pickle.loads(pickle.dumps(f)), load(tmp_path / "f.jaxlink")]
        for other in others:
            assert "_recorder" not in vars(other)
        f(A)
        assert f.jax_fn(A, np.ones(3))[0] == A.sum()
    assert found.calls == 1


def test_keywords() -> None:
    f = function([X, N], X[:N])
    with profile(f) as found:
        np.testing.assert_array_equal(f(n=2, x=A), A[:2])
        np.testing.assert_array_equal(f(A, n=2), A[:2])
    assert found.calls == 2


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
@pytest.mark.parametrize("name", ["one region", "host steps"])
def test_values_that_jax_traces(name: str, transform: Any) -> None:
    f, reference = CASES[name][0](), CASES[name][0]()
    x = np.ones((2, 3)) if transform is jax.vmap else A
    f(A), reference(A)
    with profile(f):
        found = outcome(transform(lambda x: f(x).sum()), (x,))
    expected = outcome(transform(lambda x: reference(x).sum()), (x,))
    assert found[0] == expected[0]  # messages of JAX have the line of the function
    assert name == "host steps" or found == expected


def test_an_interrupt() -> None:
    def interrupted(values: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    f = function([X], pt.exp(black_box(interrupted)(X)))
    with profile(f) as found:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                f(A)
    assert found.calls == 2
    assert not vars(f).keys() & {"_recorder"}


@pytest.mark.parametrize("name", ["one region", "host steps"])
def test_a_profile_holds_no_array(name: str) -> None:
    f = CASES[name][0]()
    with profile(f) as found:
        argument = jax.device_put(A)
        answer = f(argument)
        held = [weakref.ref(argument), weakref.ref(answer)]
        del argument, answer
        gc.collect()
        assert [each() for each in held] == [None, None]
    assert found.calls == 1


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["host steps", "updates", "as NumPy", "one region", "check"])
def test_loaded_functions(name: str, tmp_path: Path) -> None:
    make, calls = CASES[name]
    calls = [arguments for arguments in calls if isinstance(arguments[0], np.ndarray)]
    f, reference = (loaded(make, tmp_path) for _ in range(2))
    with profile(f) as found:
        for arguments in calls:
            assert outcome(f, arguments) == outcome(reference, arguments)
    assert found.calls == len(calls)
    assert all_accounted_for(found)
    assert counters(f) == counters(reference)
    assert [row.name for row in found.rows if row.name.startswith("region 0: ")]
    for one, other in zip(f.state, reference.state, strict=True):
        np.testing.assert_array_equal(one.get_value(), other.get_value())
    assert type(f) is type(reference)


def test_a_loaded_function_of_trees(tmp_path: Path) -> None:
    save(lambda tree: {"sum": tree["x"] + 1}, tmp_path / "f.jaxlink", examples=[({"x": A},)])
    f = load(tmp_path / "f.jaxlink")
    with profile(f) as found:
        for _ in range(2):
            np.testing.assert_array_equal(f({"x": A})["sum"], A + 1)
    assert found.calls == 2
    assert all_accounted_for(found)


def test_a_function_out_of_the_start_up_cache(tmp_path: Path) -> None:
    for _ in range(2):
        f = function([X], X[: pt.exp(X).argmax() + 1] * 2, cache_dir=tmp_path)
        f(A)
    assert f.stats.start_up_cache == "hit"
    names = [row.name for row in run(f, A).rows]
    assert [name for name in names if name.startswith("region 0: ")]
    assert [name for name in names if name.startswith("transfer to host ")]


# -- the forms of a profile ------------------------------------------------------------------------


class _Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html() -> None:
    x = pt.dvector("<x>&")
    f = pytensor.function([x], pt.exp(sort(pt.tanh(x))), mode="JAXSELECTIVE", name="a<b>")
    found = run(f, A)
    parser = _Balanced()
    parser.feed(found._repr_html_())
    parser.close()
    assert not parser.open
    assert "host step sort_down(tanh(<x>&))" in parser.texts
    assert parser.texts[0].startswith("a<b>: 3 calls, ")
    assert [text in parser.texts for text in ("share", "line", "between the steps")]


def check_trace_events(events: Any) -> None:
    """By the rules of the Trace Event Format for events "X" and "M"."""
    by_thread: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] == "process_name"
            assert isinstance(event["args"]["name"], str)
            continue
        assert event["ph"] == "X"
        assert isinstance(event["cat"], str)
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        spans = by_thread.setdefault((event["pid"], event["tid"]), [])
        spans.append((event["ts"], event["ts"] + event["dur"]))
    for spans in by_thread.values():  # those of a thread are one after another, or inside
        open_until: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def test_a_trace(tmp_path: Path) -> None:
    f = loop()
    with profile(f) as found, ThreadPoolExecutor(3) as pool:
        list(pool.map(f, [np.ones((4, 3))] * 12))
    found.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    check_trace_events(trace["traceEvents"])
    runs = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(runs) == sum(row.runs for row in found.rows)
    assert {event["name"] for event in runs} >= {"call", "region 1: 1 operation"}
    [line] = {e["args"]["line"] for e in runs if e["name"].startswith("host step")}
    assert line.startswith(f"{__file__}:")
    threads = {e["tid"] for e in runs}
    assert threads == {*range(len(threads))}
    assert [e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"] == ["function"]


def test_steps_stand_in_the_traces_of_jax(tmp_path: Path) -> None:
    f = CASES["host steps"][0]()
    f(A)
    with jax.profiler.trace(tmp_path, create_perfetto_trace=True), profile(f) as found:
        f(A)
    [written] = tmp_path.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
    names = {row.name for row in found.rows} - {"outputs", "between the steps"}
    assert names <= {event.get("name") for event in events}


def test_a_long_trace_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_EVENTS", 10)
    f = CASES["host steps"][0]()
    with profile(f) as found:
        for _ in range(5):
            f(A)
    found.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 10
    assert found.calls == 5
