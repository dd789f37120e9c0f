"""Reshapes of selections to lengths that are computed: the values or the exception of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors

from pytensor_jaxlink import JAXLinker
from tests.helpers import outcome

X, M, T = pt.dvector("x"), pt.dmatrix("m"), pt.dtensor3("t")
J, N, SHAPE = pt.lscalar("j"), pt.lscalar("n"), pt.lvector("shape")

ROWS = M[M[:, 0] > 0]
ENTRIES = X[X > 0]
MIDDLE = T[:, T[0, :, 0] > 0]

RESHAPED = {
    "flat": ROWS.reshape((J,)),
    "flat by a vector": ROWS.reshape(SHAPE, ndim=1),
    "flat, literal": ROWS.reshape((6,)),
    "flat, its size": ROWS.reshape((ROWS.size,)),
    "flat, the size of another": ENTRIES.reshape((X.shape[0],)),
    "of one dimension": ENTRIES.reshape((J,)),
    "rows": ROWS.reshape((ROWS.shape[0], J)),
    "rows of three": ROWS.reshape((ROWS.shape[0], 3, J)),
    "groups": ENTRIES.reshape((J, 2)),
    "groups of rows": ROWS.reshape((J, 1, M.shape[1])),
    "both": ENTRIES.reshape((J, J)),
    "beside the mask": MIDDLE.reshape((MIDDLE.shape[0], MIDDLE.shape[1], J)),
    "together": MIDDLE.reshape((MIDDLE.shape[0] * MIDDLE.shape[1], J)),
    "of a prefix": M[:N].reshape((N, J)),
    "of a prefix by its length": M[:N].reshape((M[:N].shape[0], J)),
    "of an input": M.reshape((M.shape[0], J)),
}


def _calls(inputs: list[Any]) -> list[list[Any]]:
    matrices = [np.ones((2, 3)), -np.ones((2, 3)), np.ones((2, 0)), np.ones((0, 3))]
    lengths = [-1, 3, 0, 2, -2, 6]
    calls = []
    for number, matrix in enumerate([*matrices, np.ones((4, 3)), *matrices[::-1]]):
        for length in lengths:
            values = {
                X: matrix[:, 0] if matrix.shape[1] else np.ones(2),
                M: matrix,
                T: np.ones((2, *matrix.shape)) * matrix,
                J: length,
                N: number % 3,
                SHAPE: np.array([length, 2][: 1 + number % 2]),
            }
            calls.append([values[variable] for variable in inputs])
    return calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rewrites", [None, "fast_run"])
@pytest.mark.parametrize("name", RESHAPED)
def test_a_computed_length(name: str, rewrites: str | None) -> None:
    output = RESHAPED[name]
    inputs = [v for v in (X, M, T, J, N, SHAPE) if v in set(ancestors([output]))]
    modes = Mode(JAXLinker(), rewrites), Mode("py", rewrites)
    f, reference = (pytensor.function(inputs, output, mode=mode) for mode in modes)
    for arguments in _calls(inputs):
        found, expected = outcome(f, *arguments), outcome(reference, *arguments)
        if isinstance(expected, type):
            assert found is expected, arguments
        else:
            np.testing.assert_array_equal(found, expected, str(arguments), strict=True)


@pytest.mark.parametrize("first", [True, False])
def test_nothing_that_is_padded(first: bool) -> None:
    """There any other length will do, and the padded array has entries."""
    lengths = (X.shape[0], J % 4) if first else (J % 4, X.shape[0])
    f, reference = (
        pytensor.function([X, J], X.reshape(lengths), mode=mode)
        for mode in ("JAXSELECTIVE", Mode("py", "fast_run"))
    )
    for count, j in (
        (6, 1),
        (5, 1),
        (4, 1),
        (0, 0),
        (0, 3),
        (3, 1),
        (0, 0),
        (3, 0),
        (3, 2),
        (0, 1),
    ):
        given = np.arange(float(count)), j
        one, other = outcome(f, *given), outcome(reference, *given)
        if isinstance(other, type):
            assert one is other
        else:
            np.testing.assert_array_equal(one, other, strict=True)
    assert f.explain().failures == ()
