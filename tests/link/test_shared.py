"""Shared variables that our functions update, seen by everybody else."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert
from pytensor.tensor.blas import gemm_inplace

from pytensor_jaxlink import JAXLinker, load, save
from tests.edges import compare
from tests.helpers import PYTHON, black_box, compile_both, sort_down

MODES = ["FAST_COMPILE", "JAX", *(["NUMBA"] if find_spec("numba") else [])]


class States:
    def __init__(self) -> None:
        self.x = pt.dvector("x")
        self.state = pytensor.shared(np.arange(3.0), name="state")
        self.count = pytensor.shared(np.array(0), name="count")
        self.f = pytensor.function(
            [self.x],
            self.x.sum(),
            updates={self.state: self.state + self.x, self.count: self.count + 1},
            mode="JAXSELECTIVE",
        )

    @property
    def on_device(self) -> bool:
        return all(isinstance(v.container.storage[0], jax.Array) for v in (self.state, self.count))


@pytest.fixture
def s() -> States:
    return States()


GIVEN = np.array([1.0, 2.0, 3.0])
ONCE = np.array([1.0, 3.0, 5.0])  # the state after one call


def test_what_get_value_gives(s: States) -> None:
    s.f(GIVEN)
    assert s.on_device
    value = s.state.get_value()
    assert type(value) is np.ndarray
    assert value.flags.writeable
    value[:] = 0
    np.testing.assert_array_equal(s.state.get_value(), [1, 3, 5])
    borrowed = s.state.get_value(borrow=True)
    assert type(borrowed) is np.ndarray
    assert not borrowed.flags.writeable
    assert type(s.count.get_value()) is np.ndarray
    assert s.count.get_value().shape == ()
    for borrow in (True, False):
        inside = s.state.get_value(borrow=borrow, return_internal_type=True)
        assert isinstance(inside, jax.Array)
    assert s.on_device


@pytest.mark.parametrize("mode", MODES)
def test_functions_of_other_modes_read(s: States, mode: str) -> None:
    before = pytensor.function([s.x], s.x + s.state * s.count, mode=mode)
    np.testing.assert_array_equal(before(GIVEN), GIVEN)
    s.f(GIVEN)
    after = pytensor.function([s.x], s.x + s.state * s.count, mode=mode)
    for _ in range(2):
        np.testing.assert_array_equal(before(GIVEN), GIVEN + ONCE)
        np.testing.assert_array_equal(after(GIVEN), GIVEN + ONCE)
    assert s.on_device  # the copy on the device is still ours
    s.f(GIVEN)
    np.testing.assert_array_equal(before(GIVEN), GIVEN + 2 * np.array([2, 5, 8]))


@pytest.mark.parametrize("mode", MODES)
def test_functions_of_other_modes_update(s: States, mode: str) -> None:
    g = pytensor.function([], s.count * 1, updates={s.state: s.state * 10}, mode=mode)
    s.f(GIVEN)
    held = s.state.get_value(borrow=True)
    g()
    np.testing.assert_array_equal(held, [1, 3, 5])  # nobody wrote into what we gave away
    np.testing.assert_array_equal(s.state.get_value(), [10, 30, 50])
    s.f(GIVEN)
    np.testing.assert_array_equal(s.state.get_value(), [11, 32, 53])
    assert s.count.get_value() == 2


def test_a_call_that_fails_leaves_everything(s: States) -> None:
    checked = Assert("no")(s.state * 10, s.x.sum() > 0)
    g = pytensor.function([s.x], [], updates={s.state: checked}, mode="FAST_COMPILE")
    s.f(GIVEN)
    with pytest.raises(AssertionError):
        g(-GIVEN)
    np.testing.assert_array_equal(s.state.get_value(), [1, 3, 5])
    assert s.on_device
    g(GIVEN)
    np.testing.assert_array_equal(s.state.get_value(), [10, 30, 50])


def test_zero_and_set_value(s: States) -> None:
    s.f(GIVEN)
    s.state.zero()
    np.testing.assert_array_equal(s.state.get_value(), np.zeros(3))
    s.f(GIVEN)
    s.state.set_value(jax.numpy.ones(3))
    np.testing.assert_array_equal(s.state.get_value(), np.ones(3))


def test_copies(s: States) -> None:
    other = pytensor.function([s.x], s.x + s.state, mode="FAST_COMPILE")
    s.f(GIVEN)
    for made in (copy.deepcopy(other), pickle.loads(pickle.dumps(other)), other.copy()):
        np.testing.assert_array_equal(made(GIVEN), GIVEN + ONCE)
    for made in (copy.deepcopy(s.f), pickle.loads(pickle.dumps(s.f))):
        assert made(GIVEN) == 6
        [state] = [v for v in made.get_shared() if v.name == "state"]
        np.testing.assert_array_equal(state.get_value(), [2, 5, 8])
    np.testing.assert_array_equal(s.state.get_value(), [1, 3, 5])
    for variable in (copy.deepcopy(s.state), pickle.loads(pickle.dumps(s.state))):
        assert type(variable.get_value()) is np.ndarray
        np.testing.assert_array_equal(variable.get_value(), [1, 3, 5])
    f, variable = copy.deepcopy((s.f, s.state))  # stay together
    f(GIVEN)
    np.testing.assert_array_equal(variable.get_value(), [2, 5, 8])


def test_a_call_of_ours_copies_nothing(s: States) -> None:
    given = jax.device_put(GIVEN)
    s.f(given)
    s.f(given)
    s.state.get_value(), s.count.get_value()
    moved = s.f.stats.bytes_to_device, s.f.stats.bytes_to_host
    inside: Any = s.state.get_value(return_internal_type=True)
    for _ in range(3):
        s.f(given)
    assert (s.f.stats.bytes_to_device, s.f.stats.bytes_to_host) == moved
    assert s.state.get_value(return_internal_type=True) is not inside


def test_numpy_outputs_leave_numpy_states() -> None:
    state = pytensor.shared(np.zeros(2))
    f = pytensor.function([], [], updates={state: state + 1}, mode=JAXLinker(outputs="numpy"))
    f()
    assert type(state.get_value(return_internal_type=True)) is np.ndarray


@pytest.mark.parametrize("before", ["nothing", "a reader", "an update", "a jax.Array"])
@pytest.mark.parametrize("size", [2, 40])
def test_an_operation_in_place_on_a_shared_variable(size: int, before: str, tmp_path: Path) -> None:
    x, one = pt.dmatrix("x"), pt.constant(np.float64(1.0))
    found = []
    for mode in ("JAXSELECTIVE", PYTHON):
        state = pytensor.shared(np.ones((size, size)))
        total = pytensor.function([], state.sum(), mode=mode)
        if before == "a reader":
            for _ in range(30):
                total()
        elif before == "an update":
            pytensor.function([], [], updates={state: state + 1}, mode=mode)()
        elif before == "a jax.Array":
            full = np.full if mode is PYTHON else jax.numpy.full  # Python would write into it
            state.set_value(full((size, size), 2.0))
        product = gemm_inplace(state, one, x, x.T, one)
        f = pytensor.function([x], product, mode=mode, accept_inplace=True)
        for factor in range(30):  # calls after the first take the fast path
            f(factor * np.arange(size**2).reshape(size, size) / size**2)
            found.append(float(total()))
        again, read = f, state.get_value
        if mode is not PYTHON:
            save(f, tmp_path / "f")
            again = load(tmp_path / "f")
            read = again.state[0].get_value
        for _ in range(30):
            again(np.ones((size, size)))
        found.append(read().sum())
    found = np.array(found).reshape(2, -1)
    np.testing.assert_allclose(*found)
    assert len({*found[0]}) > 25


# -- data ------------------------------------------------------------------------------------------

ROWS = np.arange(3000.0)


def data(values: np.ndarray = ROWS, *, borrow: bool = False, outputs: str = "jax") -> Any:
    """A shared variable that a function of ours reads, and that function."""
    rows, x = pytensor.shared(values, name="rows", borrow=borrow), pt.dscalar("x")
    f = pytensor.function([x], (rows * x).sum(), mode=JAXLinker(outputs=outputs))
    return rows, f


def held(variable: Any) -> Any:
    return variable.container.storage[0]


@pytest.mark.parametrize("outputs", ["jax", "numpy"])
def test_data_goes_to_the_device_once(outputs: str) -> None:
    rows, f = data(outputs=outputs)
    first = held(rows)
    assert isinstance(first, jax.Array)
    for _ in range(3):
        assert f(2.0) == 2 * ROWS.sum()
    g = pytensor.function([], rows.max(), mode=JAXLinker(outputs=outputs))
    assert g() == ROWS.max()
    assert held(rows) is first
    assert type(rows.get_value()) is np.ndarray
    rows.set_value(np.ones(2000))
    assert isinstance(held(rows), jax.Array)
    assert (f(2.0), g()) == (4000, 1)
    rows.set_value(np.ones(1024, dtype="float32"), borrow=True)  # converted, so nobody holds it
    assert isinstance(held(rows), jax.Array)
    assert f(2.0) == 2048


def test_data_that_others_hold_stays() -> None:
    """They may write into it, and the Python linker would see that."""
    mine = ROWS.copy()
    rows, f = data(mine, borrow=True)
    assert held(rows) is mine
    mine[:] = 1
    assert f(1.0) == 3000
    other = np.full(3000, 2.0)
    rows.set_value(other, borrow=True)
    assert held(rows) is other
    other[:] = 3
    assert f(1.0) == 9000
    part = np.zeros(4000)[:3000]
    rows.set_value(part, borrow=True)
    part[:] = 1
    assert f(1.0) == 3000
    rows, f = data()
    borrowed = rows.get_value(borrow=True)
    borrowed[:] = 4
    assert f(1.0) == 12000
    np.testing.assert_array_equal(rows.get_value(), borrowed)
    inside: Any = rows.get_value(borrow=True, return_internal_type=True)
    assert inside is borrowed


@pytest.mark.parametrize("outputs", ["jax", "numpy"])
@pytest.mark.parametrize("value", [np.array(3.0), np.ones(3), np.zeros(0), np.ones((2, 2), "f4")])
def test_small_data_goes_to_the_device_when_calls_have_read_it(
    value: np.ndarray, outputs: str
) -> None:
    small, f = data(value, outputs=outputs)
    for _ in range(30):
        assert f(2.0) == 2 * value.sum()
    moved = held(small)
    assert isinstance(moved, jax.Array)
    assert f.stats.compilations == [1]
    assert type(small.get_value()) is np.ndarray
    small.set_value(value + 1)
    assert type(held(small)) is np.ndarray
    for _ in range(30):
        assert f(2.0) == 2 * (value + 1).sum()
    assert isinstance(held(small), jax.Array)
    np.testing.assert_array_equal(small.get_value(), value + 1)


def test_small_data_of_several_regions_and_of_padded_ones() -> None:
    small, x = pytensor.shared(np.arange(3.0)), pt.dvector("x")
    sorted_ = black_box(sort_down)(pt.exp(small) * x[0])
    f = pytensor.function([x], [sorted_ + small, (x * small[0]).sum()], mode="JAXSELECTIVE")
    g = pytensor.function([x], [sorted_ + small, (x * small[0]).sum()], mode=PYTHON)
    for length in [2, 3] * 20:
        given = np.linspace(1.0, 2.0, length)
        for found, expected in zip(f(given), g(given), strict=True):
            np.testing.assert_allclose(found, expected)
    assert isinstance(held(small), jax.Array)


def test_small_data_that_is_set_before_each_call_stays() -> None:
    small, f = data(np.ones(3))
    for k in range(30):
        small.set_value(np.full(3, float(k)))
        assert f(1.0) == 3 * k
        assert type(held(small)) is np.ndarray


def test_small_data_that_others_hold_stays() -> None:
    mine = np.ones(3)
    small, f = data(mine, borrow=True)
    for k in range(30):
        mine[:] = k
        assert f(1.0) == 3 * k
    assert held(small) is mine
    del mine
    for _ in range(30):
        assert f(1.0) == 3 * 29
    assert isinstance(held(small), jax.Array)
    borrowed = small.get_value(borrow=True)
    for k in range(30):
        borrowed[:] = k
        assert f(1.0) == 3 * k
    part = borrowed[:1]
    del borrowed
    for _ in range(30):
        part += 1
        assert f(1.0) == 2 * 29 + part[0]
    masked, g = data(np.zeros(4)[:3], borrow=True)
    for _ in range(30):
        assert g(1.0) == 0
    assert type(held(masked)) is np.ndarray  # somebody may hold the rest


@pytest.mark.parametrize("mode", MODES)
def test_other_modes_read_what_was_borrowed_and_moved_again(mode: str) -> None:
    small, f = data(np.ones(3))
    g = pytensor.function([], small.sum(), mode=mode)
    for k in range(1, 4):
        for _ in range(30):
            assert f(1.0) == 3 * k
        assert g() == 3 * k
        borrowed = small.get_value(borrow=True)
        borrowed += 1
        del borrowed


def test_a_value_that_is_set_while_another_moves_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    small, f = data(np.ones(3))
    move = small.container.type.data.move

    def and_set(value: np.ndarray) -> Any:
        small.set_value(np.full(3, 5.0))
        return move(value)

    monkeypatch.setattr(small.container.type.data, "move", and_set)
    found = {float(f(1.0)) for _ in range(30)}
    assert found == {3.0, 15.0}
    np.testing.assert_array_equal(small.get_value(), np.full(3, 5.0))


def test_what_the_host_reads_stays() -> None:
    rows = pytensor.shared(ROWS, name="rows")
    g = pytensor.function([], black_box(sort_down)(rows)[0] + rows.sum(), mode="JAXSELECTIVE")
    assert type(held(rows)) is np.ndarray
    assert g() == ROWS.max() + ROWS.sum()
    moved, f = data()
    h = pytensor.function([], black_box(sort_down)(moved)[0], mode="JAXSELECTIVE")
    assert h() == ROWS.max()
    moved.set_value(np.ones(3000))  # from now on the host needs it
    assert type(held(moved)) is np.ndarray
    assert (f(1.0), h()) == (3000, 1)


def test_a_function_that_reads_the_length_alone_changes_nothing() -> None:
    rows = pytensor.shared(ROWS, name="rows")
    length = pytensor.function([], pt.zeros(rows.shape[0]).sum(), mode="JAXSELECTIVE")
    f = pytensor.function([], rows.sum(), mode="JAXSELECTIVE")
    assert isinstance(held(rows), jax.Array)
    assert (length(), f()) == (0, ROWS.sum())


@pytest.mark.parametrize("mode", MODES)
def test_other_modes_read_and_write_data(mode: str) -> None:
    rows, f = data()
    g = pytensor.function([], rows.sum(), mode=mode)
    for _ in range(2):
        assert g() == ROWS.sum()
    assert isinstance(held(rows), jax.Array)
    rows.set_value(np.ones(3000))
    assert (g(), f(1.0)) == (3000, 3000)
    update = pytensor.function([], [], updates={rows: rows + 1}, mode=mode)
    update()
    assert (g(), f(1.0), rows.get_value()[0]) == (6000, 6000, 2)
    with pytest.raises(TypeError):
        rows.set_value(np.ones((2, 2)))
    assert f(1.0) == 6000


def test_copies_of_data() -> None:
    rows, f = data()
    for made in (copy.deepcopy(f), pickle.loads(pickle.dumps(f)), f.copy()):
        assert made(1.0) == ROWS.sum()
    for variable in (copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))):
        np.testing.assert_array_equal(variable.get_value(), ROWS)
        variable.set_value(np.zeros(3000))
    assert f(1.0) == ROWS.sum()


@pytest.mark.filterwarnings("ignore:region 0 was compiled")
@pytest.mark.parametrize("options", [{}, {"dynamic": False, "recompile_limit": 1}])
def test_a_variable_without_a_value(options: dict[str, Any]) -> None:
    """PyTensor's own operations raise, as NumPy would make NaN of None."""
    s = pytensor.shared(np.ones(3))
    for output in (s * 2, s[::-1], pt.sort(s)):
        f, g = compile_both([], output, JAXLinker(**options))
        for value in (np.ones(3), None, np.ones(4), None):
            s.set_value(value)
            assert compare.same(compare.outcome(f), compare.outcome(g))


