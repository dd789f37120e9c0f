"""A loaded function reuses memory where the function that was saved did."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.raise_op import Assert

from pytensor_jaxlink import DonatedArgumentError, JAXLinker, NotSavedError, load, save
from pytensor_jaxlink.errors import CheckFailedError

LARGE = 200_000  # entries of float64: more than a megabyte
X, FACTOR = pt.dvector("x"), pt.dscalar("factor")


def loaded(path: Path, inputs: Any, outputs: Any, updates: Any = None, **options: Any) -> Any:
    f = pytensor.function(inputs, outputs, updates=updates, mode=JAXLinker(**options))
    save(f, path / "f", graph=False)
    return load(path / "f")


def state() -> Any:
    return pytensor.shared(np.random.default_rng(0).normal(size=LARGE), name="state")


@pytest.mark.parametrize("x64", [True, False])
def test_states(tmp_path: Path, x64: bool) -> None:
    shared = state()
    f = loaded(tmp_path, [FACTOR], shared.sum(), {shared: shared * FACTOR})
    [cell], expected = f.state, shared.get_value()
    with jax.enable_x64(x64):
        for _ in range(4):
            np.testing.assert_allclose(f(factor=0.5), expected.sum())
            expected = expected * 0.5
    np.testing.assert_array_equal(cell.get_value(), expected)
    assert f.stats.donated_bytes == 4 * expected.nbytes
    assert f.stats.region_calls == [f.stats.calls] == [4]


@pytest.mark.parametrize("donate", ["none", "updates"])
def test_what_somebody_holds_stays(tmp_path: Path, donate: str) -> None:
    shared = state()
    f = loaded(tmp_path, [FACTOR], shared.sum(), {shared: shared * FACTOR}, donate=donate)
    f(0.5)
    held, donated = (
        f.state[0].get_value(borrow=True, return_internal_type=True),
        f.stats.donated_bytes,
    )
    before = np.array(held)
    f(0.5)
    np.testing.assert_array_equal(held, before)
    assert f.stats.donated_bytes == donated == (0 if donate == "none" else LARGE * 8)


def test_states_survive_a_false_condition(tmp_path: Path) -> None:
    shared = state()
    checked = Assert("no")(shared * FACTOR, pt.gt(FACTOR, 0))
    f = loaded(tmp_path, [FACTOR], [], {shared: checked})
    f(1.0)
    f(2.0)
    with pytest.raises(CheckFailedError):
        f(-1.0)
    np.testing.assert_array_equal(f.state[0].get_value(), shared.get_value() * 2)
    assert f.stats.donated_bytes == 3 * LARGE * 8


def test_states_after_a_host_step(tmp_path: Path) -> None:
    shared = state()
    new = Assert("small")(shared + pt.unique(X, return_counts=True)[0][:1].sum(), pt.lt(X, 9).all())
    f = loaded(tmp_path, [X], [], {shared: new})
    assert len(f.plan.steps) == 2
    for _ in range(3):
        f(np.array([2.0, 1.0, 2.0]))
        gc.collect()  # with JAX 0.10 the call that compiles leaves its frames in a cycle
    with pytest.raises(CheckFailedError):
        f(np.array([9.0, 1.0, 2.0]))
    np.testing.assert_allclose(f.state[0].get_value(), shared.get_value() + 3)
    assert f.stats.donated_bytes == 4 * LARGE * 8  # the last was given back


@pytest.mark.parametrize("how", ["mutable", "all"])
def test_arguments(tmp_path: Path, how: str) -> None:
    donate = "updates" if how == "mutable" else "all"
    f = loaded(tmp_path, [In(X, mutable=how == "mutable")], X * 2, donate=donate)
    given = jnp.ones(5)
    np.testing.assert_array_equal(f(given), np.full(5, 2.0))
    assert given.is_deleted()
    with pytest.raises(DonatedArgumentError, match="the array given for input 'x' no longer exis"):
        f(given)
    np.testing.assert_array_equal(f(np.ones(3)), np.full(3, 2.0))


def test_sizes_without_code(tmp_path: Path) -> None:
    shared = state()
    f = loaded(tmp_path, [FACTOR], shared.sum(), {shared: shared * FACTOR})
    f.state[0].set_value(jnp.ones(LARGE + 1))
    with pytest.raises(NotSavedError):
        f(0.5)
    assert float(f.state[0].get_value()[0]) == 1
