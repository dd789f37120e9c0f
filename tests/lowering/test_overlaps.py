"""Blocks that are written with what is read from the same array; XLA gets some of them wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import load, save
from pytensor_jaxlink.lowering.overlaps import reads_what_it_writes
from tests.helpers import check_against_python

X, K = pt.dvector("x"), pt.dscalar("k")
PLACE = K.astype("int64")
DATA = np.random.default_rng(7).normal(size=9)

ARRAYS: dict[str, Callable[[], Any]] = {
    "running sum": lambda: pt.cumsum(X),
    "product of matrices": lambda: (X.reshape((3, 3)) @ X.reshape((3, 3))).flatten(),
    "reshaped": lambda: pt.sort(X).reshape((9, 1)).flatten(),
    "sorted": lambda: pt.sort(X),
    "copies": lambda: pt.alloc(X[:3], 3, 3).reshape((9,)),
    "zeros with a row": lambda: pt.set_subtensor(pt.zeros((3, 3))[0], X[:3]).reshape((9,)),
    "zeros with an entry": lambda: pt.set_subtensor(pt.zeros((9, 1))[0, 0], X[0])[:, 0],
}


def shifted(b: Any) -> Any:
    return pt.set_subtensor(b[1:], b[:-1] * 2)


WRITES: dict[str, Callable[[Any], Any]] = {
    "shifted": lambda b: pt.set_subtensor(b[1:], b[:-1]),
    "added to": lambda b: pt.inc_subtensor(b[1:], b[:-1]),
    "computed": lambda b: pt.set_subtensor(b[1:4], b[:3] * 2),
    "turned around": lambda b: pt.set_subtensor(b[:3], b[:3][::-1]),
    "backward": lambda b: pt.set_subtensor(b[3::-1], b[:4]),
    "sums": lambda b: pt.set_subtensor(b[2:5], b[1:7].reshape((2, 3)).sum(axis=0)),
    "less the mean": lambda b: pt.inc_subtensor(b[:3], -b.mean()),
    "strided": lambda b: pt.set_subtensor(b[1::2], b[:8:2]),
    "a computed place": lambda b: pt.set_subtensor(b[PLACE : PLACE + 3], b[:3]),
    "added to a computed place": lambda b: pt.inc_subtensor(b[PLACE : PLACE + 2], b[:2]),
    "up to a computed place": lambda b: pt.set_subtensor(b[1:PLACE], b[: PLACE - 1]),
    "then reshaped": lambda b: pt.set_subtensor(b[1:], b[:-1]).reshape((1, 9, 1)),
    "twice": lambda b: shifted(shifted(b.reshape((9, 1)))).reshape((3, 3)),
    "read twice": lambda b: pt.concatenate(
        [
            shifted(b.reshape((9, 1)))[:5, 0],
            pt.sum(shifted(b.reshape((9, 1))) > 1, keepdims=True)[0],
        ]
    ),
    "rows": lambda b: pt.set_subtensor(b.reshape((3, 3))[1:], b.reshape((3, 3))[:-1]),
    "a row": lambda b: pt.set_subtensor(b.reshape((3, 3))[1], b.reshape((3, 3))[1][::-1]),
    "places": lambda b: pt.set_subtensor(b[np.array([1, 2, 3])], b[:3]),
    "integers": lambda b: pt.set_subtensor((b * 9).astype("int8")[1:], (b * 9).astype("int8")[:-1]),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("array", ARRAYS)
def test_values_are_read_before_they_are_overwritten(array: str, write: str) -> None:
    output = WRITES[write](ARRAYS[array]())
    computed = "computed place" in write
    inputs = [X, K] if computed else [X]
    calls = [(DATA, float(k))[: len(inputs)] for k in ((1, 2, 4, 1) if computed else (1,))]
    check_against_python(inputs, output, *calls)


def test_states_that_are_donated() -> None:
    state = pytensor.shared(DATA.reshape(9, 1, 1).copy(), shape=(9, 1, 1))
    flat = state.reshape((9,))
    update = pt.set_subtensor(flat[1:], flat[:-1] * 0.5).reshape((9, 1, 1))
    f = pytensor.function([], updates={state: update}, mode="JAXSELECTIVE")
    expected = DATA.copy()
    for _ in range(4):
        f()
        expected[1:] = expected[:-1] * 0.5
    np.testing.assert_allclose(state.get_value().ravel(), expected)


def test_inside_of_a_loop() -> None:
    def step(state: Any) -> Any:
        block = pt.cumsum(state).reshape((9, 1))
        return pt.set_subtensor(block[1:], block[:-1] * 0.5).reshape((9,))

    states = pytensor.scan(step, outputs_info=[X], n_steps=3, return_updates=False)
    check_against_python([X], states, (DATA,))


def test_saved_code_for_any_length(tmp_path: Path) -> None:
    total = pt.cumsum(X)
    f = pytensor.function([X], pt.set_subtensor(total[1:], total[:-1]), mode="JAXSELECTIVE")
    f(DATA)
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    for length in (2, 9, 70):
        given = np.arange(1.0, length + 1)
        expected = np.cumsum(given)
        np.testing.assert_allclose(loaded(given), [expected[0], *expected[:-1]])


OVERLAPPING = {
    "shifted": lambda x: pt.set_subtensor(x[1:], x[:-1]),
    "reshaped before": lambda x: pt.set_subtensor(x.reshape((3, 3))[1:], x[:3]),
    "after another write": lambda x: pt.set_subtensor(pt.set_subtensor(x[1:], 0.0)[2:], x[:-2]),
    "turned around": lambda x: pt.set_subtensor(x[1:], x[1:][::-1]),
    "of a part": lambda x: pt.set_subtensor(x[:9][1:], x[:8]),
    "a sum": lambda x: pt.inc_subtensor(x[1:], x.sum()),
    "copies": lambda x: shifted(pt.alloc(x, 2, 9).reshape((18, 1))),
    "zeros that were written to": lambda x: shifted(pt.set_subtensor(pt.zeros(9)[:3], x[:3])),
}
APART = {
    "entry by entry": lambda x: pt.set_subtensor(x[1:], pt.exp(x[1:]) * 2 + K),
    "another array": lambda x: pt.inc_subtensor(x[1:], pt.exp(pt.dvector("y"))),
    "into zeros": lambda x: pt.inc_subtensor(pt.zeros(9)[1:], x[:-1]),
    "zeros": lambda x: shifted(pt.zeros((9, 1)).reshape((9,))),
    "one entry": lambda x: pt.set_subtensor(x[1], x[:5].sum()),
    "from a loop": lambda x: pt.set_subtensor(
        x[1:],
        pytensor.scan(lambda e, s: s + e, [x[1:]], [pt.zeros(())], return_updates=False),
    ),
}


@pytest.mark.parametrize("name", [*OVERLAPPING, *APART])
def test_only_where_they_overlap(name: str) -> None:
    """A value that is stored costs a pass over memory."""
    build = {**OVERLAPPING, **APART}[name]
    assert reads_what_it_writes(build(pt.dvector("x")).owner) is (name in OVERLAPPING)