@pytest.mark.parametrize("named", [{}, {"y": 1.0}])
def test_arguments_that_are_too_many_change_nothing(named: dict[str, float]) -> None:
    x, y, state = pt.dscalar("x"), pt.dscalar("y"), pytensor.shared(1.0, "state")
    f = pytensor.function([x, y], x + y + state, mode="JAXSELECTIVE")
    assert f(1.0, 2.0) == 4.0
    with pytest.raises(TypeError):
        f(1.0, 2.0, 5.0, **named)
    assert state.get_value() == 1.0
    assert f(1.0, 2.0) == 4.0


def test_a_copied_function_leaves_arrays_where_they_are() -> None:
    state = pytensor.shared(np.zeros(1000), "state")
    total = pytensor.function([], state.sum(), mode="JAXSELECTIVE")
    total.copy()
    assert type(state.container.storage[0]) is type(jax.numpy.zeros(1))
    state.get_value(borrow=True)[0] = 3.0
    assert total() == 3.0
    total.copy()
    first = pt.set_subtensor(state[0], state[0] + 1)
    pytensor.function([], [], updates={state: first}, mode=PYTHON)()
    assert total() == 4.0


def test_a_copied_function_of_another_mode_leaves_arrays_where_they_are() -> None:
    state = pytensor.shared(np.zeros(3), "state")
    pytensor.function([], [], updates={state: state + 1}, mode="JAXSELECTIVE")()
    copied = pytensor.function([], state.sum(), mode=PYTHON).copy()
    pytensor.function([], [], updates={state: pt.set_subtensor(state[0], 9.0)}, mode=PYTHON)()
    assert copied() == 11.0


