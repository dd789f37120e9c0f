"""Files that older versions wrote still load; one that cannot must fail by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytensor_jaxlink import inspect, load
from tests.data.write import HERE, functions

PATH = HERE / "version_1.jaxlink"
# Of the code in the file, by the samplers of the version that wrote it.
DRAWS = [
    [-1.5669438868657897, 0.9420043222211595],
    [-0.34928607273320006, -0.80625920738695],
]


@pytest.mark.cpu("the file has code for CPUs")
@pytest.mark.parametrize("prefer", ["compiled", "graph"])
def test_version_1(prefer: Any) -> None:
    loaded = load(PATH, prefer=prefer)
    here = functions()
    x = np.random.default_rng(0).normal(size=(5, 3))
    for drawn in DRAWS:
        np.testing.assert_allclose(loaded["step"](x), here["step"](x), rtol=1e-12)
        np.testing.assert_allclose(loaded["powers"](), here["powers"](), rtol=1e-12)
        expected = here["draw"]() if prefer == "graph" else drawn
        np.testing.assert_allclose(loaded["draw"](), expected, rtol=1e-12)
    np.testing.assert_allclose(loaded["first"](x, 4), here["first"](x, 4), rtol=1e-12)


def test_its_manifest() -> None:
    manifest = inspect(PATH).manifest
    assert manifest["version"] == 1
    assert list(manifest["functions"]) == ["step", "first", "draw", "powers"]
