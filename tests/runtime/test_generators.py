"""Generators stay the one source of truth for random draws."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import warnings
import weakref
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import random_generator_type

from pytensor_jaxlink.generators import generator_of_key, held_key, key_of_generator, take_place
from tests.helpers import PYTHON

WORDS = st.integers(0, 2**32 - 1)


@given(st.tuples(WORDS, WORDS))
def test_a_key_survives_the_way_through_a_generator(words: tuple[int, int]) -> None:
    key = np.array(words, dtype=np.uint32)
    np.testing.assert_array_equal(key_of_generator(generator_of_key(key)), key)


@pytest.mark.parametrize(
    "bits",
    [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64],
)
def test_every_bit_generator(bits: type[np.random.BitGenerator]) -> None:
    first, again, other = (key_of_generator(np.random.Generator(bits(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.tolist() != other.tolist()
    advanced = np.random.Generator(bits(1))
    advanced.integers(2, dtype=np.uint64)
    advanced.random()
    assert key_of_generator(advanced).tolist() != first.tolist()


def draws_of(rng: pytensor.compile.SharedVariable) -> tuple:
    following, draw = pt.random.normal(rng=rng, size=(4,)).owner.outputs
    return pytensor.function([], draw, updates={rng: following}, mode="JAXSELECTIVE"), draw


def test_updates_advance_and_setting_reseeds() -> None:
    rng = pytensor.shared(np.random.default_rng(1), "rng")
    f, _ = draws_of(rng)
    first, second = np.asarray(f()), np.asarray(f())
    assert not np.array_equal(first, second)
    assert isinstance(rng.get_value(), np.random.Generator)
    rng.set_value(np.random.default_rng(1))
    np.testing.assert_array_equal(f(), first)
    np.testing.assert_array_equal(f(), second)


def test_the_pure_function_takes_generators_and_keys_under_jit() -> None:
    rng = pytensor.shared(np.random.default_rng(1), "rng")
    f, _ = draws_of(rng)
    value = rng.get_value()
    key = key_of_generator(value)
    expected = np.asarray(f())
    jitted = jax.jit(f.jax_fn)
    for form in (value, key, jax.random.wrap_key_data(key), {"jax_state": key}):
        draw, following = jitted(form)
        np.testing.assert_array_equal(draw, expected)
        np.testing.assert_array_equal(following, key_of_generator(rng.get_value()))


def test_a_dictionary_is_no_generator() -> None:
    """PyTensor's type takes one, and no draw does."""
    rng = random_generator_type("rng")
    state = np.random.default_rng(1).bit_generator.state
    for mode in (PYTHON, "JAXSELECTIVE"):
        with pytest.raises(AttributeError):
            pytensor.function([rng], pt.random.normal(rng=rng), mode=mode)(state)


def test_functions_that_share_a_generator_do_not_repeat_each_other() -> None:
    rng = pytensor.shared(np.random.default_rng(1), "rng")
    (f, _), (g, _) = draws_of(rng), draws_of(rng)
    assert not set(np.asarray(f()).tolist()) & set(np.asarray(g()).tolist())


KEY = np.array([7, 11], dtype=np.uint32)


