"""The Python function that is generated for a plan."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, JAXLinkWarning
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.plan import HostBranch
from pytensor_jaxlink.runtime.codegen import FunctionSource
from tests.helpers import black_box, compile_both, sort_down

X, N = pt.dvector("x"), pt.lscalar("n")
sort = black_box(sort_down)


def source_of(f: Any) -> str:
    return str(FunctionSource(f.plan))


def test_a_host_step_between_two_regions() -> None:
    f, reference = compile_both([X], pt.exp(sort(pt.tanh(X))).sum())
    assert (
        source_of(f)
        == """\
def run(a0):
    (a1, ), c0 = region0(a0)
    h1 = host(a1, 1)
    try:
        h2,  = step1(h1)
    except Exception as error:
        end_if_false(error, *c0, )
        raise
    (a4, ), c1 = region1(sent(h2))
    stats.host_steps += 1
    return Result([a4], (*c0, *c1, ))"""
    )
    x = np.arange(3.0)
    for _ in range(2):
        np.testing.assert_allclose(f(x), reference(x))
    stats = f.stats
    assert (stats.direct, stats.general_calls, stats.compilations) == (2, 0, [1, 1])
    assert (stats.host_steps, stats.bytes_to_host, stats.bytes_to_device) == (2, 48, 96)


def test_results_that_are_cut() -> None:
    k = (X > 0).sum()
    f, reference = compile_both([X], [X[:k] * 2, X[X > 0]])
    assert (
        source_of(f)
        == """\
def run(a0):
    a0 = converted(0, a0)
    (a2, a5, a7, ), c0 = region0(a0)
    h2 = host(a2, 2)
    try:
        a3 = step1(a0, (h2, ))
    except Exception as error:
        end_if_false(error, *c0, )
        raise
    h5 = host(a5, 5)
    try:
        a8 = step2(a7, (slice(None, h5, None), ))
    except Exception as error:
        end_if_false(error, *c0, )
        raise
    return Result([a8, a3], (*c0, ))"""
    )
    for x in (np.arange(-2.0, 5.0), np.zeros(7)):
        for one, other in zip(f(x), reference(x), strict=True):
            np.testing.assert_allclose(one, other)
    assert (f.stats.direct, f.stats.host_steps, f.stats.compilations) == (2, 0, [1])


def test_sizes_from_an_input() -> None:
    outputs = X.reshape((N // 2, -1)).sum(axis=0) * N
    f, reference = compile_both([X, N], outputs, JAXLinker(dynamic=False))
    assert "region0((hashable(h4), ), a0, a1)" in source_of(f)
    for n in (2, 4, 5, np.int64(2), np.array(6)):
        np.testing.assert_allclose(f(np.arange(6.0), n), reference(np.arange(6.0), n))
    assert f.stats.direct == 5
    assert f.stats.compilations == [3]


def test_what_no_region_computes_is_a_jax_array_too() -> None:
    f, reference = compile_both([X], [sort(X), pt.exp(X), pt.as_tensor(np.arange(3.0))])
    x = np.arange(3.0)
    found = f(x)
    assert all(isinstance(value, jax.Array) for value in found)
    for one, other in zip(found, reference(x), strict=True):
        np.testing.assert_allclose(one, other)
    x[:] = 7  # nothing is a view of what the user gave
    np.testing.assert_allclose(found[0], [2, 1, 0])


def test_other_types_are_converted_for_the_host() -> None:
    f, reference = compile_both([X], pt.exp(sort(X)).sum() + X.sum())
    for x in ([1.0, 2.0], np.arange(3), np.arange(3, dtype="float32"), np.arange(3.0)):
        np.testing.assert_allclose(f(x), reference(x))
    assert f.stats.direct == 4
    with pytest.raises(ValueError, match="could not convert"):
        f("three")


def test_a_condition_of_either_region() -> None:
    i = pt.lvector("i")
    f, reference = compile_both([X, i], sort(X[i]) * X[i * 2])
    x = np.arange(5.0)
    np.testing.assert_allclose(f(x, [1, 2]), reference(x, [1, 2]))
    for index in ([1, 7], [1, 3]):
        with pytest.raises(IndexError):
            f(x, np.array(index))


def test_a_host_step_that_fails_runs_once() -> None:
    calls = []

    def refuse(values: np.ndarray) -> np.ndarray:
        calls.append(values)
        raise ZeroDivisionError("of the user's")

    state = pytensor.shared(np.zeros(2), name="state")
    out = pt.exp(black_box(refuse)(pt.tanh(X)))
    f = pytensor.function([X], out, updates={state: state + 1}, mode="JAXSELECTIVE")
    with pytest.raises(ZeroDivisionError, match="of the user's") as caught:
        f(np.ones(2))
    assert len(calls) == 1
    assert "on the host, written at" in caught.value.__notes__[0]
    np.testing.assert_array_equal(state.get_value(), np.zeros(2))


def test_shared_variables_and_updates() -> None:
    state = pytensor.shared(np.ones(3), name="state")
    f = pytensor.function(
        [X], sort(X * state).sum(), updates={state: sort(state + X)}, mode="JAXSELECTIVE"
    )
    assert float(f(np.arange(3.0))) == 3
    np.testing.assert_array_equal(state.get_value(), [3, 2, 1])
    state.set_value(np.zeros(3))
    assert float(f(np.arange(3.0))) == 0
    assert f.stats.direct == 2


def test_one_array_for_several_regions_is_moved_once() -> None:
    f, reference = compile_both([X], sort(pt.exp(X)) * X)
    assert f._fast is not None
    x = np.arange(4.0)
    np.testing.assert_allclose(f(x), reference(x))
    assert f.stats.bytes_to_device == 2 * x.nbytes  # the argument, and what the host sorted


def test_beyond_the_limit_of_compilations() -> None:
    f = pytensor.function([X], sort(pt.exp(X)).sum(), mode=JAXLinker(recompile_limit=2))

    def call() -> list[Any]:
        return [f(np.zeros(size)) for size in range(1, 7)]

    with pytest.warns(JAXLinkWarning, match="recompile_limit"):
        np.testing.assert_allclose(call(), range(1, 7))
    assert max(f.stats.compilations) == 2


def test_from_many_threads() -> None:
    f, reference = compile_both([X], sort(pt.exp(X)).sum())
    arguments = [np.random.default_rng(seed).normal(size=3 + seed % 2) for seed in range(64)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(f, arguments))
    np.testing.assert_allclose(found, [reference(x) for x in arguments])


class TestHostExecuted:
    """A loop or a branch is a step like others; what is in it is interpreted."""

    LOOP = pytensor.scan(
        lambda x: sort(pt.sin(x)) / 2, outputs_info=[X], n_steps=3, return_updates=False
    )

    def test_a_loop(self) -> None:
        f, reference = compile_both([X], [self.LOOP, self.LOOP.sum() * 2])
        assert (
            source_of(f)
            == """\
