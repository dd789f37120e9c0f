"""Functions tell the truth of themselves: lines, counts, names and types."""

from __future__ import annotations

import json
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.compile.mode import get_mode

from pytensor_jaxlink import JAXLinker, jaxify, profile
from tests.helpers import PYTHON

X, M, V = pt.dvector("x"), pt.dmatrix("m"), pt.dscalar("v")


def test_the_line_of_a_length_is_the_users() -> None:
    """The graph of padded arguments is made in a call."""
    rows = pytensor.shared(3, name="rows")
    reshaped = X.reshape((rows, -1))  # the line
    line = test_the_line_of_a_length_is_the_users.__code__.co_firstlineno + 3
    f = pytensor.function([X], reshaped, mode="JAXSELECTIVE")
    for length in (6, 9):
        f(np.ones(length))
    [said] = [note for note in f.explain().notes if "the length of x" in note]
    assert f"test_said.py:{line}" in said


def test_a_shared_size_is_no_argument() -> None:
    rows = pytensor.shared(3, name="rows")
    f = pytensor.function([X], X.reshape((rows, -1)), mode="JAXSELECTIVE")
    with pytest.raises(ValueError, match="reshape") as raised:
        f(np.ones(4))
    assert any("the shared variable 'rows'" in note for note in raised.value.__notes__)


def test_regions_of_padded_arguments_that_run_on_the_host() -> None:
    f = pytensor.function([X], pt.exp(X), mode=JAXLinker(recompile_limit=1, buckets=lambda n: n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for length in range(1, 15):
            f(np.ones(length))
    assert f.stats.host_regions > 0
    assert "fallback: region 0 of padded arguments" in str(f.explain())


def test_calls_of_padded_arguments_that_raise_are_counted() -> None:
    f = pytensor.function([M], pt.linalg.inv(M), mode=JAXLinker(dynamic=True))
    f(np.eye(3))
    for singular in (np.zeros((2, 2)), np.zeros((4, 4))):
        with pytest.raises(np.linalg.LinAlgError):
            f(singular)
    assert f.stats.calls == 3


def test_no_fewer_calls_than_none_needed_no_compilation() -> None:
    f = pytensor.function([X], pt.exp(X), mode="JAXSELECTIVE")
    f.compile(np.ones(3))
    assert f.stats.cache_hits == [0]


def test_a_profile_as_a_dictionary() -> None:
    f = pytensor.function([X], pt.exp(X), mode="JAXSELECTIVE")
    with profile(f) as found:
        f(np.ones(3))
    told = json.loads(json.dumps(found.to_dict()))
    assert told["calls"] == 1
    assert [row["name"] for row in told["rows"]] == [row.name for row in found.rows]


class TestCompile:
    def test_takes_what_a_call_takes(self) -> None:
        y = pt.fvector("y")
        f = pytensor.function([y], y + 1, mode="JAXSELECTIVE", allow_input_downcast=True)
        f.compile(np.ones(3))
        f(np.ones(3))
        assert f.stats.compilations == [1]

    def test_refuses_what_a_call_refuses(self) -> None:
        n = pt.lvector("n")
        f = pytensor.function([In(n, strict=True)], n + 1, mode="JAXSELECTIVE")
        for run in (f, f.compile):
            with pytest.raises(TypeError):
                run(np.ones(3, "int32"))


def test_the_pure_function_gives_what_it_names() -> None:
    mode = get_mode("JAXSELECTIVE").including("inplace")
    state = pytensor.shared(np.ones(3), name="state")
    updates: dict[Any, Any] = {state: state * 2 + X}
    for changed in ({}, updates):
        f = pytensor.function([In(X, mutable=True)], X * 2, updates=changed, mode=mode)
        given = [np.ones(3)] * len(f.input_names)
        assert len(f.jax_fn(*given)) == len(f.output_names) == 1 + len(changed)


@pytest.mark.parametrize(
    ("inputs", "output", "given"),
    [
        ([V], V + 1, {"v": None}),
        ([V, X], X * 2, {"v": None, "x": np.ones(3)}),
        ([X], X.sum(), {"x": None}),
    ],
)
def test_none_by_its_name(inputs: Any, output: Any, given: Any) -> None:
    """PyTensor takes it for an input without a value."""

    def answer(mode: Any) -> str:
        f = pytensor.function(inputs, output, mode=mode, on_unused_input="ignore")
        try:
            return str(np.asarray(f(**given)))
        except Exception as error:
            return type(error).__name__

    assert answer("JAXSELECTIVE") == answer(PYTHON)


class TestPureFunctions:
    def test_two_leaves_that_are_not_a_number(self) -> None:
        f = jaxify([{"one": V, "other": V}], V * 2)
        assert np.isnan(f({"one": float("nan"), "other": float("nan")}))
        with pytest.raises(ValueError, match="PJL403"):
            f({"one": float("nan"), "other": 1.0})

    @pytest.mark.parametrize("state", [(5.0, 6, 7), (5.0,), (99.0, np.ones(2)), (1.0, 2.7)])
    def test_a_state_that_does_not_fit_is_stored_in_no_part(self, state: Any) -> None:
        one, other = pytensor.shared(0.0, name="one"), pytensor.shared(0, name="other")
        f = jaxify([], one + other, updates={one: one + 1, other: other + 1})
        with pytest.raises((TypeError, ValueError)):
            f.store(state)
        assert (one.get_value(), other.get_value()) == (0, 0)
        f.store((jnp.float32(3), jnp.int32(4)))
        assert (one.get_value(), other.get_value()) == (3, 4)

    def test_a_traced_state_is_not_stored(self) -> None:
        one = pytensor.shared(0.0, name="one")
        f = jaxify([], one * 2, updates={one: one + 1})

        def storing(value: Any) -> Any:
            f.store((value,))
            return value

        with pytest.raises(jax.errors.TracerArrayConversionError):
            jax.jit(storing)(1.0)
        assert one.get_value() == 0
