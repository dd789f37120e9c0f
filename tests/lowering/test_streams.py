"""Random bits: those of SplitMix64, and keys that never meet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from pytensor_jaxlink.lowering import streams


def test_the_words_are_those_of_splitmix64() -> None:
    """The seed and the words by which its implementations are compared (Rosetta Code)."""
    known = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    with jax.enable_x64(True):
        terms = np.uint64(1234567) + np.arange(1, 6, dtype="uint64") * np.uint64(streams._NEXT)
        assert np.asarray(streams._mixed(jnp.asarray(terms))).tolist() == known


def test_steps_are_odd_and_change_between_their_bits() -> None:
    """In the words of MurmurHash3, of which that of 1 is known."""
    with jax.enable_x64(True):
        seeds = jnp.arange(1, 100_001, dtype="uint64")
        steps = np.asarray(streams._step(seeds))
    assert steps[0] == 0xB456BCFC34C2CB2C | 1
    assert (steps & np.uint64(1)).all()
    assert np.bitwise_count(steps ^ (steps >> np.uint64(1))).min() >= 23
    assert len(np.unique(steps)) >= steps.size - 1


def test_draws_of_following_keys_are_independent() -> None:
    count = 4_000
    with jax.enable_x64(True):
        keys = [jnp.asarray([0, 1], "uint32")]
        following = jax.jit(streams.next_key)
        for _ in range(count - 1):
            keys.append(following(keys[-1]))
        drawn = jax.vmap(lambda key: streams.uniform(key, (50,), np.dtype("float64")))
        table = np.asarray(drawn(jnp.stack(keys)))
    for line in (table[:, 0], table[0], table.ravel()):
        assert stats.kstest(line, stats.uniform.cdf).pvalue > 1e-3
    for one, other in (
        (table[1:], table[:-1]),
        (table[:, 1:], table[:, :-1]),
        (table[1:, 1:], table[:-1, :-1]),
        (table[1:, :-1], table[:-1, 1:]),
    ):
        share = np.corrcoef(one.ravel(), other.ravel())[0, 1] * np.sqrt(one.size)
        assert abs(share) < 4
    cells = np.histogram2d(table[1:].ravel(), table[:-1].ravel(), bins=16)[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-3


def test_keys_are_added_as_numbers_of_64_bits() -> None:
    for number in (0, 1, (1 << 64) - 1, 0xFFFFFFFF, 0x123456789ABCDEF0):
        key = jnp.asarray([number >> 32, number & 0xFFFFFFFF], "uint32")
        high, low = (int(word) for word in streams.next_key(key))
        assert high << 32 | low == (number + streams._NEXT) % (1 << 64)


def test_the_streams_of_draws_do_not_meet() -> None:
    draws, rounds, forks = np.meshgrid(*[np.arange(n, dtype="uint64") for n in (40, 200, 20)])
    steps = (streams._NEXT, streams._ROUND, streams._FORK)
    keys = sum(n * np.uint64(by) for n, by in zip((draws, rounds, forks), steps, strict=True))
    assert len(np.unique(keys)) == keys.size


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (4, 1, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(shape: tuple[int, ...], dtype: str) -> None:
    with jax.enable_x64(True):
        drawn = streams.uniform(jnp.asarray([1, 2], "uint32"), shape, dtype)
    assert (drawn.shape, drawn.dtype) == (shape, dtype)
    assert len(np.unique(drawn)) == drawn.size
    assert ((drawn > 0) & (drawn < 1)).all()


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("width", [1, 6, 1 << 17, 3 << 30, 1 << 33, 3 << 62, 1 << 64])
def test_integers(width: int, bits: int) -> None:
    low = -(1 << (bits - 1))
    width = min(width, 1 << bits)
    high = low + width
    with jax.enable_x64(bits == 64):
        key = jnp.asarray([3, 4], "uint32")
        last = np.asarray(high, "uint64") if high > 0 else high
        drawn = np.asarray(streams.integers(key, (20_000,), low, last))
    assert drawn.dtype == f"int{bits}"
    shares = np.array([(int(each) - low) / width for each in drawn])
    assert ((shares >= 0) & (shares < 1)).all()
    if width > 6:
        assert stats.kstest(shares, stats.uniform.cdf).pvalue > 1e-3
    else:
        assert len(np.unique(drawn)) == width


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        drawn = jax.jit(lambda key: streams.normal(key, (400_000,), np.dtype(dtype)))
        values = np.asarray(drawn(jnp.asarray([5, 6], "uint32")))
    assert (values.dtype, np.isfinite(values).all()) == (dtype, True)
    assert stats.kstest(values, stats.norm.cdf).pvalue > 1e-3
    for bound in (2.0, 3.0, 4.0):  # the tails
        for tail in (values > bound, values < -bound):
            expected = stats.norm.sf(bound)
            assert stats.binomtest(int(tail.sum()), values.size, expected).pvalue > 1e-3


def test_the_ends_of_normal_numbers() -> None:
    with jax.enable_x64(True):
        ends = jnp.asarray([2.0**-53, 0.5, 1 - 2.0**-53])
        found = np.asarray(streams.normal_of(ends[:, None], ends[None, :]))
    first, second = np.meshgrid(ends, ends, indexing="ij")
    expected = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    assert np.isfinite(found).all()
