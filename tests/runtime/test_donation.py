"""Memory is reused where nothing can be lost by it, and nothing is lost where a call fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.raise_op import Assert

from pytensor_jaxlink import DonatedArgumentError, JAXLinker
from tests.helpers import black_box

LARGE = 200_000  # entries of float64: more than a megabyte
X, FACTOR = pt.dvector("x"), pt.dscalar("factor")


def state(seed: int = 0) -> Any:
    return pytensor.shared(np.random.default_rng(seed).normal(size=LARGE))


def decay(shared: Any, **options: Any) -> Any:
    return pytensor.function(
        [FACTOR], shared.sum(), updates=[(shared, shared * FACTOR)], mode=JAXLinker(**options)
    )


def test_a_state_is_updated_in_its_own_memory() -> None:
    shared = state()
    f, expected = decay(shared), shared.get_value()
    for _ in range(4):
        np.testing.assert_allclose(f(0.5), expected.sum())
        expected = expected * 0.5
    np.testing.assert_array_equal(shared.get_value(), expected)
    assert f.stats.donated_bytes == 3 * expected.nbytes  # the first was NumPy's
    assert f.donate_argnums == (1,)


@pytest.mark.parametrize("donate", ["none", "updates"])
def test_what_somebody_holds_stays(donate: str) -> None:
    shared = state()
    f = decay(shared, donate=donate)
    f(0.5)
    held = shared.get_value(borrow=True)
    before = np.array(held)
    f(0.5)
    np.testing.assert_array_equal(held, before)
    assert f.stats.donated_bytes == 0
    assert f.donate_argnums == (() if donate == "none" else (1,))


def test_small_states_are_copied() -> None:
    shared = pytensor.shared(np.ones(10))
    f = decay(shared)
    for _ in range(3):
        f(0.5)
    assert f.stats.donated_bytes == 0
    np.testing.assert_array_equal(shared.get_value(), 0.125)


def test_two_states_with_one_buffer() -> None:
    value = jnp.arange(float(LARGE))
    one, other = (pytensor.shared(np.zeros(1)) for _ in range(2))
    for shared in (one, other):
        shared.set_value(value, borrow=True)
    f = pytensor.function([], [], updates=[(one, one + 1), (other, one * 2)], mode="JAXSELECTIVE")
    f()
    f()
    np.testing.assert_array_equal(value, np.arange(LARGE))
    np.testing.assert_array_equal(one.get_value(), np.arange(LARGE) + 2)
    np.testing.assert_array_equal(other.get_value(), 2 * (np.arange(LARGE) + 1))


def test_two_states_change_places() -> None:
    one, other = state(1), state(2)
    first, second = one.get_value(), other.get_value()
    f = pytensor.function([], [], updates=[(one, other * 1.0), (other, one)], mode="JAXSELECTIVE")
    for _ in range(3):
        f()
    np.testing.assert_array_equal(one.get_value(), second)
    np.testing.assert_array_equal(other.get_value(), first)


def test_a_state_that_changes_its_shape() -> None:
    shared = state()
    f = pytensor.function([], [], updates=[(shared, shared[1:] * 2)], mode="JAXSELECTIVE")
    expected = shared.get_value()
    for _ in range(3):
        f()
        expected = expected[1:] * 2
    np.testing.assert_array_equal(shared.get_value(), expected)


class TestGivenArrays:
    def test_all(self) -> None:
        y = pt.dvector("y")
        f = pytensor.function([X, y], X + y, mode=JAXLinker(donate="all"))
        one, other = jnp.ones(5), jnp.ones(5)
        assert f.donate_argnums == (0, 1)
        np.testing.assert_array_equal(f(one, other), 2)
        assert one.is_deleted() or other.is_deleted()
        gone = one if one.is_deleted() else other
        with pytest.raises(DonatedArgumentError, match=r"'[xy]' .* call 1 of a function"):
            f(gone, jnp.ones(5))

    def test_one_that_is_declared_mutable(self) -> None:
        y = pt.dvector("y")
        f = pytensor.function([In(X, mutable=True), y], X + y, mode="JAXSELECTIVE")
        one, other = jnp.ones(5), jnp.ones(5)
        f(one, other)
        assert f.donate_argnums == (0,)
        assert one.is_deleted()
        assert not other.is_deleted()

    @pytest.mark.parametrize("donate", ["all", "updates", "warn", "none"])
    def test_one_array_for_two_inputs(self, donate: str) -> None:
        y = pt.dvector("y")
        f = pytensor.function([In(X, mutable=True), y], X * y, mode=JAXLinker(donate=donate))
        for value in (np.arange(3.0), jnp.arange(3.0)):
            np.testing.assert_array_equal(f(value, value), [0, 1, 4])
            np.testing.assert_array_equal(value, [0, 1, 2])

    def test_what_could_not_be_given_back_is_kept(self) -> None:
        out = Assert("positive")(X * 2, pt.gt(X, 0).all())
        f = pytensor.function([X], out, mode=JAXLinker(donate="all"))
        value = jnp.array([1.0, -1.0])
        with pytest.raises(AssertionError, match="positive"):
            f(value)
        np.testing.assert_array_equal(value, [1, -1])

    def test_a_buffer_that_cannot_be_used(self) -> None:
        f = pytensor.function([X], X.sum(), mode=JAXLinker(donate="all"))
        f(jnp.ones(5))  # no warning: warnings are errors here
        f = pytensor.function([X], X.sum(), mode=JAXLinker(donate="warn"))
        with pytest.warns(UserWarning, match="donated buffers were not usable"):
            f(jnp.ones(5))


class TestFaults:
    """Whatever fails, each shared variable has the bits that it had."""

    def bits(self, *shared: Any) -> list[bytes]:
        return [np.asarray(variable.get_value(borrow=True)).tobytes() for variable in shared]

    def test_a_condition(self) -> None:
        one, other = state(1), state(2)
        checked = Assert("small factor, please")(one * FACTOR, FACTOR < 1)
        f = pytensor.function(
            [FACTOR], [], updates=[(one, checked), (other, other + one)], mode="JAXSELECTIVE"
        )
        for _ in range(2):
            f(0.5)
        before, donated = self.bits(one, other), f.stats.donated_bytes
        assert donated > 0
        for _ in range(8):
            with pytest.raises(AssertionError, match="small factor"):
                f(2.0)
            assert self.bits(one, other) == before
        assert f.stats.donated_bytes > donated  # tried, and given back
        donated = f.stats.donated_bytes
        f(0.5)  # the tracebacks may still hold the values
        f(0.5)
        assert f.stats.donated_bytes > donated  # failures do not end it

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
    @pytest.mark.parametrize("place", ["first", "between", "last"])
    def test_a_host_step(self, error: type[BaseException], place: str) -> None:
        one, other = state(1), state(2)
        fails = False

        def step(values: np.ndarray) -> np.ndarray:
            if fails:
                raise error("now")
            return values + 1

        box = black_box(step)
        new = {
            "first": lambda: (pt.tanh(box(X)).sum() + one, other * 2),
            "between": lambda: (one * 0.5, other + pt.exp(box(pt.tanh(one)).mean())),
            "last": lambda: (one * 0.5, box(other * one)),
        }[place]()
        f = pytensor.function(
            [X],
            [],
            updates=list(zip((one, other), new, strict=True)),
            mode="JAXSELECTIVE",
            on_unused_input="ignore",
        )
        for _ in range(2):
            f(np.ones(3))
        before, fails = self.bits(one, other), True
        with pytest.raises(error):
            f(np.ones(3))
        assert self.bits(one, other) == before
        fails = False
        f(np.ones(3))

    def test_interrupts_while_memory_is_reused(self) -> None:
        shared = state()
        f = pytensor.function([], [], updates=[(shared, shared + 1)], mode="JAXSELECTIVE")
        shared.set_value(np.zeros(LARGE))
        for _ in range(3):
            f()
        # A shell starts its background jobs with this signal ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self._interrupt_twenty_times(f, shared)
        finally:
            signal.signal(signal.SIGINT, before)

    @staticmethod
    def _interrupt_twenty_times(f: Any, shared: Any) -> None:
        for trial in range(20):
            timer = threading.Timer(0.0005 * trial, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 -- wherever it arrives
                timer.start()
                while True:
                    f()
            value = shared.get_value()
            assert (value == value[0]).all()

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of the address space")
    def test_exhausted_memory(self) -> None:
        program = """
