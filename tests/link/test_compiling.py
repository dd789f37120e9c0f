"""Compiling ahead of the first call, and what a direct call does and does not look at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert

from pytensor_jaxlink import JAXLinker, JAXLinkWarning, RecompileLimitError
from pytensor_jaxlink.link import analyses
from pytensor_jaxlink.rewriting import linked_rewriter
from tests.helpers import PYTHON, black_box, sort_down

X, FACTOR = pt.dvector("x"), pt.dscalar("factor")

IS_REWRITTEN_LATE = pytensor.__version__.startswith("3.0.")
"""From PyTensor 3.1 on the rewriting of the outer graph rewrites inner ones."""


def test_one_region_is_compiled_and_not_run() -> None:
    state = pytensor.shared(np.zeros(3))
    f = pytensor.function([X], [], updates=[(state, state + X)], mode="JAXSELECTIVE")
    assert f.compile(jax.ShapeDtypeStruct((3,), "float64")) is f
    np.testing.assert_array_equal(state.get_value(), 0)
    f(np.ones(3))
    assert f.stats.compilations == [1]
    np.testing.assert_array_equal(state.get_value(), 1)


def test_several_regions_are_run_and_nothing_is_stored() -> None:
    state = pytensor.shared(0.0)
    box = black_box(sort_down)
    f = pytensor.function(
        [X], pt.exp(box(pt.tanh(X))), updates=[(state, state + 1)], mode="JAXSELECTIVE"
    )
    f.compile(np.ones(3))
    assert f.stats.compilations == [1, 1]
    assert state.get_value() == 0
    f(np.ones(3))
    assert f.stats.compilations == [1, 1]


def test_it_raises_the_exception_of_a_call() -> None:
    """A host step fails after a condition was false: the condition is the user's to see."""
    positive = Assert("negative")(X, pt.all(X > 0))
    entry = ps.csr_from_dense(positive.dimshuffle("x", 0) * 2)[0, 3]
    f = pytensor.function([X], entry + 1, mode="JAXSELECTIVE")
    with pytest.raises(AssertionError, match="negative"):
        f.compile(-np.ones(2))
    with pytest.raises(IndexError, match="out of range"):
        f.compile(np.ones(2))


@pytest.mark.parametrize("first", [0, 1])
def test_it_raises_the_first_of_two_exceptions(first: int) -> None:
    """A host step fails, and so does what Python computes before it, or after."""
    outputs = [ps.csr_from_dense(X.dimshuffle("x", 0) * 2)[0, 3] + 1, pt.exp(X)[9] * 2]
    outputs = outputs if first == 0 else [pt.linalg.cholesky(-pt.eye(2) + X[0]), outputs[0]]
    f, reference = (pytensor.function([X], outputs, mode=m) for m in ("JAXSELECTIVE", PYTHON))
    expected = _exception_of(reference, np.zeros(2))
    assert _exception_of(f, np.zeros(2)) is _exception_of(f.compile, np.zeros(2)) is expected


def _exception_of(function: Any, *arguments: Any) -> type[Exception]:
    with pytest.raises(Exception, match=r".") as found:
        function(*arguments)
    return found.type


def test_a_side_that_is_not_taken_and_cannot_be() -> None:
    """No window of two takes three values, and the sides differ: PyTensor finishes the call."""
    y, n, side = pt.dvector("y"), pt.lscalar("n"), pt.lscalar("side")
    written = pt.set_subtensor(X[n : n + 2], y)
    outputs = pytensor.ifelse(pt.gt(side, 1), pt.tanh(written), X[1:])
    f = pytensor.function([X, y, n, side], outputs, mode=JAXLinker(dynamic=True))
    given = np.ones(4), np.ones(3), 0, 0
    np.testing.assert_array_equal(f.compile(*given)(*given), np.ones(3))


def test_many_shapes_with_progress() -> None:
    f = pytensor.function([X], X.sum(), mode=JAXLinker(dynamic=False))
    seen: list[int] = []
    f.warmup([(np.ones(n),) for n in (2, 3, 4)], progress=seen.append)
    assert seen == [1, 2, 3]
    assert f.stats.compilations == [3]
    f.warmup([(np.ones(5),)])  # no terminal, no output


def test_bad_examples() -> None:
    f = pytensor.function([X], X.sum(), mode="JAXSELECTIVE")
    with pytest.raises(TypeError, match="expected 1 examples, found 2"):
        f.compile(np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match="Wrong number of dimensions"):
        f.compile(np.ones((2, 2)))