def run(a0):
    (a6, ), c0 = region0(a0)
    try:
        (a8, ), d1 = step1(a7, a6)
    except Exception as error:
        end_if_false(error, *c0, )
        raise
    (a9, a12, ), c3 = region3(sent(a8))
    stats.host_steps += 1
    return Result([a9, a12], (*c0, *d1, *c3, ))"""
        )
        for size in (3, 4):
            x = np.arange(float(size))
            for one, other in zip(f(x), reference(x), strict=True):
                assert isinstance(one, jax.Array)
                np.testing.assert_allclose(one, other)
        stats = f.stats
        assert (stats.direct, stats.general_calls) == (2, 0)
        assert stats.region_calls == [2, 6, 6, 2]
        assert stats.compilations == [2, 2, 2, 2]

    def test_what_a_loop_gives_is_a_jax_array_too(self) -> None:
        out = pytensor.scan(lambda x: sort(X * x), sequences=[X], return_updates=False)
        f, reference = compile_both([X], out)
        x = np.arange(3.0)
        found = f(x)
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, reference(x))

    def test_a_branch(self) -> None:
        out = ifelse(pt.exp(X).sum() > 5, sort(pt.sinh(X)) * 2, pt.cosh(X))
        f, reference = compile_both([X], out)
        assert any(isinstance(step, HostBranch) for step in f.plan.steps)
        for x in (np.zeros(3), np.ones(3), np.ones(3)):
            np.testing.assert_allclose(f(x), reference(x))
        assert (f.stats.direct, f.stats.general_calls) == (3, 0)

    def test_a_condition_inside(self) -> None:
        i = pt.lvector("i")
        out = pytensor.scan(lambda k: sort(X[i + k]), sequences=[i], return_updates=False)
        f, reference = compile_both([X, i], out.sum())
        x = np.arange(5.0)
        np.testing.assert_allclose(f(x, [1, 2]), reference(x, [1, 2]))
        for index in ([1, 3], [1, 4]):
            with pytest.raises(IndexError):
                f(x, np.array(index))
        np.testing.assert_allclose(f(x, [1, 2]), reference(x, [1, 2]))

    def test_a_host_step_inside_that_fails(self) -> None:
        """PyTensor's own loop is asked, which says what the Python linker says."""

        def refuse(values: np.ndarray) -> np.ndarray:
            raise ZeroDivisionError("of the user's")

        state = pytensor.shared(np.zeros(2), name="state")
        out = pytensor.scan(lambda x: black_box(refuse)(X * x), sequences=[X], return_updates=False)
        for mode in ("FAST_COMPILE", "JAXSELECTIVE"):
            f = pytensor.function([X], out, updates={state: state + 1}, mode=mode)
            with pytest.raises(ZeroDivisionError, match="of the user's"):
                f(np.ones(2))
        np.testing.assert_array_equal(state.get_value(), np.zeros(2))
