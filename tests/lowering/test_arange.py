"""Ranges: the entries that the Python linker gives, and little memory while JAX traces."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.basic import ARange

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.lowering import arange
from tests.helpers import assert_same, assert_same_outcomes, compile_both

INF, NAN = np.inf, np.nan
BOUNDS = {
    "float64": [(0.5, 90_000.0, 0.7), (0.0, 3.0, 0.0), (0.0, INF, 1.0), (0.0, NAN, 1.0)],
    "float32": [(-3.0, -120_000.0, -1.0), (3.0, 3.0, 1.0), (0.0, 100_001.0, 1.0)],
    "float16": [(0.0, 100_001.0, 1.0), (0.0, 1.0, 1e-6)],
    "int64 of float64": [(0.7, 3.2, 0.5), (1.7, -3.2, -0.5), (0.0, 1e5 + 1, 1.0), (0.0, 0.0, 0.0)],
    "uint8": [(0, 300, 1), (254, 258, 1), (255, 256, 1), (0, 1, 300), (-1, 5, 1), (0, 601, 300)],
    "int32": [(5, 0, -1), (0, -1, 1), (2**31, 2**31 + 2, 1), (0, 5, 0)],
    "int64": [(-5, 5, 1), (2**62, -(2**63), -(2**62)), (2**62, 2**63 - 1, 2**62)],
}
"""Starts, stops and steps of ranges, by their type."""


@pytest.mark.parametrize("case", BOUNDS)
def test_a_range_is_that_of_the_python_linker(case: str) -> None:
    dtype, _, given = case.partition(" of ")
    kind = given or ("float64" if dtype.startswith("float") else "int64")
    bounds = [pt.scalar(name, dtype=kind) for name in ("start", "stop", "step")]
    calls = [[np.array(value, kind) for value in values] for values in BOUNDS[case]]
    assert_same_outcomes(*compile_both(bounds, ARange(dtype)(*bounds)), calls)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("step", [1.0, 0.5, -0.25])
def test_the_sign_of_a_first_zero(dtype: str, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In short ranges and, where NumPy does not list the entries, in long ones."""
    start = pt.dscalar("start")
    for listed in (0, 100):
        monkeypatch.setattr(arange, "_LISTED", listed)
        f, reference = compile_both([start], ARange(dtype)(start, start + 4 * step, step))
        for value in (-0.0, 0.0, 1.0):
            found, expected = np.asarray(f(value)), reference(value)
            assert_same(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def _peak(call: Callable[[], object]) -> int:
    """The bytes that a call takes at most, of those that Python counts; NumPy's arrays are."""
    tracemalloc.start(1)
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("step", [1, 0.5])
def test_no_range_is_made_while_jax_traces(step: float) -> None:
    count, entries = pt.lscalar("count"), 2_000_000
    numbers = pt.arange(0, count * step, step)
    f = pytensor.function([count], pt.sin(numbers).sum(), mode="JAXSELECTIVE")
    assert _peak(lambda: f(entries)) < entries
    np.testing.assert_allclose(f(entries), np.sin(np.arange(0, entries * step, step)).sum())


@pytest.mark.parametrize("step", [1, 0.5])
def test_a_range_that_no_memory_holds_is_refused(step: float) -> None:
    """As in Python; XLA ends the process for a sum over 2**36 of its numbers."""
    count = pt.lscalar("count")
    numbers = pt.arange(0, count * step, step)
    f, reference = compile_both([count], pt.sin(numbers).sum())
    for length, kind in ((2**44, MemoryError), (2**62, ValueError)):
        with pytest.raises(kind) as expected:
            reference(length)
        with pytest.raises(kind) as found:
            f(length)
        assert found.type is expected.type
    assert np.isfinite(f(10))


def test_padded_axes_that_multiply_take_no_memory() -> None:
    """Four axes, each padded to 256 or 1024: JAX traces their program to learn its cost."""
    block = pt.tensor4("block")
    selected = pt.concatenate([pt.ones(1), block[block > 0]])
    f, reference = compile_both([block], selected, Mode(JAXLinker(dynamic=True), "fast_run"))
    given = np.random.default_rng(1).normal(size=(2, 5, 4, 3))
    assert _peak(lambda: f(given)) < 20_000_000
    assert_same(f(given), reference(given))
