"""Conditions: one boolean for all entries, in few kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.lowering.checks import everywhere

SHAPES = [(), (0,), (1,), (32,), (33,), (2_000,), (40, 50), (3, 0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_condition_is_true_if_no_entry_is_false(shape):
    entries = np.ones(shape, bool)
    assert jax.jit(everywhere)(entries)
    if not entries.size:
        return
    assert not jax.jit(everywhere)(~entries)
    entries.flat[-1] = False
    assert not jax.jit(everywhere)(entries)


def test_a_condition_of_a_batch():
    entries = np.ones((2, 100), bool)
    entries[1, 7] = False
    assert jax.jit(jax.vmap(everywhere))(entries).tolist() == [True, False]


def test_a_condition_of_an_open_length():
    length = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(everywhere))(jax.ShapeDtypeStruct(length, bool))
    assert [bool(exported.call(np.arange(n) < 50)) for n in (3, 50, 51)] == [True, True, False]


def kernels(function, *arguments):
    """The operations of the entry computation that XLA compiles."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    entry = text[text.index("ENTRY") :]
    return sum(entry.count(f" {kind}(") for kind in ("fusion", "reduce", "reduce-window", "call"))


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="kernels of XLA's CPU compiler")
def test_a_condition_takes_two_kernels():
    x = np.zeros(100_000)
    assert kernels(lambda x: everywhere(x >= 0), x) == 2
    assert kernels(lambda x: jnp.all(x >= 0), x) > 2


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="kernels of XLA's CPU compiler")
@pytest.mark.parametrize("reduce", [pt.all, pt.any])
def test_a_condition_of_the_user_takes_two_kernels(reduce):
    x = pt.dvector("x")
    f = pytensor.function([x], reduce(x >= 0), mode="JAXSELECTIVE")
    assert kernels(f.jax_fn, np.zeros(100_000)) == 2


@pytest.mark.parametrize("reduce", [pt.all, pt.any])
@pytest.mark.parametrize("axis", [None, (), 0, 1, (0, 1)], ids=str)
@pytest.mark.parametrize("shape", [(40, 50), (3, 4), (0, 40)], ids=str)
def test_conditions_along_axes(reduce, axis, shape):
    x = pt.bmatrix("x")
    f = pytensor.function([x], reduce(x, axis=axis), mode="JAXSELECTIVE")
    entries = np.random.default_rng(0).integers(2, size=shape).astype("int8")
    for given in (entries, 0 * entries, 0 * entries + 1):
        expected = given.astype(bool) if axis == () else getattr(np, reduce.__name__)(given, axis)
        np.testing.assert_array_equal(f(given), expected)
