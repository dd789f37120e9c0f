"""Unsigned bounds beyond every array, from which sizes are computed: ``-k`` of a uint64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker

if pytensor.__version__.startswith("3.0"):
    pytest.skip("its rewrites take a length of uint64 for a float", allow_module_level=True)

X, K = pt.dvector("x"), pt.tensor("k", shape=(), dtype="uint64")
FAR = -K  # 2**64 - k

PARTS: dict[str, Any] = {
    "from": X[FAR:],
    "backward": X[FAR::-1],
    "backward, to": X[:FAR:-1],
    "between": X[K:FAR],
    "a sum": (X[FAR::-1] ** 2).sum(),
    "its gradient": pytensor.grad((X[FAR::-1] ** 2).sum(), X),
    "set": pt.set_subtensor(X[FAR::-1], 7.0),
    "increased": pt.inc_subtensor(X[:FAR], 1.0),
}


@pytest.mark.parametrize("dynamic", ["auto", True])
@pytest.mark.parametrize("name", PARTS)
def test_a_bound_stays_beyond_the_array(name: str, dynamic: Any) -> None:
    f = pytensor.function([X, K], PARTS[name], mode=JAXLinker(dynamic=dynamic))
    plain = pytensor.function([X, K], PARTS[name], mode="FAST_COMPILE")
    for length, k in ((4, 4), (4, 4), (130, 3), (5, 5), (5, 0)):
        given = np.arange(1.0, length + 1), np.uint64(k)
        np.testing.assert_array_equal(f(*given), plain(*given), strict=True)


@pytest.mark.parametrize("dynamic", ["auto", True])
def test_an_index_beyond_the_array(dynamic: Any) -> None:
    f = pytensor.function([X, K], pt.exp(X[FAR]), mode=JAXLinker(dynamic=dynamic))
    for length in (4, 4, 130, 5):
        with pytest.raises((IndexError, OverflowError)):
            f(np.arange(1.0, length + 1), np.uint64(3))
