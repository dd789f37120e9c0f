"""Loops over arrays that become empty after they were padded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from tests.link.test_dynamic_sizes import answer, assert_same

x, y = pt.dvector("x"), pt.dvector("y")
START: Any = pt.constant(np.float64(1))


def _loop(sequences: list[Any], before: Any = START, **options: Any) -> list[Any]:
    """A state, and the output of a step that no step reads."""
    return pytensor.scan(
        lambda entry, *states: [entry + sum(states), entry * states[-1]],
        sequences=sequences,
        outputs_info=[before, None],
        return_updates=False,
        **options,
    )


def _of_rows() -> list[Any]:
    """A loop in a loop: of each row its last output."""
    rows = pytensor.scan(
        lambda a, y: _loop([a * y])[1][-1],
        sequences=[x],
        non_sequences=[y],
        return_updates=False,
    )
    return [rows, rows]


LOOPS: dict[str, Any] = {
    "a number": lambda: _loop([x]),
    "a vector": lambda: _loop([x], pt.constant(np.ones(2))),
    "two states before": lambda: _loop([x], {"initial": pt.constant(np.ones(2)), "taps": [-2, -1]}),
    "backwards": lambda: _loop([x], go_backwards=True),
    "a mask": lambda: _loop([x[x > 1]]),
    "a slice": lambda: _loop([x[1:]]),
    "counted": lambda: _loop([x], n_steps=(y > 0).sum()),
    "in a loop": _of_rows,
}
READ: dict[str, Any] = {
    "the last": lambda state, output: [state[-1], output[-1]],
    "the last two": lambda state, output: [state[-2:], output[-2:]],
    "all, and the last": lambda state, output: [state, output[-1:]],
    "the third from the end": lambda state, output: [state, output[-3]],
}


@pytest.mark.filterwarnings("ignore:region .* was compiled")
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("loop", LOOPS)
def test_outputs_without_state(loop: str, read: str) -> None:
    graph = READ[read](*LOOPS[loop]())
    inputs: Any = [x, y] if loop in ("counted", "in a loop") else [x]
    f, python = (
        pytensor.function(inputs, graph, mode=mode) for mode in ("JAXSELECTIVE", Mode("py"))
    )
    for length in (4, 3, 0, 1, 2, 0, 3):
        for steps in (length, 0):
            arguments = [np.arange(1.0, length + 1), np.arange(1.0, steps + 1)][: len(inputs)]
            assert_same(answer(f, arguments), answer(python, arguments))
