"""Expressions of arrays of each type: whole, of what a mask selects, and of a prefix.

Rewrites follow a selection through an expression, so a rule may suit one type alone, or fail for
the second length.  `python -m tests.edges expressions` compares all of them with the Python linker;
the tests a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytensor.tensor as pt

from tests.edges.indexing import Case

TYPES = ("bool", "int8", "uint8", "int64", "uint64", "float32", "float64", "complex128")
FORMS = ("whole", "mask", "prefix")

Expression = Callable[[Any, Any, Any], Any]

# Of a matrix and two vectors.  Linear algebra has a table of its own; `cumsum` of narrow integers
# has another dtype in Python than it declares (docs/upstream.md).
EXPRESSIONS: dict[str, Expression] = {
    **{
        f"{name} {axis}": lambda m, v, w, name=name, axis=axis: getattr(pt, name)(m, axis=axis)
        for name, axis in product(
            ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"), (None, 0)
        )
    },
    "sum as int8": lambda m, v, w: pt.sum(m, dtype="int8"),
    "mean": lambda m, v, w: pt.mean(m, axis=1),
    "sorted": lambda m, v, w: pt.sort(v),
    "sorted columns": lambda m, v, w: pt.sort(m, axis=0),
    "differences": lambda m, v, w: pt.diff(v),
    "product": lambda m, v, w: pt.dot(v, w),
    "outer product": lambda m, v, w: pt.outer(v, w),
    "joined": lambda m, v, w: pt.concatenate([v, w[:1], v]),
    "joined to reals": lambda m, v, w: pt.concatenate([v, np.array([1.5])]),
    "joined to integers": lambda m, v, w: pt.concatenate([np.array([7], "int16"), v]),
    "stacked": lambda m, v, w: pt.stack([v, w]),
    "chosen by": lambda m, v, w: pt.switch(v, w, 3),
    "where": lambda m, v, w: pt.where(pt.neq(v, 1), v, w),
    "clipped": lambda m, v, w: pt.clip(v, 1, 3),
    "clipped to reals": lambda m, v, w: pt.clip(v, 0.5, 2.5),
    "distinct": lambda m, v, w: pt.unique(v),
    "searched": lambda m, v, w: pt.searchsorted(pt.sort(v), w),
    "counted": lambda m, v, w: pt.bincount(v),
    "repeated": lambda m, v, w: pt.repeat(v, 2),
    "tiled": lambda m, v, w: pt.tile(v, (2, 2)),
    "rolled": lambda m, v, w: pt.roll(v, 2),
    "reversed": lambda m, v, w: pt.flip(m),
    "diagonal": lambda m, v, w: pt.diag(v),
    "lower triangle": lambda m, v, w: pt.tril(m),
    "upper triangle": lambda m, v, w: pt.triu(m, 1),
    "taken": lambda m, v, w: pt.take(v, [0, -1]),
    "filled": lambda m, v, w: pt.full_like(v, 2.75),
    "softmax": lambda m, v, w: pt.special.softmax(v),
    "softmax of columns": lambda m, v, w: pt.special.softmax(m, axis=0),
    "log softmax": lambda m, v, w: pt.special.log_softmax(m, axis=1),
    "quotient": lambda m, v, w: v // w,
    "remainder": lambda m, v, w: v % w,
    "ratio": lambda m, v, w: v / w,
    "power": lambda m, v, w: v**2,
    "inverted": lambda m, v, w: ~v,
    "larger": lambda m, v, w: pt.maximum(v, w),
    "as int8": lambda m, v, w: pt.cast(v, "int8"),
    "as bool": lambda m, v, w: pt.cast(v, "bool"),
    "set": lambda m, v, w: pt.set_subtensor(v[1:2], 2.75),
    "incremented": lambda m, v, w: pt.inc_subtensor(v[[0, 0]], w[0]),
    "incremented by reals": lambda m, v, w: pt.inc_subtensor(v[[0, 0]], 0.75),
    "slice incremented by reals": lambda m, v, w: pt.inc_subtensor(v[:1], 0.75),
    "padded": lambda m, v, w: pt.pad(v, (1, 2), constant_values=3),
    "padded by means": lambda m, v, w: pt.pad(v, 2, mode="mean"),
    "padded by a ramp": lambda m, v, w: pt.pad(v, 2, mode="linear_ramp", end_values=1),
    "Kronecker product": lambda m, v, w: pt.linalg.kron(m, m),
    "covariance": lambda m, v, w: m.T @ m,
}


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix and two vectors, of which no entries are equal that an order would have to tell."""
    rng = np.random.default_rng(0)
    low = -3 if np.dtype(dtype).kind in "ifc" else 0
    entries = [rng.integers(low, 6, shape) for shape in ((4, 4), 6, 6)]
    if np.dtype(dtype).kind in "fc":
        entries = [each + 0.25 for each in entries]
    if np.dtype(dtype).kind == "c":
        entries = [each + 0.5j for each in entries]
    m, v, w = (each.astype(dtype) for each in entries)
    return m, v, w


def case(name: str, dtype: str, form: str) -> Case:
    """An expression of arrays of a type, in one of the forms."""
    m, v, w = pt.matrix("m", dtype=dtype), pt.vector("v", dtype=dtype), pt.vector("w", dtype=dtype)
    given, expression = arrays(dtype), EXPRESSIONS[name]
    op = f"{name}, {form}"
    if form == "whole":
        lengths = [
            (slice(rows), slice(length)) for rows, length in ((4, 6), (1, 1), (0, 0), (3, 5))
        ]
        calls = tuple((given[0][r, r], given[1][k], given[2][k]) for r, k in lengths)
        return Case(op, expression, (m, v, w), calls)
    if form == "prefix":
        n = pt.lscalar("n")
        prefixes: Expression = lambda m, v, w, n: expression(m[:n, :n], v[:n], w[:n])  # noqa: E731
        return Case(op, prefixes, (m, v, w, n), tuple((*given, k) for k in (3, 0, 4, 1)))
    q, r = pt.dvector("q"), pt.dvector("r")
    selected: Expression = lambda m, v, w, q, r: expression(m[r > 0], v[q > 0], w[q > 0])  # noqa: E731
    signs = [
        ([1, -1, 1, 1, -1, 1], [1, 1, 1, -1]),
        ([-1] * 6, [-1] * 4),
        ([1] * 6, [1] * 4),
        ([-1, 1, -1, -1, -1, -1], [-1, -1, -1, 1]),
    ]
    calls = tuple((*given, np.array(one, "d"), np.array(two, "d")) for one, two in signs)
    return Case(op, selected, (m, v, w, q, r), calls)


def cases(
    names: Sequence[str] = tuple(EXPRESSIONS),
    types: Sequence[str] = TYPES,
    forms: Sequence[str] = FORMS,
) -> Iterator[Case]:
    """The table, or a part of it."""
    for name, dtype, form in product(names, types, forms):
        kind = np.dtype(dtype).kind
        # PyTensor 3.0 rewrites a softmax of integers for ever for its Python linker, and has Numba
        # pad complex numbers, which refuses to make reals of them.
        if (kind == "f" or "softmax" not in name) and (kind != "c" or "padded" not in name):
            yield case(name, dtype, form)


def run() -> list[str]:
    """All differences of the table that are not known."""
    return [text for each in cases() for text in each.differences()]
