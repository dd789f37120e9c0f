"""Reductions of no arrays at all, each of which would have entries."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from tests.helpers import PYTHON, assert_same


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 2)])
def test_no_arrays(dtype: str, axis: int | tuple[int, ...]) -> None:
    x = pt.TensorType(dtype, (None, None, None))("x")
    outputs = [pt.max(x, axis), pt.min(x, axis), pt.argmax(x, axis), pt.argmin(x, axis)]
    f, reference = (pytensor.function([x], outputs, mode=mode) for mode in (JAXLinker(), PYTHON))
    axes = {axis} if isinstance(axis, int) else {*axis}
    shape = [2 if place in axes else 0 for place in range(3)]
    for lengths in (shape, [3, 2, 2]):
        array = np.arange(np.prod(lengths)).reshape(lengths).astype(dtype)
        assert_same(f(array), reference(array))
    assert not f.explain().failures
