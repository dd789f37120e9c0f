"""The edge values of each dtype."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

INTEGERS = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = (*INTEGERS, *FLOATS, *COMPLEX)

# The ends of narrower integer types, and what lies next to them.
_BORDERS = [
    sign * (2**bits) + step
    for bits in (7, 8, 15, 16, 31, 32, 63)
    for sign in (1, -1)
    for step in (-1, 0)
]


@cache
def edges(dtype: str) -> np.ndarray[Any, Any]:
    """Zeros, ones, the extremes, the ends of narrower types, NaN and infinities."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        return _integers(dtype)
    if kind == "f":
        return _floats(dtype)
    return _complex(dtype)


@cache
def few(dtype: str) -> np.ndarray[Any, Any]:
    """A smaller set, for functions of three arguments and more."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return edges(dtype)
    if kind in "iu":
        info = np.iinfo(dtype)
        return np.array(sorted({0, 1, 2, info.max, info.min, max(-1, info.min)}), dtype)
    if kind == "f":
        limits = np.finfo(dtype)
        return np.array([0.0, -0.0, 0.5, 1, -1, 2.5, limits.max, np.nan, np.inf, -np.inf], dtype)
    return np.array([0, -0.0, 1, 1j, -1.5 + 2j, complex(np.inf, 1), complex(0, np.nan)], dtype)


def _integers(dtype: str) -> np.ndarray[Any, Any]:
    info = np.iinfo(dtype)
    wanted = {0, 1, 2, 3, 10, -1, -2, -3, info.min, info.min + 1, info.max - 1, info.max, *_BORDERS}
    return np.array(sorted(v for v in wanted if info.min <= v <= info.max), dtype)


def _floats(dtype: str) -> np.ndarray[Any, Any]:
    limits = np.finfo(dtype)
    sizes = [0, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 10, 127, 128, 255, 1000.5, limits.eps, limits.max]
    sizes += [limits.tiny, limits.smallest_subnormal, 2.0**31, 2.0**32, 2.0**63, 2.0**64, np.inf]
    with np.errstate(over="ignore"):
        signed = np.array([*sizes, *(-float(size) for size in sizes), np.nan], dtype)
    return np.unique(signed.view(f"u{limits.dtype.itemsize}")).view(dtype)


def _complex(dtype: str) -> np.ndarray[Any, Any]:
    limits = np.finfo(dtype)
    parts = [0.0, -0.0, 1.0, -1.0, 2.5, -0.5, float(limits.max), np.inf, -np.inf, np.nan]
    return np.array([complex(real, imaginary) for real in parts for imaginary in parts], dtype)
