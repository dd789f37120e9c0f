"""JAX configured without 64-bit types: our functions keep theirs, and the user's trace has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, jaxify, load, save
from tests.helpers import as_list, black_box, compile_both, sort_down

X, N = pt.dvector("x"), pt.lscalar("n")
LONG = pt.constant(np.random.default_rng(0).random(3000))
LARGE = pt.constant(np.arange(3) + 2**40)
GRAPHS: dict[str, Any] = {
    "constants": [LONG * 2, LARGE],
    "constants beside an argument": [LONG / 3 + X.sum(), LARGE * 3],
    "nothing of the argument": [LARGE, X],
    "prefix": [X[:N] / 3, N + 2**40],
    "mask": [X[X > 0.4] / 3],
    "host step": [black_box(sort_down)(X / 3) * LONG[:3].sum()],
}
GIVEN: dict[str, Callable[[Any], Any]] = {
    "NumPy": np.asarray,
    "JAX": jax.numpy.asarray,
    "committed": lambda value: jax.device_put(value, jax.devices()[0]),
}


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"outputs": "numpy"}], ids=str)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", GRAPHS)
def test_types_are_kept(name: str, given: str, options: dict[str, Any], tmp_path: Any) -> None:
    f, reference = compile_both([X, N], GRAPHS[name], JAXLinker(**options))

    def check(function: Any) -> None:
        for length in (3, 4, 5):
            x, n = np.arange(float(length)) / 3, np.array(length - 1)
            with jax.enable_x64(True):
                values = GIVEN[given](x), GIVEN[given](n)
            for on in (False, True, False):
                with jax.enable_x64(on):
                    found = as_list(function(*values))
                for one, other in zip(found, as_list(reference(x, n)), strict=True):
                    assert one.dtype == other.dtype
                    np.testing.assert_allclose(np.asarray(one), other, rtol=1e-14)

    check(f)
    save(f, tmp_path / "f")
    check(load(tmp_path / "f", allow=("tests",)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_the_user_traces_conversions_to_integers(dtype: str) -> None:
    x = pt.fvector("x")
    run = jax.jit(jaxify([x], x.astype(dtype)))
    values = np.array([0, 1.5, 100, 7], "float32")
    with jax.enable_x64(False):
        found = run(values)
        assert found.dtype == jax.dtypes.canonicalize_dtype(dtype)
    np.testing.assert_array_equal(np.asarray(found), values.astype(dtype))
    if dtype.startswith("u"):
        most = np.array([2**31], "float32")  # beyond the signed type of as many bits
        with jax.enable_x64(False):
            found = run(most)
        np.testing.assert_array_equal(np.asarray(found), most.astype("uint32").astype(dtype))


def test_states_are_kept() -> None:
    total = pytensor.shared(np.arange(3) + 2**40)
    f = pytensor.function([], LONG[:2] * 1, updates={total: total + LARGE}, mode=JAXLinker())
    for k in range(1, 4):
        with jax.enable_x64(False):
            assert f().dtype == "float64"
        np.testing.assert_array_equal(total.get_value(), (np.arange(3) + 2**40) * (k + 1))
