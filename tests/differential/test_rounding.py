"""The noise of the search makes and parts what is equal but for rounding."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.tensor.extra_ops import unique

from pytensor_jaxlink.lowering.scalars import comparisons
from tests.differential.rounding import noisy_mode, spread
from tests.helpers import PYTHON


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_entries_that_are_equal_in_some_runs(dtype: str) -> None:
    rng, given = np.random.default_rng(0), np.array([2.7, 2.7 + 2**-51, 2.7, 2.7, 6.2], dtype)
    runs = [spread(given, rng) for _ in range(16)]
    counts = {len(np.unique(each)) for each in runs}
    assert min(counts) == 2 < max(counts)
    for each in runs:
        np.testing.assert_allclose(each, given, rtol=0, atol=2.01 * 2**-52 * 6.2, strict=True)


def test_what_is_not_finite_or_zero_stays() -> None:
    rng = np.random.default_rng(0)
    for given in (np.array([np.inf, np.nan, 1.0]), np.zeros(2), np.zeros(0)):
        for _ in range(8):
            np.testing.assert_allclose(spread(given, rng), given, rtol=1e-15, strict=True)


def test_the_number_of_distinct_eigenvalues() -> None:
    matrix = pt.dmatrix()
    mode, seed = noisy_mode(PYTHON)
    count = pytensor.function(
        [matrix], unique(pt.linalg.eigvalsh(matrix, None)).shape[0], mode=mode
    )
    found = set()
    for number in range(8):
        seed(number, whole=False)
        found.add(int(count(np.diag([2.7, 2.7, 2.7, 2.7, 6.2]))))
    assert min(found) == 2 < max(found)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(("entry", "signs"), [(0.0, {True, False}), (1.0, {False})])
def test_the_sign_of_a_sum_of_known_zeros(entry: float, signs: set[bool], inner: bool) -> None:
    x, factor = pt.dvector(), pt.dscalar()
    total = (x * factor).sum()
    if inner:
        total = OpFromGraph([x, factor], [total])(x, factor)
    mode, seed = noisy_mode(PYTHON)
    f = pytensor.function([x, factor], 1 / total, mode=mode)
    found = set()
    for number in range(8):
        seed(number, whole=None)
        found.add(bool(f(np.full(3, entry), -0.0 if entry == 0 else 1.0) < 0))
    assert found == signs


@pytest.mark.parametrize("copied", [False, True])
def test_the_sign_of_a_sum_of_zeros_beside_others(copied: bool) -> None:
    """XLA takes a product for the sum of copies."""
    rows = pt.dmatrix()
    mode, seed = noisy_mode(PYTHON)
    total = (pt.tile(rows, (2, 1)) if copied else rows).sum(axis=0)
    f, found = pytensor.function([rows], total, mode=mode), set()
    for number in range(8):
        seed(number, whole=None)
        found.add(tuple(np.signbit(f(np.array([[1.0, -0.0], [1.0, -0.0]])))))
    assert found == {(False, False), *([(False, True)] if copied else [])}


@pytest.mark.parametrize("bound", [0, 1])
def test_the_sign_of_a_larger_zero(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open in large arrays: where the search lowers the bound, in all."""
    monkeypatch.setattr(comparisons, "_LARGE", bound)
    x, y = pt.dvectors("xy")
    mode, seed = noisy_mode(PYTHON)
    f = pytensor.function([x, y], pt.maximum(x, y), mode=mode)
    found = set()
    for number in range(8):
        seed(number, whole=None)
        found.update(np.signbit(f(np.zeros(3), -np.zeros(3))))
    assert found == ({True, False} if bound == 0 else {True})
