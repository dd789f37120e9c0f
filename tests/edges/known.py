"""The table of known differences, as `docs/known_differences.md` has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "known_differences.md"

OLD = pytensor.__version__.startswith("3.0.")
GPU = jax.default_backend() == "gpu"

whole = False
"""Whether the whole of a table runs, and not the part of it that tests take."""


@dataclass
class Row:
    """One difference that is allowed, and how many cases needed it."""

    op: str
    where: str
    used: int = field(default=0, compare=False)

    @property
    def is_of_here(self) -> bool:
        """Whether what runs may need it, with this PyTensor and on this device."""
        first = self.where.partition(" ")[0]
        return {"old": OLD, "gpu": GPU, "full": whole}.get(first, True)

    def holds(self, inputs: tuple[Any, ...], expected: Any, found: Any) -> bool:
        names = dict(zip("abcd", inputs, strict=False))
        names |= {"inputs": inputs, "expected": expected, "found": found, "full": whole}
        return bool(eval(self.where, dict(_VOCABULARY), names))


@cache
def rows() -> tuple[Row, ...]:
    """The rows of the page."""
    lines = PAGE.read_text().splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| `")]
    return tuple(Row(_code(op), _code(where)) for op, where, *_ in cells)


def known(op: str, inputs: tuple[Any, ...], expected: Any, found: Any) -> Row | None:
    """The row that names this difference of an Op, by the name of its class, or None."""
    for row in rows():
        if (row.op == "*" or op in row.op.split(", ")) and row.holds(inputs, expected, found):
            row.used += 1
            return row
    return None


def _code(cell: str) -> str:
    return cell.strip().strip("`").replace("\\|", "|")


def _is_array(value: Any) -> bool:
    return not isinstance(value, type) and np.asarray(value).dtype.kind in "fc"


def denormal(value: Any) -> bool:
    array = np.asarray(value)
    if not _is_array(value) or array.dtype == np.float16:  # these are kept
        return False
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return any(
        bool(np.any((part != 0) & (np.abs(part) < np.finfo(part.dtype).tiny))) for part in parts
    )


def close(found: Any, expected: Any, tolerance: float) -> bool:
    """Relatively, or where the value is below 1 absolutely; the signs of zeros may differ."""
    if isinstance(found, type) or isinstance(expected, type):
        return False
    return bool(np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True))


def cut(value: Any) -> bool:
    """Whether a complex number is at the end of its domain or on an axis, where cuts are."""
    array = np.asarray(value)
    parts = (array.real, array.imag)
    huge = np.sqrt(np.finfo(array.dtype).max) if array.dtype.kind == "c" else 0
    return array.dtype.kind == "c" and any(
        bool(np.any((part == 0) | ~(np.abs(part) < huge))) for part in parts
    )


def least(value: Any) -> bool:
    """Whether half of a number is denormal."""
    return _is_array(value) and denormal(np.asarray(value) / 2)


def out_of_range(value: Any) -> bool:
    """Whether a real part has no place in the range of uint32."""
    with np.errstate(invalid="ignore"):
        inside = (np.real(value) > -1) & (np.real(value) < 2.0**32)
    return _is_array(value) and not bool(np.all(inside))


def _any(test: Any) -> Any:
    return lambda value: _is_array(value) and bool(np.any(test(np.asarray(value))))


_VOCABULARY: dict[str, Any] = {
    "np": np,
    "old": OLD,
    "gpu": GPU,
    "denormal": denormal,
    "inf": _any(np.isinf),
    "nan": _any(np.isnan),
    "zero": _any(lambda array: array == 0),
    "close": close,
    "cut": cut,
    "least": least,
    "out_of_range": out_of_range,
    "raises": lambda value: isinstance(value, type),
}
