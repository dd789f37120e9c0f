"""Arrays of JAX that somebody has deleted or donated: an error, wherever they are read."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import DonatedArgumentError, JAXLinker
from pytensor_jaxlink.runtime.devices import copying_to_host, to_numpy
from pytensor_jaxlink.runtime.stats import Stats
from tests.helpers import black_box, sort_down

X = pt.dvector("x")
GRAPHS: dict[str, Any] = {
    "region": X * 2,
    "host step": black_box(sort_down)(X),
    "cut result": X[X > 0],
    "the argument itself": X,
}


def array_of(length: int) -> Any:
    with jax.enable_x64(True):
        return jax.numpy.ones(length)


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"outputs": "numpy"}], ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_deleted_argument_is_named(name: str, options: dict[str, Any]) -> None:
    """JAX 0.10 ends the process where it is asked whether a deleted array has been computed."""
    f = pytensor.function([X], GRAPHS[name], mode=JAXLinker(**options))
    for length in (3, 4, 3):
        for _ in range(2):
            gone = array_of(length)
            gone.delete()
            with pytest.raises(DonatedArgumentError, match="'x' no longer exists"):
                f(gone)
            f(array_of(length))


@pytest.mark.parametrize("read", [lambda v: to_numpy(v, Stats()), copying_to_host(Stats())])
def test_a_deleted_array_is_no_array_of_numpy(read: Any) -> None:
    gone = array_of(3)
    np.testing.assert_array_equal(read(gone), np.ones(3))
    gone = array_of(3)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        read(gone)
