"""Who calls a function may write into the arguments when the call returns, as with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import pytest
import scipy.sparse

from pytensor_jaxlink import JAXLinker, load, save
from pytensor_jaxlink.runtime.devices import detached
from tests.helpers import PYTHON, black_box

X, Y = pt.dvector("x"), pt.dvector("y")
COUNT = 2**18  # XLA takes longer than the caller, who writes at once


def aligned(count: int = COUNT) -> np.ndarray[Any, Any]:
    """Zeros that JAX takes without a copy."""
    room = np.zeros(count + 8)
    start = -room.ctypes.data % 64 // 8
    return room[start : start + count]


def spend_time(values: Any) -> Any:
    return pt.exp(pt.cos(pt.sin(values))).sum()


@pytest.fixture
def memory(tmp_path: Path) -> Callable[[str], Any]:
    def made(kind: str) -> Any:
        if kind == "a file":
            return np.memmap(tmp_path / "values", "float64", "w+", shape=(COUNT,))
        return aligned()

    return made


def check(function: Callable[..., Any], values: Any, *given: Any) -> None:
    """Results of calls before and after writing into an array are those of the values then."""
    function(*given)
    found = []
    for turn in range(10):
        values[...] = turn
        found.append(function(*given))
    expected = [COUNT * np.exp(np.cos(np.sin(turn))) for turn in range(10)]
    np.testing.assert_allclose([float(each) for each in found], expected)


@pytest.mark.parametrize("kind", ["an array", "a file"])
@pytest.mark.parametrize("options", [{}, {"jit": False}, {"dynamic": True}], ids=str)
def test_arguments(memory: Callable[[str], Any], options: dict[str, Any], kind: str) -> None:
    function = pytensor.function([X], spend_time(X), mode=JAXLinker(**options))
    values = memory(kind)
    check(function, values, values)
    check(lambda: function(x=values), values)


def test_an_argument_given_twice() -> None:
    function = pytensor.function([X, Y], spend_time(X) + 0 * Y[0], mode="JAXSELECTIVE")
    values = aligned()
    check(function, values, values, values)


def test_arguments_of_a_saved_function(tmp_path: Path) -> None:
    function = pytensor.function([X], spend_time(X), mode="JAXSELECTIVE")
    function(aligned())
    save(function, tmp_path / "saved.jaxlink")
    loaded, values = load(tmp_path / "saved.jaxlink"), aligned()
    check(loaded, values, values)


@pytest.mark.parametrize("cut", [False, True])
def test_a_borrowed_shared_variable(cut: bool) -> None:
    state = pytensor.shared(aligned(), borrow=True)
    read = pt.sort(state, kind="stable") if cut else state
    function = pytensor.function([], spend_time(read), mode="JAXSELECTIVE")
    function()
    check(function, state.get_value(borrow=True))


def test_a_variable_that_another_mode_updates_in_place() -> None:
    state = pytensor.shared(aligned(), borrow=True)
    function = pytensor.function([], spend_time(state), mode="JAXSELECTIVE")
    step = pytensor.function([], [], updates={state: state + 1}, mode=PYTHON)
    found = []
    for _ in range(10):
        found.append(function())
        step()
    expected = [COUNT * np.exp(np.cos(np.sin(turn))) for turn in range(10)]
    np.testing.assert_allclose([float(each) for each in found], expected)


def test_entries_of_a_matrix() -> None:
    matrix = scipy.sparse.csr_matrix(np.ones((1, 4)))
    matrix = scipy.sparse.csr_matrix((aligned(), np.zeros(COUNT, "int32"), [0, COUNT]), (1, 1))
    given = pytensor.sparse.csr_matrix("m")
    entries = pytensor.sparse.csm_data(given)
    function = pytensor.function([given], spend_time(entries), mode="JAXSELECTIVE")
    check(function, matrix.data, matrix)


def test_memory_that_an_operation_keeps() -> None:
    room = aligned()

    def simulate(start: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        room[...] = start[0]
        return room

    simulated = black_box(simulate)
    times = pt.dvector("times")
    each = pytensor.scan(
        lambda time: spend_time(simulated(time[None])), sequences=[times], return_updates=False
    )
    expected = COUNT * np.exp(np.cos(np.sin(np.arange(6.0))))
    found = pytensor.function([times], each, mode="JAXSELECTIVE")(np.arange(6.0))
    np.testing.assert_allclose(found, expected)
    function = pytensor.function([X], spend_time(simulated(X)), mode="JAXSELECTIVE")
    results = [function(np.array([turn])) for turn in np.arange(6.0)]
    np.testing.assert_allclose([float(each) for each in results], expected)


def test_memory_that_jax_copies_is_not_copied_twice() -> None:
    values = aligned(COUNT + 1)[1:]
    assert detached(values) is values
    assert detached(values[:10]) is not values
