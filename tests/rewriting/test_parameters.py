"""Rewrites look at each parameter of the operations that a selection passes through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest

from tests.edges.compare import assert_as_in_python

M, X, V = pt.dmatrix("m"), pt.dvector("x"), pt.dscalar("v")
MASK, PLACES, K = pt.vector("mask", dtype="bool"), pt.lvector("places"), pt.lscalar("k")
U, Z, W = pt.scalar("u", dtype="uint64"), pt.zscalar("z"), pt.dvector("w")

NUMBERS = np.arange(12.0).reshape(4, 3)
CHOSEN = np.array([True, False, True, True])
SYSTEM = np.array([[2.0, 1, 1], [1, 3, 1], [1, 1, 4]])
SQUARE = M[MASK][:, MASK]
COUNT = pt.nonzero(MASK)[0].shape[0]
LATE = X.sum().astype("int64")


def many(*counts: int) -> list[Any]:
    return [(np.ones(count, bool), 1.0) for count in counts]


def columns(one: Any, other: Any) -> Any:
    return pt.join(1, one.reshape((LATE, -1)), other.reshape((LATE, -1)))


def rows(one: Any, other: Any) -> Any:
    return pt.join(0, one.reshape((LATE, -1)).T, other.reshape((LATE, -1)).T)


PARTS = (W[:2], W[2:6]), (W[6:10], W[10:])

CASES: dict[str, tuple[list[Any], Any, list[Any]]] = {
    f"tridiagonal, {ndim}": (
        [M, MASK, X],
        pt.linalg.solve(
            SQUARE,
            X[MASK] if ndim == 1 else X[MASK][:, None],
            assume_a="tridiagonal",
            b_ndim=ndim,
        ).sum(),
        [(SYSTEM, mask, np.ones(3)) for mask in map(np.array, ([True, False, True], [True] * 3))],
    )
    for ndim in (1, 2)
}
CASES |= {
    f"{name} of a sum in {dtype}": (
        [MASK, V],
        make(MASK.sum(dtype=dtype)),
        many(3, 128, 256),
    )
    for dtype in ("int8", "uint8")
    for name, make in {
        "range": lambda n: pt.cumsum(pt.arange(n)).sum(),
        "stretch": lambda n: pt.exp(pt.alloc(V, n)).cumsum(),
        "unit matrix": lambda n: pt.cumsum(pt.eye(n) * V).max(),
    }.items()
}
CASES |= {
    "range of a sum that is computed in int8": (
        [MASK, V],
        pt.cumsum(pt.arange(MASK.sum(dtype="int64", acc_dtype="int8"))).sum(),
        many(3, 128),
    ),
    "unit matrix of fewer rows than none": (
        [MASK],
        pt.eye(COUNT - 2).sum(),
        [(CHOSEN[:1],), (CHOSEN,)],
    ),
    "unit matrix of fewer columns": (
        [MASK],
        pt.eye(3, COUNT - 2).sum(),
        [(CHOSEN[:1],), (CHOSEN,)],
    ),
    "sum of a complex stretch": (
        [Z, X],
        pt.join(0, pt.alloc(Z, LATE), pt.ones(2, dtype="complex128")).sum(),
        [(value, np.array([n])) for value in (np.inf + 0j, 1 + 2j) for n in (1.0, 3.0, 0.0)],
    ),
    "columns of other widths": (
        [X, W],
        (columns(*PARTS[0]) * columns(*PARTS[1])).sum(),
        [(np.array([2.0]), np.arange(12.0) ** 2)],
    ),
    "rows of other widths": (
        [X, W],
        (rows(*PARTS[0]) - rows(*PARTS[1])).max(),
        [(np.array([2.0]), np.arange(12.0) ** 2)],
    ),
}
LARGE = [(NUMBERS, CHOSEN, n, np.array([0, 1, 2, 1])) for n in (0, 2, 7, 2**63, 2**64 - 1)]
CASES |= {
    f"{name} at a number of uint64": ([M, MASK, U, PLACES], output, LARGE)
    for name, output in {
        "entries of rows": M[MASK][U, np.array([0, 1])],
        "entries": M[U, PLACES[MASK]],
        "set": pt.set_subtensor(M[U, PLACES[MASK]], 9.0),
        "added": pt.inc_subtensor(M[U, PLACES[MASK]], 9.0),
    }.items()
}
ENDS = [(np.arange(4.0), CHOSEN, k) for k in (2**63 - 1, 2**63 - 2, -(2**63), 0, 5, -1)]
CASES |= {
    f"backward slice {name}": ([X, MASK, K], output, ENDS)
    for name, output in {
        "from": X[MASK][K::-1].sum(),
        "to": X[MASK][:K:-1],
        "in steps": X[MASK][K::-2],
    }.items()
}
CASES |= {
    f"unit matrix at {name}": (
        [K, PLACES, MASK],
        pt.eye(K, 5)[PLACES, pt.nonzero(MASK)[0]],
        [(4, np.array(places), CHOSEN)],
    )
    for name, places in {"one row": [1], "two rows": [0, 1], "three rows": [0, 1, 3]}.items()
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_in_python(name: str) -> None:
    assert_as_in_python(*CASES[name])
