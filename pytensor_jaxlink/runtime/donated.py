"""Arrays of the caller's that were donated, and the error when they are given again."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import jax

from pytensor_jaxlink.errors import DonatedArgumentError
from pytensor_jaxlink.remedies import Remedy

_donated: dict[int, tuple[Any, str]] = {}


def remember_donated(name: str, value: object, call: int) -> None:
    """Note which call of a function an array is donated to, as long as the array lives."""
    key = id(value)
    gone = weakref.ref(value, lambda _: _donated.pop(key, None))
    _donated[key] = gone, f"to call {call} of a function, as its input {name!r}"


def refuse_donated(names: Sequence[str], values: Sequence[object]) -> None:
    """Raise where an argument was donated to an earlier call."""
    for name, value in zip(names, values, strict=False):
        if isinstance(value, jax.Array) and value.is_deleted():
            _, where = _donated.get(id(value), (None, "elsewhere"))
            raise DonatedArgumentError(
                f"the array given for input {name!r} no longer exists: it was donated {where}. "
                f"{Remedy.PASS_COPY.text()}, or {Remedy.DO_NOT_DONATE.text()}."
            )
