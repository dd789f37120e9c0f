"""Who calls a function may write into the arguments when the call returns, as with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor.raise_op import Assert

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


def from_here(start: Any) -> Any:
    """A number that takes long to compute of the first of few values, and reads another then."""
    return spend_time(start[0] + pt.arange(COUNT)) * start[1]


def value_from_here(turn: float) -> float:
    return np.exp(np.cos(np.sin(turn + np.arange(COUNT)))).sum() * turn


@pytest.mark.parametrize("kind", ["one", "list", "condition", "saved"])
def test_a_small_argument_of_a_long_program(kind: str, tmp_path: Path) -> None:
    total = from_here(X)
    outputs: Any = [X, total] if kind == "list" else total
    if kind == "condition":
        outputs = Assert("a value")(total, X[1] >= 0)
    function: Any = pytensor.function([X], outputs, mode="JAXSELECTIVE")
    if kind == "saved":
        save(function, tmp_path / "saved.jaxlink")
        function = load(tmp_path / "saved.jaxlink")
    values = aligned(8)
    found = []
    for turn in range(10):
        values[...] = turn
        found.append(function(values))
    if kind == "list":
        np.testing.assert_array_equal([first[0] for first, _ in found], range(10))
        found = [last for _, last in found]
    expected = [value_from_here(turn) for turn in range(10)]
    np.testing.assert_allclose([float(each) for each in found], expected)


def test_a_result_that_is_known_before_the_program_is_done() -> None:
    """JAX hands none of them out before: one result tells that nobody reads the arguments."""
    outputs = [Y, pt.ones(3), Y.reshape((-1, 1)), X.shape[0], from_here(X)]
    function = pytensor.function([Y, X], outputs, mode="JAXSELECTIVE")
    values, passed_on = aligned(8), jax.device_put(np.ones(3))
    totals = []
    for turn in range(10):
        values[...] = turn
        *others, total = function(passed_on, values)
        totals.append(total)
        values[...] = -1
        assert [np.shape(each) for each in others] == [(3,), (3,), (3, 1), ()]
    expected = [value_from_here(turn) for turn in range(10)]
    np.testing.assert_allclose([float(each) for each in totals], expected)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("outputs", ["the argument", "an Assert", "a view", "an update"])
def test_a_small_argument_that_is_the_result(outputs: str, count: int) -> None:
    state = pytensor.shared(np.zeros(8))
    made = {
        "the argument": X,
        "an Assert": Assert("all values")(X, (X >= 0).all()),
        "a view": X.reshape((2, -1))[1],
        "an update": state,
    }[outputs]
    updates = {state: X} if outputs == "an update" else None
    function = pytensor.function([X], [made] * count, updates=updates, mode="JAXSELECTIVE")
    values = aligned(8)
    for turn in (1.0, 2.0, 3.0):
        values[...] = turn
        found = function(values)
        if outputs == "an update":
            found = [state.get_value()]
        values[...] = -1
        for each in found:
            np.testing.assert_array_equal(each, np.full_like(each, turn))


def test_arguments_of_a_call_that_is_traced() -> None:
    function = pytensor.function([X], X * 2, mode="JAXSELECTIVE")
    values = aligned(8)
    function(values)

    def twice(start: Any) -> Any:
        values[...] = 1
        first = function(values)
        values[...] = 5
        return start + first + function(values)

    np.testing.assert_array_equal(jax.jit(twice)(0.0), np.full(8, 12.0))
    np.testing.assert_array_equal(jax.vmap(twice)(np.zeros(3)), np.full((3, 8), 12.0))


@pytest.mark.cpu("others compute no program before its call returns")
def test_programs_that_take_long_are_waited_for_a_few_times() -> None:
    long: Any = pytensor.function([X], from_here(X), mode="JAXSELECTIVE")
    short: Any = pytensor.function([X], X.sum(), mode="JAXSELECTIVE")
    values = aligned(8)
    long(values)
    calls = 0
    while long._fast.in_place and calls < 1000:  # a busy machine may be done with some
        long(values)
        short(values)
        calls += 1
    assert 3 <= calls < 1000
    assert short._fast.in_place


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
