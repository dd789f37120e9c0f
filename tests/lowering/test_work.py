"""The entries that a program computes, also those of its inner graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.compat import ifelse
from tests.helpers import compile_both

X, Y = pt.dvector("x"), pt.dvector("y")


def _loop(step: Any, sequence: Any, *constants: Any) -> Any:
    return pytensor.scan(
        step,
        sequences=[sequence],
        outputs_info=[pt.zeros(())],
        non_sequences=list(constants),
        return_updates=False,
    )[-1]


_CUBE = (X[:, None, None] - X[None, :, None]) * X
_NESTED = _loop(lambda a, s, y: s + _loop(lambda b, t: pt.tanh(t + a * b), y), X, Y)
GRAPHS: dict[str, tuple[Any, int]] = {  # the least that 100 entries each make
    "cube": (pt.cumsum(_CUBE, axis=0).max(), 100**3),
    "cube in a side": (ifelse(X[0] > 0, pt.cumsum(_CUBE, axis=0).max(), X.sum()), 100**3),
    "nested loops": (_NESTED, 100**2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_inner_graphs_count(name: str) -> None:
    output, least = GRAPHS[name]
    f, reference = compile_both([X, Y], output)
    given = np.linspace(0.5, 1, 100)
    np.testing.assert_allclose(f(given, given), reference(given, given))
    assert least <= f.vm.compiled.executor.entries < 50 * least


@pytest.mark.parametrize("name", GRAPHS)
def test_short_arguments_stay_short(name: str) -> None:
    f, reference = compile_both([X, Y], GRAPHS[name][0])
    for length in (3, 4, 5, 7):
        given = np.linspace(0.5, 1, length), np.linspace(0.2, 1, length + 1)
        np.testing.assert_allclose(f(*given), reference(*given))
    padded = f.vm.compiled.changing._padded
    assert padded is None or padded.executor.entries < 5_000_000


def test_an_empty_array_counts_as_xla_writes_it_out() -> None:
    """Three padded axes before a length of 0: with 1024 each, XLA compiles for 90 s, in 8 GB."""
    block = pt.tensor4("block")
    f, reference = compile_both([block], pt.sin(block) + 1)
    for lengths in ((4, 5, 1, 0), (0, 3, 5, 0), (3, 2, 2, 0), (7, 8, 9, 0)):
        assert f(np.ones(lengths)).shape == reference(np.ones(lengths)).shape
    padded = f.vm.compiled.changing._padded
    assert padded is not None
    assert 64**3 <= padded.executor.entries < 5_000_000
