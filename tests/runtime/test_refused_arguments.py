"""Arguments that an operation refuses: nothing is compiled for them, or counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, load, save

x, y, X = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("X")
REFUSED = {
    "lengths": ([x, y], x + y, [np.ones(3), np.ones(4)], ValueError),
    "a product": ([X, x], X @ x, [np.ones((2, 2)), np.ones(3)], ValueError),
    "a factor": ([X], pt.linalg.cholesky(X), [np.ones((2, 3))], ValueError),
    "a shape": ([x], x.reshape((7,)), [np.ones(3)], AssertionError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_call_raises(name: str) -> None:
    inputs, output, arguments, error = REFUSED[name]
    f: Any = pytensor.function(inputs, output, mode=JAXLinker())
    for _ in range(20):
        with pytest.raises(error):
            f(*arguments)
    assert f.stats.compilations == [0]


def test_it_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytensor_jaxlink.lowering.program import Program

    f: Any = pytensor.function([x, y], x + y, mode=JAXLinker(dynamic=False))
    traces, run = [], Program.__call__
    monkeypatch.setattr(Program, "__call__", lambda *given: traces.append(1) or run(*given))
    for _ in range(5):
        with pytest.raises(ValueError, match="shape"):
            f(np.ones(3), np.ones(4))
    assert len(traces) == 1
    np.testing.assert_array_equal(f(np.ones(3), np.ones(3)), 2)
    assert f.stats.compilations == [1]


def test_they_do_not_count_towards_the_limit(tmp_path: Path) -> None:
    f: Any = pytensor.function([x, y], x + y, mode=JAXLinker(dynamic=False, recompile_limit=3))
    for length in range(3, 12):
        with pytest.raises(ValueError, match="shape"):
            f(np.ones(length), np.ones(length + 1))
    for length in (4, 5, 6):
        assert f(np.ones(length), np.ones(length)).shape == (length,)
    assert f.stats.compilations == [3]
    save(f, tmp_path / "f.jaxlink", dims=None)
    assert load(tmp_path / "f.jaxlink")(np.ones(5), np.ones(5)).shape == (5,)


def test_another_value_of_the_same_shapes() -> None:
    """A side of a branch that would refuse the shapes is not always taken."""
    from pytensor_jaxlink.compat import ifelse

    go = pt.bscalar("go")
    f: Any = pytensor.function([go, x, y], ifelse(go, x + y, x), mode=JAXLinker())
    for taken in (1, 0, 1, 0):
        if taken:
            with pytest.raises(ValueError, match="shape"):
                f(taken, np.ones(3), np.ones(4))
        else:
            np.testing.assert_array_equal(f(taken, np.ones(3), np.ones(4)), 1)
