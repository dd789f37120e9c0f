"""A child forked after JAX has run: right values by PyTensor's own implementation, and no hang."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.sparse import csr_matrix, structured_dot

from pytensor_jaxlink import ForkedProcessError, JAXLinker, JAXLinkWarning, jaxify, load, save
from tests.corpus.graphs import CORPUS, INPUTS, values
from tests.helpers import as_list, black_box, sort_down

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # JAX and Python say that forking is a bad idea, which is why there are these tests.
    pytest.mark.filterwarnings("ignore:.*fork"),
]

SECONDS = 60.0
X, A = pt.dvector("x"), pt.dmatrix("a")


@pytest.fixture(autouse=True, scope="module")
def _jax_has_run() -> None:
    jnp.ones(3).block_until_ready()


def in_child(function: Callable[[], Any]) -> Any:
    """The result of a function in a forked child; a hang is an error, and so is an exception."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = True, function()
        except BaseException as error:
            found = False, f"{type(error).__name__}: {error}"
        with os.fdopen(sending, "wb") as file:
            pickle.dump(found, file)
        os._exit(0)
    os.close(sending)
    try:
        ready, _, _ = select.select([receiving], [], [], SECONDS)
        assert ready, "the child hangs"
        with os.fdopen(receiving, "rb") as file:
            succeeded, found = pickle.load(file)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert succeeded, found
    return found


def error_in_child(function: Callable[[], Any], kind: type[Exception]) -> str:
    """The message of the error that a function raises in a forked child."""

    def message() -> str:
        with pytest.raises(kind) as raised:
            function()
        return str(raised.value)

    return in_child(message)


def several_regions() -> Any:
    return [X], [pt.exp(black_box(sort_down)(pt.tanh(X))).sum(), X[X > 1]], [np.arange(3.0)]


def sizes() -> Any:
    n = pt.lscalar("n")
    return [n, X], [(pt.arange(n) * X).sum(), pt.alloc(X[0], n)], [3, np.arange(3.0)]


def host_executed() -> Any:
    states = pytensor.scan(
        lambda state: pt.exp(black_box(sort_down)(pt.sin(state))),
        outputs_info=[X],
        n_steps=2,
        return_updates=False,
    )
    return [X], [states], [np.arange(3.0)]


def gradient_of_a_loop() -> Any:
    states = pytensor.scan(
        lambda state: pt.sin(state) * 2, outputs_info=[X], n_steps=4, return_updates=False
    )
    return [X], [pt.grad(states[-1].sum(), X), states], [np.arange(3.0)]


def large_constant() -> Any:
    return [X], [X + pt.constant(np.arange(3000.0)), X.sum()], [np.ones(3000)]


def sparse() -> Any:
    from scipy.sparse import csr_matrix as matrix

    a, b = csr_matrix("a", dtype="float64"), pt.dmatrix("b")
    return [a, b], [structured_dot(a, b)], [matrix(np.eye(3)), np.ones((3, 2))]


KINDS = [several_regions, sizes, host_executed, gradient_of_a_loop, large_constant, sparse]


def check(made: Any, expected: Any) -> None:
    for one, other in zip(made, expected, strict=True):
        assert type(one) is np.ndarray  # JAX's arrays would hang when they are used
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-12)


