"""Arguments have the declared types, on whichever path a call goes."""

from __future__ import annotations

import io
import threading
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.raise_op import Assert

from pytensor_jaxlink import JAXLinker, load, save
from tests.helpers import PYTHON, black_box, compile_both
from tests.link.test_dynamic_sizes import answer, assert_same

X, Y, B, N = pt.dvector("x"), pt.dvector("y"), pt.bvector("b"), pt.lscalar("n")
WRONG = {
    "x": [np.ones((2, 3)), np.ones(3) * 1j],
    "b": [np.full(3, 300), np.ones((2, 2), "int8"), np.ones(3)],
}


@pytest.mark.filterwarnings("ignore:region")
@pytest.mark.parametrize("limit", [2, 8])
@pytest.mark.parametrize("other", [Y, B], ids=str)
def test_beyond_the_recompile_limit(other: Any, limit: int) -> None:
    output = pt.unique(X).cumsum() * 2 + other.sum()
    f, reference = compile_both(
        [X, other], [output, other * 1], JAXLinker(recompile_limit=limit, dynamic=False)
    )
    for count in range(1, limit + 4):  # as many distinct numbers: another length each
        values = np.r_[np.arange(1.0, count + 1), np.ones(20 - count)]
        f(values, np.ones(3, other.type.dtype))
    for wrong in WRONG["b" if other is B else "x"]:
        for function in (f, reference):
            with pytest.raises(TypeError):
                function(np.arange(20.0), wrong)


KNOWN: dict[str, tuple[list[Any], Any, Any]] = {
    "real for an integer": ([X, B], X * B, np.full(4, 2.0)),
    "an integer for a strict input": ([X, pytensor.In(Y, strict=True)], X * Y, np.ones(4, int)),
    "a text": ([X, Y], X * Y, "abc"),
    "a masked array": ([X, Y], X * Y, np.ma.ones(4)),
    "an integer": ([X, Y], X * Y, np.arange(4)),
    "a list": ([X, Y], X * Y, [1, 2, 3, 4]),
    "a size": ([X, N], X[:N].sum(), np.int32(2)),
}


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("name", KNOWN)
def test_arguments_that_are_known_while_jax_traces_others(name: str, jit: bool) -> None:
    inputs, output, value = KNOWN[name]
    f = pytensor.function(inputs, output, mode=JAXLinker(jit=jit))
    reference = pytensor.function(inputs, output, mode=PYTHON)
    x = np.arange(4.0)
    found = answer(jax.jit(lambda traced: f(traced, value)), (x,))
    assert_same(found, answer(reference, (x, value)))


INSIDE: dict[str, tuple[Any, dict[str, Any]]] = {
    "a check": (Assert("small")(X.sum(), (X < 5).all()), {}),
    "NumPy results": (X.sum(), {"outputs": "numpy"}),
    "a padded argument": (pt.exp(X), {"dynamic": True}),
    "a mask": (X[X > 0], {}),
    "a host step": (pt.unique(X), {}),
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_call_with_known_arguments_in_a_trace(name: str) -> None:
    output, options = INSIDE[name]
    f = pytensor.function([X], output, mode=JAXLinker(**options))
    expected = np.sum(f(np.ones(3)))
    for _ in range(2):
        found = jax.jit(lambda z: z + jnp.sum(f(np.ones(3))))(0.0)
        np.testing.assert_allclose(found, expected)


class Sorts(Op):
    """An Op whose JAX implementation fails while JAX traces."""

    __props__ = ()

    def make_node(self, values: Any) -> Apply:
        return Apply(self, [values], [values.type()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        RUNS.append(1)
        outputs[0][0] = np.sort(inputs[0])


RUNS: list[int] = []


@jax_funcify.register(Sorts)
def _sorts(op: Sorts, **_: Any) -> Any:
    return lambda values: jnp.asarray(np.sort(np.asarray(values)))


def test_an_op_that_has_moved_to_the_host_runs_once() -> None:
    """No argument is found to have another type when it has run."""
    f = pytensor.function([X, Y], Sorts()(pt.exp(X)).sum() * Y, mode="JAXSELECTIVE")
    for _ in range(2):
        f(np.ones(3), np.ones(3))
    RUNS.clear()
    for number, value in enumerate((np.ones(3, int), np.ma.ones(4), np.ones(5, "float32")), 1):
        f(np.ones(3), value)
        assert len(RUNS) == number


@pytest.mark.parametrize("value", [np.ones(3, int), np.ones(3, "float32"), [1.0, 2.0, 3.0]])
def test_the_ops_of_a_loaded_function_run_once(value: Any) -> None:
    f = pytensor.function([X, Y], Sorts()(pt.exp(X)).sum() * Y, mode="JAXSELECTIVE")
    f(np.ones(3), np.ones(3))
    file = io.BytesIO()
    save(f, file)
    file.seek(0)
    loaded = load(file, allow=(__name__,))
    loaded(np.ones(3), np.ones(3))
    RUNS.clear()
    loaded(np.ones(3), value)
    assert len(RUNS) == 1


def test_a_masked_array_at_a_new_shape_runs_an_op_once() -> None:
    runs: list[int] = []

    def noted(values: np.ndarray) -> np.ndarray:
        runs.append(1)
        return values * 2

    f = pytensor.function([X, Y], black_box(noted)(X).sum() * Y, mode="JAXSELECTIVE")
    f(np.ones(3), np.ma.ones(3))
    assert len(runs) == 1


def test_a_plan_that_changes_while_arguments_are_converted() -> None:
    """A call answers in the form of the path on which it began."""
    f = pytensor.function([X, N], pt.arange(N).sum() * X, mode="JAXSELECTIVE")

    class Lazy:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.asarray(f([1.0, 2.0, 3.0], 3))

    f(np.ones(3), 2)
    found = f(Lazy(), 2)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, [3, 6, 9])


def test_a_plan_that_another_thread_changes() -> None:
    kinds: Counter[str] = Counter()
    for _ in range(5):
        f = pytensor.function([X, N], pt.arange(N).sum() * X, mode=JAXLinker(outputs="numpy"))
        f(np.ones(3), 2)

        def work(size: int, f: Any = f) -> None:
            for _ in range(40):
                kinds[type(f(np.ones(3), size)).__name__] += 1

        threads = [threading.Thread(target=work, args=(size,)) for size in (2, 2, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(kinds) == {"ndarray"}
