"""How often a region is compiled, and what happens beyond that."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, RecompileLimitError


def function(**options: Any) -> Any:
    x, n = pt.dvector("x"), pt.lscalar("n")
    return pytensor.function([x, n], (pt.exp(x)[:n] * 2).sum(), mode=JAXLinker(**options))


X = np.arange(40.0) / 10


def expected(n: int) -> float:
    return (np.exp(X)[:n] * 2).sum()


def check(f: Any, *sizes: int) -> None:
    for n in sizes:
        np.testing.assert_allclose(f(X, n), expected(n))


def test_beyond_the_limit_regions_run_on_the_host() -> None:
    f = function(recompile_limit=3)
    with pytest.warns(JAXLinkWarning) as found:
        check(f, *range(1, 11))
    assert [str(warning.message) for warning in found] == [
        "region 0 was compiled 3 times, which is its recompile_limit: the value of n was 1, 2, 3, "
        "4, .... From now on new ones run on the host, by PyTensor's own implementation. Pad "
        "arrays to a few lengths and mask the rest, pass fewer different sizes, or raise "
        "JAXLinker(recompile_limit=...)."
    ]
    assert f.stats.compilations == [3]
    assert f.stats.host_regions == 7
    f(X, 2)  # still compiled
    assert f.stats.host_regions == 7


def test_changing_shapes_count_and_are_named() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x) * 2, mode=JAXLinker(recompile_limit=2))
    with pytest.warns(JAXLinkWarning, match=r"the shape of x was \(1,\), \(2,\), \(3,\)"):
        results = [f(X[:n]) for n in range(1, 6)]
    for n, result in enumerate(results, start=1):
        np.testing.assert_allclose(result, np.exp(X[:n]) * 2)
    assert f.stats.compilations == [2]


def test_error() -> None:
    f = function(recompile_limit=2, on_recompile_limit="error")
    f(X, 1), f(X, 2)
    with pytest.raises(RecompileLimitError, match="the value of n was 1, 2, 3"):
        f(X, 3)
    np.testing.assert_allclose(f(X, 2), expected(2))


def test_compile_keeps_the_last_used() -> None:
    f = function(recompile_limit=2, on_recompile_limit="compile")
    with pytest.warns(JAXLinkWarning):
        check(f, 1, 2, 3, 4, 3, 4, 3)
    assert f.stats.compilations == [4]
    f(X, 5)  # drops 4
    f(X, 3)
    assert f.stats.compilations == [5]
    f(X, 4)
    assert f.stats.compilations == [6]


def test_generators_loops_and_branches_on_the_host() -> None:
    rng, x, n = pytensor.shared(np.random.default_rng(1)), pt.dvector("x"), pt.lscalar("n")
    following, noise = pt.random.normal(size=(n,), rng=rng).owner.outputs
    total = pytensor.scan(
        lambda s: s * 2 + noise.shape[0], outputs_info=[x.sum()], n_steps=3, return_updates=False
    )[-1]
    f = pytensor.function(
        [x, n], [noise, total], updates={rng: following}, mode=JAXLinker(recompile_limit=1)
    )
    f(X, 2)
    with pytest.warns(JAXLinkWarning):
        first, found = f(X, 3)
    second, _ = f(X, 3)
    assert first.shape == (3,)
    assert not np.allclose(first, second)
    np.testing.assert_allclose(found, X.sum() * 8 + 7 * 3)


def test_checks_on_the_host_raise_what_python_raises() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], pt.zeros(n) + x[7], mode=JAXLinker(recompile_limit=1))
    f(X, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JAXLinkWarning)
        with pytest.raises(IndexError):
            f(X[:3], 3)


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match="recompile_limit=0 is not a positive integer"):
        JAXLinker(recompile_limit=0)
    with pytest.raises(ValueError, match="on_recompile_limit='stop' is not one of"):
        JAXLinker(on_recompile_limit="stop")  # type: ignore[arg-type]
