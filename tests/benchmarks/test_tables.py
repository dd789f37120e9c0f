"""The tables can be made: each one small, with one round."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import pytensor_jaxlink  # noqa: F401 -- registers the mode
from tests.benchmarks.calls import call_overhead, calls_with_more, one_host_step
from tests.benchmarks.first_result import first_with_constant
from tests.benchmarks.fresh import fresh
from tests.benchmarks.growth import DONATED, many_lengths
from tests.benchmarks.measure import Effort, Timing, interleave
from tests.benchmarks.report import Table, duration, geometric_mean, machine, times
from tests.benchmarks.steady import pymc_densities, small_densities, ten_workloads

ONCE = Effort(rounds=1, seconds=0)


@pytest.fixture(autouse=True)
def _64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_candidates_take_turns() -> None:
    calls = {"a": 0, "b": 0}

    def call(name: str) -> None:
        calls[name] += 1

    timing = interleave({name: lambda n=name: call(n) for name in calls}, Effort(7, 0, settle=1e-4))
    assert calls["a"] == calls["b"]
    assert {name: len(found) for name, found in timing.rounds.items()} == {"a": 7, "b": 7}


def test_results_are_waited_for() -> None:
    square = jax.jit(lambda x: x @ x)
    x = jax.device_put(np.ones((200, 200)))
    timing = interleave({"lazy": lambda: square(x), "eager": lambda: None}, ONCE)
    assert timing.ratio("lazy", "eager") > 10


def test_markdown() -> None:
    table = Table(
        "Title", "What.", ("x", "ratio"), (("first", times(1)), ("second", times(12.345)))
    )
    assert table.markdown().splitlines() == [
        "## Title",
        "",
        "What.",
        "",
        "| x      | ratio |",
        "| ------ | ----: |",
        "| first  |  1.00 |",
        "| second | 12.35 |",
    ]


def test_cells() -> None:
    assert [duration(s) for s in (12.34, 0.01234, 12.34e-6)] == ["12.3 s", "12.3 ms", "12.3 µs"]
    assert geometric_mean([0.5, 2.0, np.nan]) == pytest.approx(1.0)


def test_machine_is_named() -> None:
    pytest.importorskip("numba")
    assert jax.__version__ in machine()


def test_calls() -> None:
    assert len(call_overhead(ONCE, [2]).rows) == 1
    assert len(one_host_step(ONCE, [10]).rows) == 1
    assert len(calls_with_more(ONCE).rows) == 5


@pytest.mark.filterwarnings("ignore::Warning")  # of Numba and what it imports
def test_tables_with_numba() -> None:
    pytest.importorskip("numba")
    assert len(ten_workloads(ONCE, ["matrix factorisation"]).rows) == 2
    assert len(small_densities(ONCE, [(10, 8, "normal")]).rows) == 2
    rows = many_lengths(calls=10).rows
    names = ["ours, one length", "ours", "ours, dynamic=True", "NUMBA"]
    assert [row[1] for row in rows] == names * 2
    for row in rows[1::4]:
        assert row[-2:] == ("[1, 1]", "0")  # for the first length, and for all others
    for row in rows[2::4]:
        assert row[-2:] == ("[0, 1]", "0")


@pytest.mark.filterwarnings("ignore::Warning")  # of PyMC, and of checks that mode "JAX" drops
def test_pymc_models() -> None:
    pytest.importorskip("pymc")
    rows = pymc_densities(ONCE, ["eight schools", "radon"]).rows
    assert [row[0] for row in rows] == ["eight schools", "radon", "median"]
    assert all(len(row) == 6 for row in rows)


def test_without_pymc_a_table_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymc", None)
    monkeypatch.delitem(sys.modules, "tests.benchmarks.pymc_models", raising=False)
    assert "pip install 'pytensor_jaxlink[pymc]'" in pymc_densities(ONCE).markdown()


@pytest.mark.parametrize("candidate", ["ours", '"JAX"', "closure", "argument"])
def test_constant(candidate: str) -> None:
    found = first_with_constant(candidate, "1000")
    assert found["total"] == found["build"] + found["first"] > found["rewriting"]


@pytest.mark.cpu("asks for the memory of the host")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_donated_state_is_there_once() -> None:
    assert fresh("state", DONATED)["copies"] == pytest.approx(1, abs=0.2)


def test_a_plot_is_the_same_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tests.benchmarks.plots import draw

    timings = {k: Timing({"ours": (k * 1e-6,), "NUMBA": (2e-6,)}) for k in (1, 10)}
    first, second = (draw(timings, "size", tmp_path / "plot.svg").read_text() for _ in range(2))
    assert first == second
    assert "ours" in first
