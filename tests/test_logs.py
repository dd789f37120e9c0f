"""Events that a plan does not announce are logged, counted and explained."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, JAXLinkWarning
from pytensor_jaxlink.logs import VARIABLE, Topic, print_topics
from tests.lowering.test_failures import Doubled

X = np.array([1.0, 2.0, 3.0])
HERE = f"{os.path.abspath(__file__)}:"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="pytensor_jaxlink")
    return caplog


def events(log: pytest.LogCaptureFixture, topic: Topic) -> list[str]:
    return [r.getMessage() for r in log.records if r.name == topic.logger.name]


def test_breaks(log: pytest.LogCaptureFixture) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.unique(x), mode=JAXLinker())
    [event] = events(log, Topic.BREAKS)
    assert event == str(f.explain().breaks[0])
    assert f"where: {HERE}" in event
    assert "remedy: " in event


def test_recompilations(log: pytest.LogCaptureFixture) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], x[:n].sum(), mode=JAXLinker())
    f(X, 1)
    assert not events(log, Topic.RECOMPILES)
    f(X, 2)
    f(X, 1)
    f(X[:2], 1)
    first, second = events(log, Topic.RECOMPILES)
    assert "the value of n was 1, now 2; n is data" in first
    assert f"called at {HERE}" in first
    assert "the shape of x was (3,), now (2,)" in second
    assert "the length of x is padded" in second
    assert (f.stats.compilations, f.stats.padded.compilations) == ([1], [1])


@pytest.mark.parametrize("beyond", ["host", "compile"])
def test_beyond_the_limit(log: pytest.LogCaptureFixture, beyond: str) -> None:
    x = pt.dvector("x")
    linker = JAXLinker(recompile_limit=1, on_recompile_limit=beyond, dynamic=False)
    f = pytensor.function([x], x.sum(), mode=linker)
    f(X)
    with pytest.warns(JAXLinkWarning, match="recompile_limit"):
        f(X[:2])
    f(X[:1])
    assert "which is its recompile_limit" in events(log, Topic.RECOMPILES)[0]
    on_host = events(log, Topic.FALLBACKS)
    assert len(on_host) == f.stats.host_regions == (2 if beyond == "host" else 0)
    assert all(f"region 0 runs on the host, called at {HERE}" in event for event in on_host)
    assert len(events(log, Topic.RECOMPILES)) == (1 if beyond == "host" else 3)


def test_failures_and_fallbacks(log: pytest.LogCaptureFixture) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], Doubled()(pt.exp(x)).sum(), mode=JAXLinker())
    log.clear()
    f(X)
    f(X)
    [fallback] = events(log, Topic.FALLBACKS)
    assert f"finishes a call at {HERE}" in fallback
    [failure] = events(log, Topic.FAILURES)
    assert failure == f.explain().failures[0]
    assert "runs on the host" in failure
    assert f.stats.fallbacks == 1


def test_conditions(log: pytest.LogCaptureFixture) -> None:
    x, i = pt.dvector("x"), pt.lscalar("i")
    f = pytensor.function([x, i], x[pt.stack([i])], mode=JAXLinker())
    with pytest.raises(IndexError):
        f(X, 7)
    [event] = events(log, Topic.FALLBACKS)
    assert event.endswith("a condition does not hold")
    assert f.stats.fallbacks == 1


def test_failing_fast_path(log: pytest.LogCaptureFixture) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x * 2, mode=JAXLinker())
    f(X)

    def broken(*_: Any) -> Any:
        raise NameError("a defect of ours")

    f._path = f._fast = replace(f._path, call=broken)
    np.testing.assert_array_equal(f(X), X * 2)
    [event] = events(log, Topic.SLOW_CALLS)
    assert "NameError: a defect of ours" in event
    assert HERE in event
    assert f.stats.slow_calls == 1
    assert "the fast path failed in 1 call (NameError: a defect of ours)" in str(f.explain())


def test_the_users_errors_are_no_slow_calls(log: pytest.LogCaptureFixture) -> None:
    x, y = pt.dvectors("x", "y")
    f = pytensor.function([x, y], x + y, mode=JAXLinker())
    f(X, X)
    with pytest.raises(ValueError, match="broadcast"):
        f(X, X[:2])
    f(X.astype("float32"), X)  # another type, which the slow path converts
    assert not events(log, Topic.SLOW_CALLS)
    assert f.stats.slow_calls == 0


def test_threads_that_fail_at_once_change_the_plan_once(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], Doubled()(pt.exp(x)).sum(), mode=JAXLinker())
    compiled, both = f.vm.compiled, Barrier(2)
    fallback = compiled.failures.fallback

    def together(*call: Any) -> Any:
        both.wait(60)  # the two calls have failed, and none has changed the plan
        return fallback(*call)

    monkeypatch.setattr(compiled.failures, "fallback", together)
    with ThreadPoolExecutor(2) as threads:
        found = [each.result() for each in [threads.submit(f, X), threads.submit(f, X)]]
    np.testing.assert_allclose(found, [2 * np.exp(X).sum()] * 2)
    assert len(events(log, Topic.FAILURES)) == 1
    assert len(f.explain().failures) == 1


PROGRAM = """
import numpy as np, pytensor, pytensor.tensor as pt
x = pt.dvector("x")
f = pytensor.function([x], x.sum(), mode="JAXSELECTIVE")
f(np.zeros(2)), f(np.zeros(3))
pytensor.function([x], pt.unique(x), mode="JAXSELECTIVE")
"""


@pytest.mark.parametrize(
    ("topics", "found"),
    [("", []), ("recompiles", ["recompiles"]), ("all", ["recompiles", "breaks"])],
)
def test_the_environment_variable(topics: str, found: list[str]) -> None:
    environment = {**os.environ, VARIABLE: topics}
    program = f"import pytensor_jaxlink\n{PROGRAM}"
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    heads = [line.split(":")[0] for line in run.stderr.splitlines() if "pytensor_jaxlink." in line]
    assert heads == [f"pytensor_jaxlink.{name}" for name in found]


def test_an_event_keeps_no_array(log: pytest.LogCaptureFixture) -> None:
    """A large state is donated in every call but the first, whatever is logged between them."""
    n, s = pt.lscalar("n"), pytensor.shared(np.zeros(200_000))
    new = (s.reshape((n, -1)) + 1).ravel()
    gc.collect()
    gc.disable()
    try:
        f = pytensor.function([n], [], updates=[(s, new)], mode=JAXLinker(dynamic=False))
        for k in (2, 4, 2, 8, 4):
            f(k)
    finally:
        gc.enable()
    assert len(events(log, Topic.RECOMPILES)) == 2
    assert f.stats.donated_bytes == 4 * 200_000 * 8


def test_unknown_topics_warn() -> None:
    with pytest.warns(JAXLinkWarning, match="names rescues, and the topics are breaks, recompiles"):
        print_topics("rescues")
