"""Random bits: those of Threefry, and keys that never meet."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from pytensor_jaxlink.lowering import streams


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [  # the known answers that Random123 is tested with
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry(key: Any, counter: Any, words: Any) -> None:
    high, low = (jnp.asarray([word], "uint32") for word in counter)
    found = streams._threefry(jnp.asarray(key, "uint32"), high, low)
    assert [int(word[0]) for word in found] == list(words)


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


@pytest.mark.parametrize("width", [1, 6, 1 << 33, (1 << 63) + 5])
def test_integers(width: int) -> None:
    low = -(1 << 62) - 5
    with jax.enable_x64(True):
        key = jnp.asarray([3, 4], "uint32")
        drawn = np.asarray(streams.integers(key, (20_000,), low, low + width))
    shares = np.array([(int(each) - low) / width for each in drawn])
    assert ((shares >= 0) & (shares < 1)).all()
    if width > 6:
        assert stats.kstest(shares, stats.uniform.cdf).pvalue > 1e-3
    else:
        assert len(np.unique(drawn)) == width


def test_the_rounds_are_traced_once_for_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process: PyMC makes a function anew for each call of `sample_prior_predictive`."""
    asked = []

    class Rotations(tuple[Any, ...]):
        def __getitem__(self, index: Any) -> Any:
            asked.append(index)
            return super().__getitem__(index)

    monkeypatch.setattr(streams, "_ROTATIONS", Rotations(streams._ROTATIONS))
    for draw in (streams.normal, streams.exponential, streams.normal):
        jax.make_jaxpr(lambda key, draw=draw: draw(key, (3, 101), np.dtype("float32")))(
            np.zeros(2, "uint32")
        )
    assert len(asked) == 5
