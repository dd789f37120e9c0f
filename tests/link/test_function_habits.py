"""Functions are copied, pickled, saved and asked for their variables, as PyTensor's users do it."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import In, shared
from pytensor.compile.mode import get_mode

from pytensor_jaxlink import JAXLinker, jaxify, load, save
from tests.helpers import PYTHON

X, Y, N = pt.dvector("x"), pt.dvector("y"), pt.lscalar("n")


@pytest.mark.parametrize("arguments", [1, 3])
def test_a_first_call_with_another_number_of_arguments(arguments: int, tmp_path: Path) -> None:
    """Where the start-up cache is filled, and where it has the function."""
    given = [np.ones(2), np.full(2, 2.0), np.full(2, 7.0)][:arguments]
    for _ in range(3):
        s, t = shared(np.zeros(2), name="s"), shared(np.ones(2), name="t")
        f = pytensor.function(
            [X, Y], X + Y + s + t, updates={s: s + 1, t: t + 10}, mode=JAXLinker(cache_dir=tmp_path)
        )
        with pytest.raises(TypeError):
            f(*given)
        assert s.get_value().tolist() == [0, 0]
        assert t.get_value().tolist() == [1, 1]
        assert np.asarray(f([1.0, 1.0], [2.0, 2.0])).tolist() == [4, 4]
        assert t.get_value().tolist() == [11, 11]


def test_a_saved_function_that_updates_an_argument(tmp_path: Path) -> None:
    s = shared(np.zeros(2), name="s")
    f = pytensor.function(
        [X, In(Y, update=X + Y)], [X[:1].sum() * Y, s], updates={s: s + 1}, mode="JAXSELECTIVE"
    )
    f([1.0, 2.0], [3.0, 4.0])
    save(f, tmp_path / "f")
    for prefer in ("compiled", "graph"):
        loaded = load(tmp_path / "f", prefer=prefer)
        for x, y in (([1.0, 2.0], [3.0, 4.0]), ([2.0], [5.0])):  # the second has no code
            product, state = loaded(x, y)
            assert np.asarray(product).tolist() == [x[0] * each for each in y]
        assert np.asarray(state).tolist() == [2, 2]
        assert "region 0" in str(loaded.explain())


@pytest.mark.parametrize("prefer", ["compiled", "graph"])
def test_saved_variables_convert_as_those_that_were_saved(prefer: Any, tmp_path: Path) -> None:
    single = np.arange(3, dtype="float32")
    s, t = shared(single, name="s", allow_downcast=True), shared(single, name="t", strict=True)
    f = pytensor.function([X], [s * X, t * X], mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f")
    loaded = load(tmp_path / "f", prefer=prefer)
    state = loaded.get_shared() if prefer == "graph" else loaded.state
    one, other = sorted(state, key=lambda variable: str(variable.name))
    one.set_value(np.full(3, 5.0))
    with pytest.raises(TypeError):
        other.set_value([1, 2, 3])
    assert [np.asarray(each).tolist() for each in loaded(np.ones(3))] == [[5, 5, 5], [0, 1, 2]]


def test_copies_without_updates() -> None:
    """Of functions in which an update alone needs something."""
    a = shared(np.arange(3.0), name="a")
    f = pytensor.function([X], a * X, updates={a: a + 1}, mode="JAXSELECTIVE")
    for each in (f, copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        for _ in range(2):
            without = each.copy(share_memory=True, delete_updates=True)
            assert np.asarray(without(np.ones(3))).tolist() == [0, 1, 2]
    assert np.asarray(f(np.ones(3))).tolist() == [0, 1, 2]
    assert a.get_value().tolist() == [1, 2, 3]


def test_the_borrowed_value_of_a_copied_variable() -> None:
    s = shared(np.ones(1000), name="s")
    f = pytensor.function([], s.sum(), mode="JAXSELECTIVE")
    copied = copy.deepcopy(f)
    for function, sums in ((copied, (1099, 1000)), (f, (1099, 1099))):
        function.get_shared()[0].get_value(borrow=True)[0] = 100
        assert (float(copied()), float(f())) == sums


def test_a_shared_object_is_saved_with_its_type(tmp_path: Path) -> None:
    f = pytensor.function([X], [X * 2, shared((1, 2), name="s")], mode="JAXSELECTIVE")
    f([1.0])
    save(f, tmp_path / "f")
    assert load(tmp_path / "f", prefer="graph")([])[1] == (1, 2)


def test_functions_are_not_unpickled_where_pytensor_says_so() -> None:
    pickled = pickle.dumps(pytensor.function([X], X + 1, mode="JAXSELECTIVE"))
    with pytensor.config.change_flags(unpickle_function=False):
        assert pickle.loads(pickled) is None
    assert np.asarray(pickle.loads(pickled)([1.0])).tolist() == [2]


@pytest.mark.parametrize("mode", [PYTHON, get_mode("JAXSELECTIVE").including("inplace")])
def test_of_arguments_that_share_memory_the_first_is_overwritten(mode: Any) -> None:
    inputs = [In(X, mutable=True), In(Y, mutable=True)]
    f = pytensor.function(inputs, [X + 1, Y * 2], mode=mode)
    memory = np.arange(4.0)
    one, other = map(np.asarray, f(memory[:-1], memory[1:]))
    assert [one.tolist(), other.tolist()] == [[1, 2, 3], [2, 4, 6]]
    assert memory.tolist() == [1, 2, 3, 3]


def test_a_size_may_be_a_real_number_that_is_an_integer() -> None:
    run = jaxify([X, N], X[:N])
    assert np.asarray(run(np.arange(3.0), 2.0)).tolist() == [0, 1]
    with pytest.raises(TypeError, match="real numbers"):
        run(np.arange(3.0), 2.5)


def test_copies_raise_what_the_function_raises() -> None:
    """Of two operations that would raise, the one that comes first in the user's graph."""
    x, y, s = pt.fmatrix("x"), pt.fvector("y"), shared(np.ones(2))
    outputs = [pt.inc_subtensor(x[y > 0], 2)[::-1], pt.set_subtensor(x[:, 0], y)]
    f = pytensor.function([x, y], outputs, updates={s: s + 1}, mode="JAXSELECTIVE")
    swapped = f.copy(swap={s: shared(np.ones(2))})
    for each in (f, f.copy(), f.copy(delete_updates=True), swapped, f.copy().copy()):
        with pytest.raises(ValueError, match="broadcast"):
            each(np.ones((4, 3), "float32"), np.ones(3, "float32"))