@pytest.mark.parametrize("outputs", ["jax", "numpy"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_before(kind: Any, outputs: Any) -> None:
    inputs, results, examples = kind()
    f = pytensor.function(inputs, results, mode=JAXLinker(outputs=outputs))
    expected = f(*examples)
    check(in_child(lambda: f(*examples)), expected)
    named = {variable.name: value for variable, value in zip(inputs, examples, strict=True)}
    check(in_child(lambda: f(**named)), expected)
    check(f(*examples) if outputs == "numpy" else map(np.asarray, f(*examples)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_never_called_before(kind: Any) -> None:
    inputs, results, examples = kind()
    f = pytensor.function(inputs, results, mode="JAXSELECTIVE")
    found = in_child(lambda: f(*examples))
    check(found, f(*examples))


@pytest.mark.filterwarnings("ignore")
def test_built_in_the_child() -> None:
    names = list(CORPUS)[::6]

    def run() -> Any:
        found = []
        for name in names:
            outputs = CORPUS[name][1]()
            f = pytensor.function(INPUTS, outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
            found.append(as_list(f(*values(1))))
        return found

    for name, found in zip(names, in_child(run), strict=True):
        outputs = CORPUS[name][1]()
        f = pytensor.function(INPUTS, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
        for one, other in zip(found, as_list(f(*values(1))), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, err_msg=name)


@pytest.mark.cpu("no forked process reads the memory of a GPU")
def test_states() -> None:
    total = pytensor.shared(np.zeros(3), name="total")
    large = pytensor.shared(np.zeros(200_000), name="large")  # its memory is donated
    rng = pytensor.shared(np.random.default_rng(1), name="rng")
    following, draw = pt.random.normal(size=(3,), rng=rng).owner.outputs
    updates = {total: total + X, large: large + X.sum(), rng: following}
    f = pytensor.function([X], [total.sum(), draw], updates=updates, mode="JAXSELECTIVE")
    for _ in range(2):
        f(np.ones(3))
    assert isinstance(total.container.storage[0], jax.Array)

    def run() -> Any:
        held = total.get_value()  # a copy, which JAX would make by a program
        first, one = f(np.ones(3))
        second, other = f(x=np.ones(3))
        assert not np.array_equal(one, other)
        return held, first, second, total.get_value(), large.get_value()[:2]

    held, first, second, now, start = in_child(run)
    np.testing.assert_array_equal(held, [2, 2, 2])
    assert (first, second) == (6, 9)
    np.testing.assert_array_equal(now, [4, 4, 4])
    np.testing.assert_array_equal(start, [12, 12])
    np.testing.assert_array_equal(total.get_value(), [2, 2, 2])  # the parent's is its own


@pytest.mark.cpu("no forked process reads the memory of a GPU")
def test_arrays_of_the_parent_as_arguments() -> None:
    given = jnp.arange(3.0)
    f = pytensor.function([X], [pt.exp(X).sum(), X], mode="JAXSELECTIVE")
    expected = f(given)
    check(in_child(lambda: f(given)), expected)
    check(in_child(lambda: f(x=given)), expected)


@pytest.mark.cpu("no forked process reads the memory of a GPU")
def test_an_array_that_the_parent_still_computes() -> None:
    """Nobody will ever compute it in the child."""
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 10_000, lambda _, y: jnp.sin(y @ y), x))
    square = jnp.ones((100, 100))
    slow.lower(square).compile()
    f = pytensor.function([A], A.sum(), mode="JAXSELECTIVE")
    state = pytensor.shared(np.zeros((100, 100)), name="state")
    g = pytensor.function([], state.sum(), mode="JAXSELECTIVE")
    h = pytensor.function([], state.sum(), mode="FAST_COMPILE")
    late = state.container.storage[0] = slow(square)
    for call in (lambda: f(late), g, h, state.get_value):
        assert not late.is_ready()
        assert "still being computed" in error_in_child(call, ForkedProcessError)
    np.testing.assert_allclose(f(late), g())


def test_errors_are_those_of_pytensor() -> None:
    i = pt.lscalar("i")
    f = pytensor.function([X, i], X[i], mode="JAXSELECTIVE")
    assert f(np.arange(3.0), 1) == 1
    assert "out of bounds" in error_in_child(lambda: f(np.arange(3.0), 7), IndexError)
    error_in_child(lambda: f(np.ones((2, 2)), 1), TypeError)


def test_pure_functions() -> None:
    f = pytensor.function([X], pt.exp(X).sum(), mode="JAXSELECTIVE")
    fn = jaxify([X], pt.exp(X).sum())
    f(np.ones(3))
    jax.jit(fn)(np.ones(3))
    for function in (fn, f.jax_fn):
        for call in (function, jax.jit(function), jax.grad(lambda x, g=function: as_list(g(x))[0])):
            message = error_in_child(lambda call=call: call(np.ones(4)), ForkedProcessError)
            assert '"spawn"' in message
    error_in_child(lambda: f.compile(np.ones(5)), ForkedProcessError)


def test_one_warning() -> None:
    f = pytensor.function([X], pt.exp(X).sum(), mode="JAXSELECTIVE")
    g = pytensor.function([X], pt.tanh(X).sum(), mode="JAXSELECTIVE")

    def run() -> Any:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for function in (f, g, f):
                function(np.ones(3))
        ours = [each for each in said if issubclass(each.category, JAXLinkWarning)]
        assert ours == said
        return [(each.filename, str(each.message)) for each in ours]

    [(file, message)] = in_child(run)
    assert file == __file__
    assert '"spawn"' in message
    assert '"forkserver"' in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(np.ones(3))  # the parent goes on as before


@pytest.mark.cpu("no forked process reads the memory of a GPU")
@pytest.mark.parametrize("layers", [{}, {"graph": False}])
def test_loaded_functions(layers: Any, tmp_path: Path) -> None:
    total = pytensor.shared(np.zeros(3), name="total")
    f = pytensor.function(
        [X], [pt.exp(X).sum(), total], updates={total: total + X}, mode="JAXSELECTIVE"
    )
    expected = f(np.ones(3))
    save(f, tmp_path / "f", **layers)
    loaded = load(tmp_path / "f")
    loaded(np.ones(3))
    again = in_child(lambda: [each.get_value() for each in loaded.state])
    np.testing.assert_array_equal(again, [[2, 2, 2]])

    def run() -> Any:
        first = loaded(np.ones(3))
        return first, loaded(x=np.ones(3)), loaded.state[0].get_value()

    if layers:
        message = error_in_child(run, ForkedProcessError)
        assert "no graph layer" in message
        return
    first, second, state = in_child(run)
    check(first, [expected[0], np.full(3, 2.0)])
    check(second, [expected[0], np.full(3, 3.0)])
    np.testing.assert_array_equal(state, [4, 4, 4])
    check(in_child(lambda: load(tmp_path / "f")(np.ones(3))), [expected[0], np.ones(3)])


def run(script: str, *arguments: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=2 * SECONDS,
        env={**os.environ, "PYTENSOR_FLAGS": "cxx="},
        cwd=Path(__file__).resolve().parents[2],
    )
    return done.stdout


WITHOUT_PYTENSOR = """
import os, signal, sys, warnings
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pytensor":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
warnings.simplefilter("ignore")
import numpy as np
from pytensor_jaxlink import ForkedProcessError, load
f = load(sys.argv[1])
f(np.ones(3))
if os.fork() == 0:
    signal.alarm(60)
    try:
        f(np.ones(3))
    except ForkedProcessError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


def test_loaded_functions_without_pytensor(tmp_path: Path) -> None:
    save(pytensor.function([X], pt.exp(X).sum(), mode="JAXSELECTIVE"), tmp_path / "f")
    printed = run(WITHOUT_PYTENSOR, str(tmp_path / "f"))
    assert printed.startswith("the code of a saved function cannot run")
    assert '"spawn"' in printed


def test_the_start_up_cache(tmp_path: Path) -> None:
    def build() -> Any:
        return pytensor.function([X], pt.exp(X).sum(), mode=JAXLinker(cache_dir=tmp_path))

    expected = [build()(np.ones(3)) for _ in range(2)]
    f = build()
    f(np.ones(3))
    assert f.stats.start_up_cache == "hit"
    check([in_child(lambda: f(np.ones(3)))], expected[:1])
    check([in_child(lambda: build()(np.ones(3)))], expected[:1])


def test_saving_in_the_child(tmp_path: Path) -> None:
    f = pytensor.function([X], pt.exp(X).sum(), mode="JAXSELECTIVE")
    f(np.ones(3))
    in_child(lambda: save(f, tmp_path / "f"))
    assert load(tmp_path / "f")(np.zeros(3)) == 3


CALLED = pytensor.function([X], pt.exp(X).sum(), mode="JAXSELECTIVE")


def called(length: int) -> float:
    return float(CALLED(np.zeros(length)))


@pytest.mark.filterwarnings("ignore")
def test_pool() -> None:
    CALLED(np.zeros(2))
    pool = multiprocessing.get_context("fork").Pool(2)
    try:
        assert pool.map_async(called, range(2, 8)).get(SECONDS) == list(range(2, 8))
    finally:
        pool.terminate()


def test_a_lock_that_another_thread_holds() -> None:
    """It is never released in the child."""
    started = threading.Event()

    def slow(array: Any) -> Any:
        started.set()
        time.sleep(2)
        return array

    f = pytensor.function([X], pt.exp(black_box(slow)(X)).sum(), mode="JAXSELECTIVE")
    thread = threading.Thread(
        target=partial(f.vm.compiled.fall_back, plan=f.plan), args=([np.zeros(3)], None)
    )
    thread.start()
    started.wait(SECONDS)
    assert in_child(lambda: f(np.zeros(3))) == 3
    thread.join()


BEFORE_JAX = """
import os, signal, warnings
warnings.simplefilter("error")
import numpy as np, pytensor, pytensor.tensor as pt
import pytensor_jaxlink
x = pt.dvector("x")
f = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
if os.fork() == 0:
    signal.alarm(60)
    print(f(np.zeros(3)), type(f(np.zeros(3))).__name__, f.stats.fallbacks, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_child_forked_before_jax_has_run_uses_jax() -> None:
    assert run(BEFORE_JAX).split() == ["3.0", "ArrayImpl", "0"]
