"""What the executor counts, and that calls may overlap."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytensor
import pytensor.tensor as pt

from tests.helpers import black_box, sort_down

X = np.array([3.0, 1.0, 2.0])
sort = black_box(sort_down)


def test_counters() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], sort(pt.exp(x)) * 2, mode="JAXSELECTIVE")
    f(X)
    f(X)
    f(np.arange(5.0))
    stats = f.stats
    assert (stats.calls, stats.host_steps) == (3, 3)
    assert stats.region_calls == [3, 3]
    assert stats.compilations == [2, 2]
    assert stats.cache_hits == [1, 1]
    assert stats.bytes_to_host == 8 * (3 + 3 + 5)
    assert stats.bytes_to_device == 2 * stats.bytes_to_host  # the inputs, and the sorted values


def test_an_input_of_several_regions_crosses_once() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], sort(pt.exp(x)) * x + x.sum(), mode="JAXSELECTIVE")
    assert [len(region.arguments) for region in f.plan.regions] >= [1, 2]
    np.testing.assert_allclose(f(X), -np.sort(-np.exp(X)) * X + X.sum())
    assert f.stats.bytes_to_device == X.nbytes + X.nbytes  # the input, and the sorted values


def test_many_threads() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], sort(pt.exp(x[:n])) * n, mode="JAXSELECTIVE", trust_input=True)
    execute = f.vm.compiled.executor

    def call(seed: int) -> bool:
        values = np.random.default_rng(seed).normal(size=8)
        size = 2 + seed % 3
        [found] = execute([values, np.asarray(size)])
        return np.allclose(found, -np.sort(-np.exp(values[:size])) * size)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(400)))
