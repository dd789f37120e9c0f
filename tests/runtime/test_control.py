"""Loops without steps, executed by the host: what PyTensor's own loop gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, load, save
from tests.helpers import as_list, assert_same, compile_both

X, N, TABLE = pt.dvector("x"), pt.lscalar("n"), pt.dmatrix("table")


def loop(step: Callable[..., Any], **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


# The number of values that are unique is computed, so each body has regions of its own.
LOOPS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: loop(lambda e: pt.unique(X + e).sum(), sequences=[X]),
    "vectors": lambda: loop(lambda e: pt.unique(X + e) + X, sequences=[X]),
    "rows": lambda: loop(pt.unique, sequences=[TABLE]),
    "a state": lambda: loop(
        lambda state: state + pt.unique(X).sum(), outputs_info=[X.sum()], n_steps=N
    ),
    "a state and numbers": lambda: loop(
        lambda e, state: (state + e, pt.unique(state + X)[:2].sum()),
        sequences=[X],
        outputs_info=[pt.zeros(()), None],
    ),
    "used": lambda: loop(lambda: pt.unique(X).sum(), n_steps=N).sum() + 1,
}


@pytest.mark.parametrize("name", LOOPS)
def test_without_steps(name: str, tmp_path: Path) -> None:
    f, reference = compile_both([X, N, TABLE], LOOPS[name](), JAXLinker(dynamic=False))
    calls = (np.arange(2.0), 2, np.ones((2, 3))), (np.zeros(0), 0, np.zeros((0, 3)))
    answers = [as_list(f(*arguments)) for arguments in calls]
    save(f, tmp_path / "f")
    loaded = load(tmp_path / "f", prefer="compiled")
    for arguments, answer in zip(calls, answers, strict=True):
        expected = as_list(reference(*arguments))
        for found in (answer, as_list(loaded(*arguments))):
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other)
    assert not f.stats.fallbacks
    assert not f.explain().failures
