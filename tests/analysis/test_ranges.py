"""Between which numbers the entries of integer arrays lie."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.analysis import range_of
from tests.helpers import PYTHON, compile_both

K, N, U = pt.lscalar("k"), pt.lvector("n"), pt.vector("u", dtype="uint8")
M = pt.matrix("m", shape=(3, 4))
CLIPPED = pt.clip(N, 0, 5)

RANGES: dict[str, tuple[Any, tuple[int, int] | None]] = {
    "constant": (pt.constant([3, -1, 7]), (-1, 7)),
    "no entries": (pt.constant(np.zeros(0, "int8")), (-128, 127)),
    "type": (U, (0, 255)),
    "boolean": (N > 3, (0, 1)),
    "float": (M, None),
    "clip": (CLIPPED, (0, 5)),
    "clip, the wrong way round": (pt.clip(N, 5, 0), (0, 5)),
    "clip of a range": (pt.clip(pt.minimum(N, 3), 0, 5), (0, 3)),
    "clip by an input": (pt.clip(U, 0, pt.minimum(K, 9)), (-(2**63), 9)),
    "minimum and maximum": (pt.maximum(pt.minimum(N, 4), -2), (-2, 4)),
    "switch": (pt.switch(N > K, CLIPPED, 9), (0, 9)),
    "remainder": (N % 7, (0, 6)),
    "remainder of a divisor that may be negative": (N % K, (-(2**63), 2**63 - 1)),
    "arithmetic": (2 * CLIPPED - 3, (-3, 7)),
    "negative": (-CLIPPED, (-5, 0)),
    "wrapped": (pt.cast(pt.clip(N, 0, 300), "uint8"), (0, 255)),
    "wrapped product": (pt.clip(N, 0, 2**62) * 4, (-(2**63), 2**63 - 1)),
    "moved": (CLIPPED[::-1].reshape((2, -1)).T[0], (0, 5)),
    "filled": (pt.full((K,), pt.clip(K, 1, 2)), (1, 2)),
    "joined": (pt.concatenate([CLIPPED, pt.constant([-1, 8])]), (-1, 8)),
    "stacked": (pt.stack([pt.clip(K, 1, 2), pt.constant(4)]), (1, 4)),
    "counted": (pt.arange(2, pt.clip(K, 3, 9), 2), (2, 8)),
    "counted down": (pt.arange(pt.clip(K, 3, 9), 0, -1), (1, 9)),
    "counted by any step": (pt.arange(0, 9, K), (-(2**63), 2**63 - 1)),
    "place of the largest": (M.argmax(axis=1), (0, 3)),
    "place in all": (M.argmax(), (0, 11)),
    "order": (pt.argsort(M, axis=0), (0, 3)),
    "category": (pt.random.categorical(np.ones(4) / 4, size=5), (0, 3)),
    "category of an unknown number": (
        pt.random.categorical(abs(N) / abs(N).sum()),
        (0, 2**63 - 1),
    ),
}


@pytest.mark.parametrize("name", RANGES)
def test_range(name: str) -> None:
    array, expected = RANGES[name]
    assert range_of(array) == expected


VALUES = [
    {"k": k, "n": np.array(n), "u": np.array([0, 255], "uint8"), "m": m}
    for k in (-9, -1, 1, 4)
    for n in ([-7, 3, 9, 2], [10**18, -(10**18), 0, 5], [301, 1, 2, 4])
    for m in (np.arange(12.0).reshape(3, 4), -np.eye(3, 4))
]


@pytest.mark.parametrize("name", RANGES)
def test_entries_lie_in_the_range(name: str) -> None:
    array, expected = RANGES[name]
    function = pytensor.function([K, N, U, M], array, mode=PYTHON, on_unused_input="ignore")
    for values in VALUES:
        try:
            entries = function(**values)
        except ValueError:
            continue  # a negative length
        if expected is not None and np.size(entries):
            assert expected[0] <= np.min(entries) <= np.max(entries) <= expected[1]


X = pt.vector("x", shape=(6,))
CHECKED = {"clipped": 0, "from the end": 0, "given": 1, "clipped too far": 1}
INDICES = {
    "clipped": CLIPPED,
    "from the end": CLIPPED - 6,
    "given": N,
    "clipped too far": pt.clip(N, 0, 6),
}


@pytest.mark.parametrize("name", CHECKED)
def test_an_index_in_range_needs_no_check(name: str) -> None:
    """PyMC's categorical variables clip the index: each call waited for the check before."""
    ours, python = compile_both([X, N], X[INDICES[name]])
    for places in ([0, 5], [3], []):
        values = np.arange(6.0), np.array(places, "int64")
        np.testing.assert_array_equal(ours(*values), python(*values))
    [region] = ours.vm.compiled.lowered.functions
    _, conditions = region((), jnp.arange(6.0), jnp.array([0, 5]))
    assert len(conditions) == CHECKED[name]