@pytest.mark.parametrize("linker", [JAXLinker(), JAXLinker(donate="all")])
def test_examples_without_values(linker: JAXLinker) -> None:
    """Their types are converted as those of arguments are, or refused by name."""
    f = pytensor.function([X], X * 2, mode=linker)
    for dtype in ("float64", "float32", "int32", "bool", jnp.bfloat16):
        f.compile(jax.ShapeDtypeStruct((3,), dtype))
        found = f(np.ones(3, dtype))
        assert found.dtype == "float64"
    assert f.stats.compilations == [1]
    for shape, dtype in [((3, 1), "float64"), ((), "float64"), ((3,), "complex128")]:
        with pytest.raises(TypeError, match=r"x: expected .*float64.*, found ShapeDtypeStruct"):
            f.compile(jax.ShapeDtypeStruct(shape, dtype))


def test_examples_of_other_types() -> None:
    three, narrow = pt.tensor("three", dtype="float64", shape=(3,)), pt.bvector("narrow")
    f = pytensor.function([three, narrow], three.sum() * narrow.sum(), mode="JAXSELECTIVE")
    f.compile(jax.ShapeDtypeStruct((3,), "float64"), jax.ShapeDtypeStruct((3,), "int8"))
    with pytest.raises(TypeError, match=r"three: expected .*, found ShapeDtypeStruct"):
        f.compile(jax.ShapeDtypeStruct((4,), "float64"), jax.ShapeDtypeStruct((3,), "int8"))
    with pytest.raises(TypeError, match=r"narrow: expected .*, found ShapeDtypeStruct"):
        f.compile(jax.ShapeDtypeStruct((3,), "float64"), jax.ShapeDtypeStruct((3,), "int16"))
    rng = pt.random.type.random_generator_type("rng")
    f = pytensor.function([rng], pt.random.normal(size=3, rng=rng), mode="JAXSELECTIVE")
    f.compile(np.random.default_rng(0))
    for dtype in ("uint32", jax.random.key(0).dtype):
        with pytest.raises(TypeError, match=r"rng: expected RandomGeneratorType, found Shape"):
            f.compile(jax.ShapeDtypeStruct((), dtype))


def test_static_sizes_need_values() -> None:
    n = pt.lscalar("n")
    f = pytensor.function([X, n], X[:n], mode="JAXSELECTIVE")
    with pytest.raises(TypeError, match=r"several regions or static sizes .*: give arrays"):
        f.compile(jax.ShapeDtypeStruct((3,), "float64"), 2)
    f.compile(np.ones(3), 2)


@pytest.mark.parametrize("outputs", [X.sum(), X * 2, X[X > 0]])
def test_beyond_the_limit(outputs: Any) -> None:
    """There is nothing to compile: such calls run in another way, and so do these examples."""
    f = pytensor.function([X], outputs, mode=JAXLinker(dynamic=False, recompile_limit=2))
    f.warmup([(np.ones(2),), (np.ones(3),)])
    with pytest.warns(JAXLinkWarning, match="which is its recompile_limit"):
        f.compile(np.ones(4))
    f.warmup([(np.ones(length),) for length in (5, 4, 2)])
    assert f.stats.compilations == [2]
    with pytest.raises(TypeError, match=r"not one compiled program: give arrays"):
        f.compile(jax.ShapeDtypeStruct((6,), "float64"))
    limited = JAXLinker(dynamic=False, recompile_limit=1, on_recompile_limit="error")
    f = pytensor.function([X], outputs, mode=limited)
    f.compile(np.ones(2))
    with pytest.raises(RecompileLimitError):
        f.compile(np.ones(3))


def test_examples_that_do_not_fit() -> None:
    """The shapes alone do not say what PyTensor makes of them."""
    y, side = pt.dvector("y"), pt.bscalar("side")
    vector = jax.ShapeDtypeStruct((3,), "float64")
    f = pytensor.function([X, y], pt.dot(X, y), mode="JAXSELECTIVE")
    with pytest.raises(TypeError, match=r"cannot trace these examples .*: give arrays"):
        f.compile(vector, jax.ShapeDtypeStruct((4,), "float64"))
    with pytest.raises(ValueError, match="mismatch"):
        f.compile(np.ones(3), np.ones(4))
    f = pytensor.function([X, side], pytensor.ifelse(side, X, X[1:]), mode="JAXSELECTIVE")
    with pytest.raises(TypeError, match=r"its two sides .*: give arrays"):
        f.compile(vector, jax.ShapeDtypeStruct((), "int8"))
    np.testing.assert_array_equal(f.compile(np.ones(3), 0)(np.ones(3), 0), np.ones(2))


def test_options_of_xla() -> None:
    linker = JAXLinker(compiler_options={"xla_no_such_option": True})
    f = pytensor.function([X], X.sum(), mode=linker)
    with pytest.raises(Exception, match="xla_no_such_option"):
        f(np.ones(2))
    with pytest.raises(ValueError, match="compiler_options='fast' is not a mapping"):
        JAXLinker(compiler_options="fast")  # pyright: ignore[reportArgumentType]