class TestTheStateIsMadeWhenSomebodyLooks:
    """Between two calls of our functions the generator is nothing but a key."""

    def test_calls_do_not_look(self) -> None:
        rng = pytensor.shared(np.random.default_rng(1), "rng")
        f, _ = draws_of(rng)
        draws = [np.asarray(f()) for _ in range(4)]
        [generator] = rng.container.storage
        assert isinstance(held_key(generator), jax.Array)
        assert len(np.unique(draws)) == 16
        rng.set_value(rng.get_value())  # a state that is made goes on alike
        expected = np.asarray(f())
        rng.set_value(generator)
        np.testing.assert_array_equal(f(), expected)

    def test_a_key_on_a_chosen_device_is_not_kept_there(self) -> None:
        rng, x = pytensor.shared(np.random.default_rng(1)), pt.dvector("x")
        following, draw = pt.random.normal(x, rng=rng).owner.outputs
        f = pytensor.function([x], draw, updates={rng: following}, mode="JAXSELECTIVE")
        x_there = jax.device_put(np.zeros(2), jax.devices()[0])
        assert f(x_there).committed
        assert isinstance(held_key(rng.container.storage[0]), np.ndarray)

    @pytest.mark.parametrize(
        "copied",
        [copy, deepcopy, lambda g: pickle.loads(pickle.dumps(g))],
        ids=["copy", "deepcopy", "pickle"],
    )
    @pytest.mark.parametrize("looked", [False, True])
    def test_copies_are_those_of_numpy(self, copied: Callable[[Any], Any], looked: bool) -> None:
        generator, same = generator_of_key(KEY), generator_of_key(KEY)
        if looked:
            generator.normal()
            same.normal()
        found = copied(generator)
        assert type(found) is np.random.Generator
        assert found.bit_generator.state == same.bit_generator.state
        assert found.normal() == same.normal()

    def test_looking_draws_and_draws_change_the_key(self) -> None:
        rng = pytensor.shared(np.random.default_rng(1), "rng")
        f, _ = draws_of(rng)
        f()
        following = np.asarray(jax.jit(f.jax_fn)(rng.get_value())[0])
        borrowed = rng.get_value(borrow=True)
        assert borrowed.normal() != borrowed.normal()
        assert held_key(borrowed) is None
        assert not np.array_equal(f(), following)

    def test_functions_of_other_modes_draw_on(self) -> None:
        rng = pytensor.shared(np.random.default_rng(1), "rng")
        f, draw = draws_of(rng)
        following = draw.owner.outputs[0]
        other = pytensor.function([], draw, updates={rng: following}, mode="FAST_COMPILE")
        draws = [np.asarray(g()) for g in (f, other, other, f, f, other)]
        assert len(np.unique(draws)) == 24

    def test_a_pytree_has_the_key(self) -> None:
        generator = generator_of_key(KEY)
        [leaf], kind = jax.tree_util.tree_flatten(generator)
        np.testing.assert_array_equal(leaf, KEY)
        np.testing.assert_array_equal(key_of_generator(kind.unflatten([leaf])), KEY)

    def test_it_shows_itself(self) -> None:
        for show in (repr, str):
            assert "PCG64" in show(generator_of_key(KEY))


class CoinsRV(RandomVariable):
    """A distribution that only its author knows."""

    name = "coins"
    signature = "()->()"
    dtype = "int64"

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, count: np.ndarray, size: object) -> np.ndarray:
        return np.asarray(rng.integers(count + 1, size=size))


def test_a_sampler_that_jax_lacks_runs_on_the_host() -> None:
    rng = pytensor.shared(np.random.default_rng(1), "rng")
    draws = CoinsRV().make_node(rng, (300,), 4).outputs[1] * 2
    f = pytensor.function([], draws, mode="JAXSELECTIVE")
    assert f.explain().graph_break_count == 1
    values = np.asarray(f())
    np.testing.assert_array_equal(values, f())
    np.testing.assert_array_equal(values, np.random.default_rng(1).integers(5, size=300) * 2)


class SpawningRV(RandomVariable):
    name, signature, dtype = "spawning", "()->()", "floatX"

    @classmethod
    def rng_fn(cls, rng: Any, loc: Any, size: Any = None) -> Any:
        return rng.spawn(1)[0].normal(loc, size=size)


def test_generators_that_are_spawned_differ() -> None:
    found = set()
    for seed in (1, 2):
        rng = pytensor.shared(np.random.default_rng(seed))
        following, first = pt.random.normal(rng=rng).owner.outputs
        last, second = SpawningRV().make_node(following, None, 0.0).outputs
        f = pytensor.function([], [first, second], updates={rng: last}, mode="JAXSELECTIVE")
        found |= {float(f()[1]) for _ in range(3)}
    assert len(found) == 6


