"""Arrays that no memory holds: the exception of NumPy, and the process goes on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, jaxify, load, save
from pytensor_jaxlink.runtime import memory, specialisation
from tests.helpers import compile_both
from tests.link.test_dynamic_sizes import answer, assert_same

N, X = pt.lscalar("n"), pt.dvector("x")
COUNTLESS: dict[str, Any] = {
    "zeros": pt.zeros(N),
    "scaled": pt.ones(N) * X[0],
    "matrix": pt.alloc(X.sum(), N, 2),
    "unit matrix": pt.eye(N),
    "bytes": pt.zeros(N * 8, dtype="int8"),
    "range": pt.arange(N),
    "repeated": pt.repeat(X, N),
    "padded": pt.pad(X, (0, N)),
    "room": pt.set_subtensor(pt.empty((N,))[:], 1.0),
    "loop": pytensor.scan(lambda s: s + 1, outputs_info=[X[0]], n_steps=N, return_updates=False)[
        :0
    ],
}


@pytest.mark.parametrize("linker", [{}, {"jit": False}], ids=str)
@pytest.mark.parametrize("name", COUNTLESS)
def test_more_bytes_than_can_be_counted(name: str, linker: dict[str, Any]) -> None:
    """With JAX 0.10 XLA would end the process."""
    f, reference = compile_both([N, X], COUNTLESS[name], JAXLinker(**linker))
    for n in (3, 2**60, 5, 2**61, 2):
        assert_same(answer(f, (n, np.ones(3))), answer(reference, (n, np.ones(3))))


def test_it_is_a_value_error_for_functions_of_jax_too() -> None:
    run = jaxify([N, X], COUNTLESS["scaled"])
    with pytest.raises(ValueError, match="too big"):
        run(2**60, np.ones(3))


def test_more_than_the_memory_has(tmp_path: Any) -> None:
    total = pytensor.shared(0.0)
    f = pytensor.function(
        [N, X], pt.ones(N) * X[0], updates={total: total + X.sum()}, mode="JAXSELECTIVE"
    )
    assert f(3, np.ones(3)).shape == (3,)
    for n in (2**50, 2**59):
        with pytest.raises(MemoryError):
            f(n, np.ones(3))
    assert f(4, np.ones(3)).shape == (4,)
    assert total.get_value() == 6
    save(f, tmp_path / "f", static={"n": [3, 2**50]})
    for prefer in ("compiled", "graph"):
        with pytest.raises(MemoryError):
            load(tmp_path / "f", prefer=prefer)(2**50, np.ones(3))


FEW = X[X > 3]
PAIRS = pt.exp(FEW[:, None] - FEW[None, :])
TOO_MANY: dict[str, Any] = {
    "checked": pt.sqr(FEW[:, None] - FEW[None, :]).sum() + FEW[0],
    "one program": (PAIRS @ PAIRS).sum(),
    "a vector": PAIRS @ FEW,
    "several regions": (PAIRS @ PAIRS).sum() + pt.unique(X)[0],
}


@pytest.mark.parametrize(
    ("name", "linker"), [*((name, {}) for name in TOO_MANY), ("one program", {"dynamic": True})]
)
def test_python_finishes_a_call_that_needs_less_memory_there(
    name: str, linker: dict[str, Any]
) -> None:
    """A selection of a few entries, of which the program computes the pairs of all."""
    f, reference = compile_both([X], TOO_MANY[name], JAXLinker(**linker))
    count = math.isqrt(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
    x = np.zeros(count)
    x[:3] = 5, 6, 7
    for length in (count, 50, count):
        assert_same(answer(f, (x[:length],)), answer(reference, (x[:length],)))
    assert f.stats.fallbacks > 0


def test_a_program_that_may_be_too_large_runs_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """XLA says how much memory it needs; the call after that runs what was compiled."""
    monkeypatch.setattr(memory, "_memory_of", lambda device: 10**6)
    monkeypatch.setattr(specialisation, "_LARGE", 0)
    total = pytensor.shared(0.0)
    f = pytensor.function(
        [X], pt.exp(X * 2).sum() + 1, updates={total: total + 1}, mode="JAXSELECTIVE"
    )
    for _ in range(4):
        np.testing.assert_allclose(f(np.zeros(100_000)), 100_001)  # 800,000 bytes
    assert f.stats.compilations <= [2]  # once more for calls that go straight to it
    assert f.stats.fallbacks == 0
    for _ in range(8):  # and some more of them
        np.testing.assert_allclose(f(np.zeros(130_000)), 130_001)
    assert f.stats.fallbacks == 8
    np.testing.assert_allclose(f(np.zeros(100_000)), 100_001)
    assert total.get_value() == 13
    assert f.stats.fallbacks == 8


BOUNDED: dict[str, Callable[[Any], Any]] = {
    "unit matrix": lambda k: pt.exp(pt.eye(k)).sum(),
    "pairs": lambda k: (pt.arange(k)[:, None] * pt.arange(k)[None, :]).sum(),
    "factor": lambda k: pt.linalg.cholesky(pt.eye(k) * 2.0).sum(),
    "one axis": lambda k: (pt.arange(k)[:, None] * pt.arange(3)[None, :]).sum(),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_the_product_of_two_bounds_may_be_far_too_large(name: str) -> None:
    """Then the length is fetched; of one axis it is the length of a mask."""
    k = pt.clip(X.sum().astype("int64"), 0, 20_000)
    f, reference = compile_both([X], BOUNDED[name](k))
    for length in (3, 4, 5, 3):
        assert_same(answer(f, (np.ones(length),)), answer(reference, (np.ones(length),)))
    assert (f.explain().graph_break_count == 0) == (name == "one axis")
    assert f.stats.fallbacks == 0
