"""Waiting for results: looking first, then sleeping."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from pytensor_jaxlink.runtime import waiting
from pytensor_jaxlink.runtime.waiting import all_hold, waited_for


class Late:
    """An array that is ready at a certain look, and counts what it is asked."""

    def __init__(self, ready_at: int) -> None:
        self.ready_at, self.looks, self.blocked = ready_at, 0, False

    def is_ready(self) -> bool:
        self.looks += 1
        return self.looks >= self.ready_at

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self.blocked = self.looks < self.ready_at
        return np.array(7.0)


@pytest.fixture(autouse=True)
def ten_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOKS", 10)


@pytest.mark.parametrize("ready_at", [1, 2, 11])
def test_what_is_soon_ready_is_not_blocked_on(ready_at: int) -> None:
    late = Late(ready_at)
    assert waited_for(late) == 7.0
    assert late.looks == ready_at
    assert not late.blocked


def test_what_takes_longer_is_blocked_on() -> None:
    late = Late(1_000)
    assert waited_for(late) == 7.0
    assert late.looks == 11
    assert late.blocked


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), True),
        ((True, np.True_, jnp.asarray(True)), True),
        ((jnp.asarray(True), np.array(False)), False),
        ((jnp.asarray(False), True), False),
        ((False,), False),
    ],
)
def test_conditions_from_everywhere(conditions: tuple[Any, ...], expected: bool) -> None:
    assert all_hold(*conditions) is expected
