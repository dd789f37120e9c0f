"""Longer copies of arrays: which of them are kept, and for how long."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.runtime.padded_arrays import PaddedArrays
from pytensor_jaxlink.runtime.stats import Stats

S = pt.dscalar("s")


def jax_array(values: Any) -> Any:
    with jax.enable_x64(True):
        return jax.numpy.asarray(values)


@pytest.mark.parametrize("dynamic", [True, "auto"])
def test_a_shared_array_is_fetched_once(dynamic: Any) -> None:
    shared = pytensor.shared(np.arange(50_000.0))
    f = pytensor.function([S], (shared * S).sum(), mode=JAXLinker(dynamic=dynamic))
    f(1.0)
    for length in (40_000, 45_000):
        shared.set_value(np.arange(float(length)))
        assert f(2.0) == length * (length - 1)
        fetched = [f.stats.bytes_to_host]
        for s in range(4):
            assert f(float(s)) == s * length * (length - 1) / 2
            fetched.append(f.stats.bytes_to_host)
        # Once when it comes first, once more to be kept.
        assert fetched[1] - fetched[0] <= length * 8
        assert len({*fetched[1:]}) == 1
    assert f.stats.padded_calls >= 10


def test_what_is_written_into_is_copied_in_each_call() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x.sum(), mode=JAXLinker(dynamic=True))
    values = np.ones(100)
    for count in range(5):
        values[:] = count
        assert f(values) == 100 * count


def test_a_copy_goes_with_its_array() -> None:
    arrays, stats = PaddedArrays(), Stats()
    value = jax_array(np.arange(3.0))
    first, second, third = (arrays.padded(0, value, (5,), stats) for _ in range(3))
    assert isinstance(first, np.ndarray)  # nobody knows that it comes again
    assert second is third
    np.testing.assert_array_equal(np.asarray(third), [0, 1, 2, 0, 0])
    assert third is not arrays.padded(0, value, (6,), stats)
    kept, array = ref(second), ref(value)
    del first, second, third, value
    gc.collect()
    assert array() is None
    assert kept() is None


def test_another_array_in_its_place() -> None:
    arrays, stats = PaddedArrays(), Stats()
    one, other = jax_array(np.ones(3)), jax_array(np.zeros(3))
    for value in (one, one, other, one, one, other, other):
        found = np.asarray(arrays.padded(0, value, (4,), stats))
        np.testing.assert_array_equal(found, [*np.asarray(value), 0])
    other.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        arrays.padded(0, other, (4,), stats)


@pytest.mark.parametrize("dynamic", [True, "auto"])
def test_types_are_kept_where_jax_knows_none_of_64_bits(dynamic: Any) -> None:
    x, i = pt.dvector("x"), pt.lvector("i")
    f = pytensor.function([x, i], [x * 2, i + 1], mode=JAXLinker(dynamic=dynamic))
    [device] = jax.devices()[:1]
    for length in (3, 4, 5, 3):
        values = np.full(length, 1 / 3), np.arange(length) + 2**40
        with jax.enable_x64(True):
            given = [jax.device_put(value, device) for value in values]
        for _ in range(2):
            with jax.enable_x64(False):
                doubled, next_ones = f(*given)
            np.testing.assert_array_equal(np.asarray(doubled), values[0] * 2)
            np.testing.assert_array_equal(np.asarray(next_ones), values[1] + 1)
