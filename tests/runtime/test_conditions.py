"""Conditions on what cannot have changed are not looked at again."""

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.whole import Condition

X, INDEX = pt.dvector("x"), pt.lvector("index")


class Looked:
    """A condition that counts how often somebody looks at it."""

    def __init__(self, *, holds: bool = True) -> None:
        self.times, self._holds = 0, holds

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.times += 1
        return np.asarray(self._holds)


def a_condition(*, repeatable: bool = True) -> Condition:
    """Of the second argument alone, and of the length of the first."""

    def function(x: Any, index: Any) -> Any:
        return x[index], (index < x.shape[0]).all()

    with jax.enable_x64(True):
        made = Condition(function, Policy(), repeatable=repeatable)
        made.compiled(np.zeros(3), np.array([1]))
        return made


def look(condition: Condition, x: Any, index: Any, *, holds: bool = True) -> int:
    """How often a condition is looked at in a call with these values."""
    looked = Looked(holds=holds)
    with jax.enable_x64(True):
        condition.compiled(x, index)
        found = condition.result((None, looked), (x, index))
        assert found == Result(None, () if holds else (False,))
    return looked.times


def test_the_same_array() -> None:
    condition, index = a_condition(), jax.device_put(np.array([1]))
    assert [look(condition, np.full(3, value), index) for value in (1.0, 2.0, 3.0)] == [1, 0, 0]


def test_another_array_and_another_length() -> None:
    condition, index = a_condition(), jax.device_put(np.array([1]))
    assert look(condition, np.zeros(3), index) == 1
    assert look(condition, np.zeros(3), index + 0) == 1
    assert look(condition, np.zeros(2), index) == 1
    assert look(condition, np.zeros(2), index) == 0
    assert look(condition, np.zeros(3), index) == 1


def test_what_may_change_is_looked_at() -> None:
    condition = a_condition()
    index = np.array([1])
    assert [look(condition, np.zeros(3), index) for _ in range(2)] == [1, 1]
    condition, index = a_condition(repeatable=False), jax.device_put(index)
    assert [look(condition, np.zeros(3), index) for _ in range(2)] == [1, 1]


def test_a_false_one_is_not_remembered() -> None:
    condition, index = a_condition(), jax.device_put(np.array([5]))
    assert [look(condition, np.zeros(3), index, holds=False) for _ in range(2)] == [1, 1]


class TestFunctions:
    def test_looking_does_not_trace_again(self) -> None:
        f = pytensor.function([X, INDEX], X[INDEX], mode="JAXSELECTIVE")
        index = jax.device_put(np.array([0, 2]))
        for _ in range(3):
            np.testing.assert_array_equal(f(np.arange(3.0), index), [0.0, 2.0])
        assert f.stats.compilations == [1]

    @pytest.mark.parametrize("x", [np.arange(2.0), jax.numpy.arange(2.0)])
    def test_a_shorter_argument(self, x: Any) -> None:
        f = pytensor.function([X, INDEX], X[INDEX], mode="JAXSELECTIVE")
        index = jax.device_put(np.array([0, 2]))
        for _ in range(2):
            f(np.arange(3.0), index)
            with pytest.raises(IndexError, match="out of bounds"):
                f(np.asarray(x, "float64"), index)

    def test_a_numpy_array_that_is_overwritten(self) -> None:
        f = pytensor.function([X, INDEX], X[INDEX], mode="JAXSELECTIVE")
        index = np.array([0, 2])
        f(np.arange(3.0), index)
        index[0] = 3
        with pytest.raises(IndexError, match="out of bounds"):
            f(np.arange(3.0), index)

    def test_shared_variables(self) -> None:
        index, total = pytensor.shared(np.array([0, 2])), pytensor.shared(0.0)
        f = pytensor.function(
            [X], X[index], updates={total: total + X[index].sum()}, mode="JAXSELECTIVE"
        )
        f(np.arange(3.0))
        f(np.arange(3.0))
        index.set_value(np.array([0, 3]))
        for _ in range(2):
            with pytest.raises(IndexError, match="out of bounds"):
                f(np.arange(3.0))
        assert total.get_value() == 4.0
        index.set_value(np.array([1, 1]))
        np.testing.assert_array_equal(f(np.arange(3.0)), [1.0, 1.0])

    def test_constants_and_a_device(self) -> None:
        data = np.arange(2_000.0)
        f = pytensor.function([INDEX], pt.as_tensor(data)[INDEX] * 2, mode=JAXLinker(device="cpu"))
        index = jax.device_put(np.array([1_999]))
        for _ in range(2):
            np.testing.assert_array_equal(f(index), [3_998.0])
        assert f.stats.compilations == [1]
        with pytest.raises(IndexError, match="out of bounds"):
            f(index + 1)


class Counted(Op):
    """Runs on the host, and counts how often."""

    __props__ = ()
    runs = 0

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        Counted.runs += 1
        outputs[0][0] = inputs[0] + 1.0


@pytest.mark.parametrize("host", [False, True])
def test_a_false_condition_compiles_nothing(host: bool) -> None:
    """PyTensor finishes the call at once: the regions of the slow path would say the same."""
    x = pt.exp(X)
    f = pytensor.function([X, INDEX], (Counted()(x) if host else x)[INDEX], mode=JAXLinker())
    f(np.zeros(3), [0])
    compiled = list(f.stats.compilations)
    for count, given in enumerate(([3], [-4], [2]), start=1):
        Counted.runs = 0
        if given == [2]:
            np.testing.assert_array_equal(f(np.zeros(3), given), [2.0 if host else 1.0])
        else:
            with pytest.raises(IndexError):
                f(np.zeros(3), given)
        assert Counted.runs == (2 if given != [2] else 1) * host
        assert f.stats.calls == count + 1
    assert f.stats.compilations == compiled
    assert (f.stats.fallbacks, f.stats.slow_calls, f.stats.general_calls) == (2, 0, 2)
