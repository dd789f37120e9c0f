"""Arrays of changing lengths that masks select from, square ones and whole arguments too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pytensor_jaxlink import JAXLinker

X, v, w = pt.dmatrix("X"), pt.dvector("v"), pt.dvector("w")
mask = v > 0
GRAPHS: dict[str, Any] = {
    "rows": X[mask],
    "columns": X[:, mask],
    "rows, summed": X[mask].sum(axis=1),
    "both, summed": X[mask][:, mask].sum(),
    "a product": X[:, mask] @ v[mask],
    "set": pt.set_subtensor(X[mask], 0.0),
    "set in columns": pt.set_subtensor(X[:, mask], v[mask]),
    "a gradient": pt.grad((X[mask] ** 2).sum(), X),
    "a determinant": pt.linalg.slogdet((X @ X.T + pt.eye(X.shape[0]))[mask][:, mask])[1],
    "another vector": w[mask],
    "two results": [X[mask], w[mask]],
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("dynamic", ["auto", True])
def test_few_programs(name: str, dynamic: Any) -> None:
    outputs, inputs = GRAPHS[name], [X, v, w]
    options: Any = {"on_unused_input": "ignore"}
    f: Any = pytensor.function(inputs, outputs, mode=JAXLinker(dynamic=dynamic), **options)
    python = pytensor.function(inputs, outputs, mode=Mode("py"), **options)
    draws = np.random.default_rng(1)
    for length in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 0):
        arguments = [draws.normal(size=(length,) * each.type.ndim) for each in inputs]
        found, expected = f(*arguments), python(*arguments)
        pairs = zip(found, expected, strict=True) if name == "two results" else [(found, expected)]
        for ours, theirs in pairs:
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    programs = sum(f.stats.compilations) + sum(f.stats.padded.compilations)
    assert programs <= (2 if dynamic == "auto" else 1)
    assert not f.stats.fallbacks


def test_lengths_that_differ() -> None:
    """An empty mask is for an array of any length."""
    f: Any = pytensor.function([X, v], X[mask], mode=JAXLinker())
    for length in range(3, 8):
        f(np.ones((length, length)), np.ones(length))
    assert f(np.ones((4, 4)), np.ones(0)).shape == (0, 4)
    with pytest.raises(IndexError):
        f(np.ones((4, 4)), np.ones(3))
    assert f(np.ones((9, 9)), np.ones(9)).shape == (9, 9)
