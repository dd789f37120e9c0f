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
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.runtime import WORTH_A_REGION, Donatable
from pytensor_jaxlink.runtime.codegen import FunctionSource
from pytensor_jaxlink.runtime.reuse import Reuse
from tests.helpers import black_box, sort_down

LARGE = 200_000  # entries of float64: more than a megabyte
HUGE = 3 * LARGE  # more than four
X, FACTOR = pt.dvector("x"), pt.dscalar("factor")


def state(seed: int = 0, size: int = LARGE) -> Any:
    return pytensor.shared(np.random.default_rng(seed).normal(size=size))


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
    held = shared.get_value(borrow=True, return_internal_type=True)
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


def test_a_state_grows_and_shrinks() -> None:
    one, other = pytensor.shared(np.ones(10)), pytensor.shared(np.ones(10))
    updates = {one: one * FACTOR, other: other + one.sum()}
    f = pytensor.function([FACTOR], other.sum(), updates=updates, mode=JAXLinker(dynamic=False))
    sizes = [(10, 10), (LARGE, 10), (10, LARGE), (LARGE, LARGE), (10, 10)]
    for lengths in sizes:
        for shared, length in zip((one, other), lengths, strict=True):
            shared.set_value(np.ones(length))
        expected = [np.ones(length) for length in lengths]
        before = f.stats.donated_bytes
        for _ in range(4):
            np.testing.assert_allclose(f(0.5), expected[1].sum())
            expected = [expected[0] * 0.5, expected[1] + expected[0].sum()]
        for shared, value in zip((one, other), expected, strict=True):
            np.testing.assert_allclose(shared.get_value(), value)
        large = sum(value.nbytes for value in expected if len(value) == LARGE)
        assert f.stats.donated_bytes - before in (3 * large, 4 * large)


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