def test_the_compilation_cache_of_jax(tmp_path: Path) -> None:
    program = f"""
import numpy as np, pytensor, pytensor.tensor as pt
from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.link import analyses
from pytensor_jaxlink.rewriting import linked_rewriter
x = pt.dvector("x")
f = pytensor.function([x], pt.tanh(x).sum(), mode=JAXLinker(compilation_cache={str(tmp_path)!r}))
f(np.ones(3))
"""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ})
        kept = sorted(path.name for path in tmp_path.iterdir() if path.name.endswith("cache"))
        assert len(kept) == 1  # found again the second time


class TestDirectCalls:
    """A function that is one region goes straight to what `jax.jit` made of it."""

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (np.arange(3.0), 3.0),
            (jnp.arange(3.0), 3.0),
            (np.arange(3), 3.0),  # another type: PyTensor converts it
            (np.arange(3.0, dtype="float32"), 3.0),
            ([0.0, 1.0, 2.0], 3.0),
        ],
    )
    def test_what_fits_and_what_does_not(self, given: Any, expected: float) -> None:
        f = pytensor.function([X, FACTOR], (X * FACTOR).sum(), mode="JAXSELECTIVE")
        for _ in range(8):  # after some misfits it looks before it leaps
            found = f(given, 1.0)
            assert found == expected
            assert found.dtype == "float64"

    def test_bad_arguments(self) -> None:
        f = pytensor.function([X], X.sum(), mode="JAXSELECTIVE")
        f(np.ones(2))
        with pytest.raises(TypeError, match="Wrong number of dimensions"):
            f(np.ones((2, 2)))
        with pytest.raises(TypeError, match="Missing input"):
            f()
        with pytest.raises(TypeError, match="Too many parameter"):
            f(np.ones(2), 1)
        with pytest.raises(TypeError, match="Unknown input"):
            f(y=np.ones(2))
        assert f(x=np.ones(2)) == 2

    def test_fixed_lengths(self) -> None:
        y = pt.tensor("y", dtype="float64", shape=(3,))
        f = pytensor.function([y], y.sum(), mode="JAXSELECTIVE")
        assert f(np.ones(3)) == 3
        with pytest.raises(TypeError):
            f(np.ones(4))

    def test_names_go_the_same_way(self) -> None:
        f = pytensor.function([X, FACTOR], (X * FACTOR).sum(), mode="JAXSELECTIVE")
        assert f(factor=2.0, x=np.ones(2)) == f(np.ones(2), factor=2.0) == 4
        assert f.stats.direct == f.stats.calls == 2

    def test_one_transfer_of_an_array_that_is_given_twice(self) -> None:
        y = pt.dvector("y")
        f = pytensor.function([X, y, FACTOR], (X * y).sum() * FACTOR, mode="JAXSELECTIVE")
        value = np.arange(100_000.0)
        f(value, value, np.float64(1))
        assert f.stats.bytes_to_device == value.nbytes + 8

    def test_small_arrays_that_are_given_twice_cost_what_others_do(self) -> None:
        y = pt.dvector("y")
        f = pytensor.function([X, y], X * y, mode="JAXSELECTIVE")
        value = np.ones(5)
        f(value, value)
        assert f.stats.bytes_to_device == 2 * value.nbytes  # by `jax.jit`, which is quicker here

    def test_equal_constants_are_on_the_device_once(self) -> None:
        data = np.arange(2_000.0)
        f, g = (
            pytensor.function([FACTOR], (data.copy() ** FACTOR).sum(), mode="JAXSELECTIVE")
            for _ in range(2)
        )
        f(2.0)
        g(2.0)
        pairs = [function._fast.call.__self__.constants_at(None) for function in (f, g)]
        assert pairs[0][0] is pairs[1][0]

    def test_a_condition_and_then_none(self) -> None:
        index = pt.lscalar("index")
        f = pytensor.function([X, index], X[index], mode="JAXSELECTIVE")
        assert f(np.arange(3.0), 2) == 2
        with pytest.raises(IndexError):
            f(np.arange(3.0), 3)
        assert f(np.arange(3.0), -3) == 0


def test_a_rewriter_of_inner_graphs_is_made_once_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes longer than to analyse a small loop."""
    made: list[None] = []
    monkeypatch.setattr(
        analyses, "linked_rewriter", lambda excluded: made.append(None) or linked_rewriter(excluded)
    )
    states = pytensor.scan(lambda x, state: state * x, [X], [pt.zeros(())], return_updates=False)
    f = pytensor.function([X], pt.grad(states.sum(), X), mode="JAXSELECTIVE")
    np.testing.assert_array_equal(f(np.ones(3)), 0)
    assert len(made) <= IS_REWRITTEN_LATE
