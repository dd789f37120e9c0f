"""Calls and builds while JAX traces leave shared variables and constants as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, JAXLinkError, jaxify, load, save

X = pt.dvector("x")
GIVEN = np.ones(1000)
ON_DEVICE = jnp.asarray(GIVEN)
LARGE = 300_000  # entries: a state that is donated

UPDATES = {
    "by itself": lambda state: state + 1,
    "by an argument": lambda state: state + X.sum(),
    "behind a condition": lambda state: state + X[pt.cast(X.sum() * 0 + 1, "int64")],
}
TRANSFORMED: dict[str, Any] = {
    "jit": lambda f: jax.jit(f)(ON_DEVICE),
    "jit without arguments": lambda f: jax.jit(lambda: f(ON_DEVICE))(),
    "grad": lambda f: jax.grad(f)(ON_DEVICE),
    "vmap": lambda f: jax.vmap(f)(jnp.ones((2, 1000))),
}


def state_of(size: int = LARGE) -> Any:
    return pytensor.shared(np.ones(size), name="state")


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"jit": True, "donate": "all"}], ids=str)
def test_a_large_state(name: str, calls: int, options: Any) -> None:
    state = state_of()
    f = pytensor.function(
        [X], X.sum() * state[0], updates={state: UPDATES[name](state)}, mode=JAXLinker(**options)
    )
    for _ in range(calls):
        f(GIVEN.copy())
    before = state.get_value()
    for transformed, run in TRANSFORMED.items():
        if name == "by itself" and transformed in ("grad", "vmap"):
            run(f)  # the update is computed, and is no tracer
            before = before + 1
            continue
        with pytest.raises(JAXLinkError, match="PJL408"):
            run(f)
    np.testing.assert_array_equal(state.get_value(), before)
    assert f(GIVEN.copy()) == 1000 * before[0]


def test_a_large_state_of_a_loaded_function(tmp_path: Path) -> None:
    state = state_of()
    f = pytensor.function([X], X.sum() * state[0], updates={state: state + 1}, mode="JAXSELECTIVE")
    save(f, tmp_path / "f.jaxlink")
    loaded = load(tmp_path / "f.jaxlink")
    assert loaded(GIVEN) == 1000
    with pytest.raises(JAXLinkError, match="PJL408"):
        jax.jit(loaded)(ON_DEVICE)
    assert loaded(GIVEN) == 2000


def test_a_generator() -> None:
    """It holds a key that JAX traces, and is no tracer itself."""
    rng = pytensor.shared(np.random.default_rng(1), name="rng")
    following, drawn = pt.random.normal(size=(2,), rng=rng).owner.outputs
    f = pytensor.function([], drawn, updates={rng: following}, mode="JAXSELECTIVE")
    with pytest.raises(JAXLinkError, match="PJL408"):
        jax.jit(lambda v: v + f())(jnp.ones(2))
    assert rng.get_value() is not None
    rng.get_value().normal()
    assert f().shape == (2,)


def test_set_value() -> None:
    state = state_of(1000)
    f = pytensor.function([X], X * state, mode="JAXSELECTIVE")

    def setting(v: Any) -> Any:
        state.set_value(np.full(1000, 2.0))
        return v

    jax.jit(setting)(ON_DEVICE)
    np.testing.assert_array_equal(state.get_value(), np.full(1000, 2.0))
    np.testing.assert_array_equal(f(GIVEN), np.full(1000, 2.0))


@pytest.mark.parametrize("build", [jaxify, lambda *graph: pytensor.function(*graph, mode="JAX")])
def test_a_function_that_is_built(build: Any) -> None:
    state = state_of(1000)

    def building(v: Any) -> Any:
        build([X], X * state)
        pytensor.function([X], X * state, mode="JAXSELECTIVE")
        return v

    jax.jit(building)(ON_DEVICE)
    np.testing.assert_array_equal(state.get_value(), np.ones(1000))


def test_constants_are_kept_for_all_functions() -> None:
    constant = np.arange(1000.0) + 0.25
    functions = []

    def building(v: Any) -> Any:
        functions.append(pytensor.function([X], X * pt.constant(constant), mode="JAXSELECTIVE"))
        return functions[0](v)

    np.testing.assert_array_equal(jax.jit(building)(ON_DEVICE), constant)
    f = pytensor.function([X], X + pt.constant(constant), mode="JAXSELECTIVE")
    np.testing.assert_array_equal(f(GIVEN), constant + 1)
    np.testing.assert_array_equal(functions[0](GIVEN), constant)