class TestSeveralSteps:
    """The last region of a plan reuses memory; where a host step comes last, it has one more."""

    def donated(
        self, new: Any, outputs: Any = (), inputs: Any = (X,), call: Any = None, size: int = LARGE
    ) -> Any:
        """Of each of four calls the states donated, and the function, which was right."""
        states = state(1, size), state(2, size)
        updates = list(zip(states, new(*states), strict=False))
        outputs = outputs(*states) if callable(outputs) else list(outputs)
        f, reference = (
            pytensor.function(
                list(inputs), outputs, updates=updates, mode=mode, on_unused_input="ignore"
            )
            for mode in ("JAXSELECTIVE", "FAST_COMPILE")
        )
        call = call or (np.arange(3.0),)
        before, counts, found = [each.get_value() for each in states], [], []
        for _ in range(4):
            already = f.stats.donated_bytes
            found.append(f(*call))
            counts.append((f.stats.donated_bytes - already) / (8 * size))
        after = [np.array(each.get_value()) for each in states]
        for each, value in zip(states, before, strict=True):
            each.set_value(value)
        for results in found:
            for one, other in zip(results, reference(*call), strict=True):
                np.testing.assert_allclose(one, other)
        for each, value in zip(states, after, strict=True):
            np.testing.assert_allclose(value, each.get_value())
        assert f.stats.direct == 4
        return counts

    BOX = staticmethod(black_box(lambda values: values + 1))

    def test_host_step_then_region(self) -> None:
        assert self.donated(lambda s, t: [s * 0.5 + self.BOX(X).mean()]) == [0, 1, 1, 1]

    def test_regions_that_read_the_state(self) -> None:
        def new(s: Any, t: Any) -> Any:
            return [s * 0.5, t + pt.exp(self.BOX(pt.tanh(s[:9])).mean())]

        assert self.donated(new) == [1, 2, 2, 2]  # what several regions take has been moved

    def test_what_the_host_looked_at_is_copied_by_jax(self) -> None:
        kept: list[np.ndarray] = []
        keep = black_box(lambda values: kept.append(values) or values[:1])
        s = state()
        f = pytensor.function([], [], updates=[(s, s * 0.5 + keep(s).mean())], mode="JAXSELECTIVE")
        copies = []
        for _ in range(3):
            f()
            copies.append(kept[-1].copy())
        for one, other in zip(kept, copies, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_after_the_last_host_step(self) -> None:
        found = self.donated(
            lambda s, t: [s * 0.5], lambda s, t: [self.BOX(pt.tanh(s[:4]))], size=HUGE
        )
        assert found == [1] * 4

    def test_copied_after_the_last_host_step_where_that_is_faster(self) -> None:
        found = self.donated(lambda s, t: [s * 0.5], lambda s, t: [self.BOX(pt.tanh(s[:4]))])
        assert found == [0] * 4

    def test_nothing_where_the_last_host_step_reads_the_new_state(self) -> None:
        found = self.donated(lambda s, t: [s * 0.5], lambda s, t: [self.BOX(s * 0.5)], size=HUGE)
        assert found == [0] * 4

    def host_executed(self, x: Any) -> Any:
        """A loop that is executed by the host."""
        return pytensor.scan(
            lambda a: self.BOX(pt.sin(a)) / 2, outputs_info=[x], n_steps=3, return_updates=False
        )[-1]

    def test_loop_then_region(self) -> None:
        assert self.donated(lambda s, t: [s * 0.5 + self.host_executed(X).mean()]) == [0, 1, 1, 1]

    def test_after_the_last_loop(self) -> None:
        found = self.donated(
            lambda s, t: [s * 0.5], lambda s, t: [self.host_executed(pt.tanh(s[:4]))], size=HUGE
        )
        assert found == [1] * 4

    def test_a_state_that_the_host_chooses(self) -> None:
        def new(s: Any, t: Any) -> Any:
            chosen = ifelse(pt.exp(X).sum() > 1, self.BOX(X) * 2, X)
            return [s * chosen.mean(), t + 1]

        assert self.donated(new) == [0, 2, 2, 2]

    def test_not_what_is_returned(self) -> None:
        found = self.donated(lambda s, t: [s * 0.5 + self.BOX(X).mean(), t * 2], lambda s, t: [s])
        assert found == [0, 1, 1, 1]

    def test_not_what_another_state_becomes(self) -> None:
        assert self.donated(lambda s, t: [s + self.BOX(X).sum(), s]) == [0] * 4

    def test_a_state_that_the_host_computes(self) -> None:
        assert self.donated(lambda s, t: [s + self.BOX(X).sum(), self.BOX(t)]) == [0, 1, 1, 1]

    def test_a_state_that_is_not_read(self) -> None:
        found = self.donated(lambda s, t: [s + self.BOX(X).sum(), s * 2])
        assert found == [0, 2, 2, 2]

    def test_static_sizes(self) -> None:
        n = pt.lscalar("n")
        found = self.donated(
            lambda s, t: [(s.reshape((n, -1)) * 0.5).ravel()], (), [n], [np.array(4)]
        )
        assert found == [0, 1, 1, 1]

    def test_static_sizes_that_change(self) -> None:
        n, s = pt.lscalar("n"), state()
        expected = s.get_value()
        f = pytensor.function(
            [n],
            [],
            updates=[(s, (s.reshape((n, -1)) + 1).ravel())],
            mode=JAXLinker(dynamic=False),
        )
        for k in (2, 4, 2, 4, 8):
            f(k)
        np.testing.assert_allclose(s.get_value(), expected + 5)
        assert f.stats.donated_bytes == 4 * 8 * LARGE

    def test_an_argument(self) -> None:
        f = pytensor.function(
            [In(X, mutable=True)], X + self.BOX(pt.tanh(X)).sum(), mode="JAXSELECTIVE"
        )
        given, value = jnp.arange(5.0), np.arange(5.0)
        expected = value + (np.tanh(value) + 1).sum()
        np.testing.assert_allclose(f(given), expected)
        assert given.is_deleted()
        with pytest.raises(DonatedArgumentError, match=r"'x' .* call 1 of a function"):
            f(given)
        np.testing.assert_allclose(f(value), expected)
        np.testing.assert_array_equal(value, np.arange(5.0))

    def test_states_where_an_argument_could_not_be_given_back(self) -> None:
        s = state()
        new = Assert("positive")(s * self.BOX(X)[0], pt.gt(X, 0).all())
        f = pytensor.function([X], [], updates=[(s, new)], mode=JAXLinker(donate="all"))
        for _ in range(3):
            given = jnp.ones(3)
            f(given)
            assert not given.is_deleted()
        assert f.stats.donated_bytes == 2 * 8 * LARGE

    def test_constants(self) -> None:
        table = np.random.default_rng(0).normal(size=LARGE)
        assert self.donated(lambda s, t: [s + table * self.BOX(X).sum()]) == [0, 1, 1, 1]

    def test_numbers_of_python(self) -> None:
        s = state()
        new = s + self.BOX(X * FACTOR).sum()
        f = pytensor.function([X, FACTOR], [], updates=[(s, new)], mode="JAXSELECTIVE")
        for _ in range(3):
            f(np.ones(3), 0.5)
        assert f.stats.direct == 3
        assert f.stats.donated_bytes == 2 * 8 * LARGE

    def test_compiled_ahead_and_not_stored(self) -> None:
        s = state()
        before = s.get_value()
        f = pytensor.function([X], [], updates=[(s, s + self.BOX(X).sum())], mode="JAXSELECTIVE")
        f.compile(np.ones(3))
        np.testing.assert_array_equal(s.get_value(), before)
        compiled = list(f.stats.compilations)
        for _ in range(3):
            f(np.ones(3))
        assert f.stats.compilations == compiled
        assert f.stats.donated_bytes == 2 * 8 * LARGE


@pytest.mark.parametrize("steps", [False, True])
def test_without_64_bit_types(steps: bool) -> None:
    x = pt.fvector("x")
    box = black_box(lambda values: values + 1, "float32") if steps else lambda values: values + 1
    s = pytensor.shared(np.zeros(2 * LARGE, "float32"))
    with jax.enable_x64(False):
        f = pytensor.function([x], [], updates=[(s, s + box(x)[0])], mode="JAXSELECTIVE")
        f.compile(np.ones(3, "float32"))
        for _ in range(3):
            f(np.ones(3, "float32"))
    np.testing.assert_array_equal(s.get_value(), 6)
    assert f.stats.direct == 3
    assert f.stats.donated_bytes == 2 * 8 * LARGE


def test_the_source_holds_on_to_nothing_that_it_donates() -> None:
    s = pytensor.shared(np.ones(3))
    box = black_box(lambda values: values)
    f = pytensor.function(
        [X], box(X), updates=[(s, s * pt.exp(box(pt.tanh(X))))], mode="JAXSELECTIVE"
    )
    donatable = Donatable(["x", "s"], {1: (1, [None])}, frozenset(), show_unusable=False)
    reuse = Reuse.at_the_end(f.plan, donatable)
    assert (
        str(FunctionSource(f.plan, kept=[1], leaving=[0], reuse=reuse))
        == """\
def run(a0):
    a1 = kept1()
    a0 = converted(0, a0)
    h0 = host(a0, 0)
    h6,  = step0(h0)
    (a2, ), c0 = region0(a0)
    h2 = host(a2, 2)
    try:
        h3,  = step2(h2)
    except Exception as error:
        end_if_false(error, *c0, )
        raise
    stats.host_steps += 2
    if not all_hold(*c0, ):
        return Result(None, (False, ))
    o0 = leave0(h6)
    static, values, new = (), [a1, sent(h3)], []
    del a0, a1, h0, h6, a2, h2, h3
    (a5, ), c1, stored = donating(static, values, new)
    return Result([o0, a5], c1, stored)"""
    )


@pytest.mark.parametrize(
    ("options", "regions"), [({}, 2), ({"donate": "none"}, 1), ({"outputs": "numpy"}, 1)]
)
def test_no_region_is_opened_for_what_is_not_donated(options: Any, regions: int) -> None:
    x, state = pt.dvector("x"), pytensor.shared(np.zeros(WORTH_A_REGION // 8))
    last = black_box(sort_down)(pt.exp(x))
    updates = {state: state * 0.5 + x.sum()}
    f = pytensor.function([x], last, updates=updates, mode=JAXLinker(**options))
    assert len(f.plan.own_regions) == regions