def test_a_generator_as_input_and_output() -> None:
    rng = pt.random.type.random_generator_type("rng")
    following, draw = pt.random.normal(rng=rng, size=(4,)).owner.outputs
    f = pytensor.function([rng], [draw, following], mode="JAXSELECTIVE")
    given = np.random.Generator(np.random.Philox(3))
    before = str(given.bit_generator.state)
    first, after = f(given)
    second, _ = f(after)
    assert isinstance(after, np.random.Generator)
    assert str(given.bit_generator.state) == before  # the caller's generator is left alone
    np.testing.assert_array_equal(f(given)[0], first)
    assert not np.array_equal(first, second)


def test_a_constant_generator_is_returned_as_it_is() -> None:
    rng = pytensor.shared(np.random.default_rng(3), "rng")
    f = pytensor.function([], rng, mode="JAXSELECTIVE")
    found = f()
    assert found is not rng.get_value(borrow=True)
    assert found.bit_generator.state == np.random.default_rng(3).bit_generator.state


class Pending:
    """A key that is being computed, as JAX gives it; the computation may fail."""

    shape, dtype = (2,), np.dtype("uint32")

    def __init__(self, key: Any, *, fails: bool = False) -> None:
        self.key, self.fails, self.ready = key, fails, False

    def is_ready(self) -> bool:
        return self.ready

    def block_until_ready(self) -> Pending:
        self.ready = True
        if self.fails:
            raise RuntimeError("the device fails")
        return self

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return np.asarray(self.block_until_ready().key)


def following(old: np.random.Generator, key: Any) -> np.random.Generator:
    new = generator_of_key(key)
    take_place(old, new)
    return new


class TestNobodyWaitsForAKey:
    """The next call begins without it."""

    def test_it_is_not_waited_for(self) -> None:
        key = Pending(KEY)
        generator = following(generator_of_key(KEY + 1), key)
        assert held_key(generator) is key
        assert not key.ready
        assert generator.normal() == generator_of_key(KEY).normal()

    @pytest.mark.parametrize("is_key", [False, True])
    def test_a_failure_leaves_the_generator_as_it_was(self, is_key: bool) -> None:
        def first() -> np.random.Generator:
            return generator_of_key(KEY) if is_key else np.random.default_rng(1)

        expected = key_of_generator(first())
        keys = [Pending(KEY + n, fails=True) for n in range(3)]
        generator = first()
        for key in keys:  # what comes of a failed key fails too
            generator = following(generator, key)
        assert held_key(generator) is keys[-1]
        keys[-1].ready = True
        np.testing.assert_array_equal(held_key(generator), expected)
        generator = following(following(first(), Pending(KEY + 1)), keys[1])
        np.testing.assert_array_equal(key_of_generator(generator), KEY + 1)

    def test_after_many_calls_the_first_generators_are_let_go_of(self) -> None:
        rng = pytensor.shared(np.random.default_rng(1), "rng")
        f, _ = draws_of(rng)
        f()
        first = weakref.ref(rng.container.storage[0])
        draws = [f() for _ in range(300)]
        assert first() is None
        assert len(np.unique(np.asarray(draws))) == 1200

    @pytest.mark.cpu("no forked process reads the memory of a GPU")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_child_has_the_key(self) -> None:
        rng, x = pytensor.shared(np.random.default_rng(1), "rng"), pt.dmatrix("x")
        after, draw = pt.random.normal((x @ x @ x).sum(), rng=rng).owner.outputs
        f = pytensor.function([x], draw, updates={rng: after}, mode="JAXSELECTIVE")
        f(np.eye(1000))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python and JAX warn of forks
            context = multiprocessing.get_context("fork")
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=lambda: there.send(rng.get_value().normal()))
            process.start()
        assert here.poll(60)
        assert here.recv() == rng.get_value().normal()
        process.join()
