"""Memory is reused where nothing can be lost by it, and nothing is lost where a call fails."""

from __future__ import annotations

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