READS = """
import pickle, sys
import numpy as np
import pytensor

state, f = pickle.load(open(sys.argv[1], "rb"))
assert type(state.get_value()) is np.ndarray, type(state.get_value())
assert type(state.container.storage[0]) is np.ndarray
print(float(f(1.0)), "pytensor_jaxlink" in sys.modules, "jax" in sys.modules)
"""


def test_pickles_are_read_without_this_package(tmp_path: Path) -> None:
    """By spawned processes, say, that run functions of other modes."""
    rows, f = data()
    f(1.0)
    x = pt.dscalar("x")
    g = pytensor.function([x], x * rows.sum(), mode="FAST_COMPILE")
    assert isinstance(held(rows), jax.Array)
    file = tmp_path / "pickled"
    file.write_bytes(pickle.dumps((rows, g)))
    assert isinstance(held(rows), jax.Array)
    program = [sys.executable, "-c", READS, str(file)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(ROWS.sum()), "False", "False"], done.stderr


def test_pickled_values_that_are_no_numbers() -> None:
    rows, f = data()
    rows.set_value(np.full(3000, np.nan))
    f(1.0)
    g = pytensor.function([], rows.sum(), mode="FAST_COMPILE")
    assert isinstance(held(rows), jax.Array)
    for made in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert np.isnan(made())