import resource
import numpy as np, pytensor, pytensor.tensor as pt
import pytensor_jaxlink

n = pt.lscalar("n")
s = pytensor.shared(np.arange(200_000.0))
mode = pytensor_jaxlink.JAXLinker(recompile_limit=50)
f = pytensor.function([], [], updates=[(s, s + 1)], mode=mode)
big = pytensor.function(
    [], pt.sort(pt.outer(s, s[:20_000]).ravel())[0], updates=[(s, s * 2)], mode=mode
)
for _ in range(3):
    f()
before = np.array(s.get_value())
soft = 16 << 30
resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        big()
    except Exception as error:
        print(type(error).__name__)
    assert np.asarray(s.get_value()).tobytes() == before.tobytes()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
f()
np.testing.assert_array_equal(s.get_value(), before + 1)
print("whole")
"""
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert run.stdout.split()[-1:] == ["whole"], run.stderr
        assert len(run.stdout.split()) == 3


def test_many_threads() -> None:
    f = pytensor.function([X, FACTOR], (X * FACTOR).sum(), mode="JAXSELECTIVE")
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(625):
            x, factor = rng.normal(size=20), float(rng.normal())
            if not np.isclose(f(x, factor), (x * factor).sum()):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert jax.config.jax_enable_x64


def test_what_donates_is_compiled_ahead_of_the_calls_too() -> None:
    shared = state()
    f = decay(shared).compile(np.float64(0.5))
    compiled = f.stats.compilations
    for _ in range(3):
        f(0.5)
    assert f.stats.compilations == compiled
    assert f.stats.donated_bytes == 2 * shared.get_value(borrow=True).nbytes
