"""What XLA would simplify as if numbers had no range, and powers no sign, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest
from pytensor.tensor.elemwise import Elemwise

from pytensor_jaxlink import jaxify
from tests.helpers import compile_both

X, Y, Z = pt.dvectors("x", "y", "z")
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1e300, -1e300, 1e-300, np.inf, -np.inf, np.nan]
GRID = np.array(list(product(EDGES, EDGES, EDGES))).T

# Each has more than one reader, or PyTensor itself would combine the two operations.
CHAINS: dict[str, Callable[..., list[Any]]] = {
    "a quotient divided": lambda q: [q, q / Z],
    "by a quotient": lambda q: [q, Z / q],
    "a quotient by a quotient": lambda q: [q, q / (Z / X), Z / X],
    "floor": lambda q: [q, q // Z, Z // q],
}


def check(outputs: list[Any], given: Any) -> None:
    f, reference = compile_both([X, Y, Z], outputs)
    with np.errstate(all="ignore"):
        for found, expected in zip(f(*given), reference(*given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13)
            zero = expected == 0
            np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", CHAINS)
def test_quotients_of_quotients(name: str) -> None:
    check(CHAINS[name](X / Y), GRID)


@pytest.mark.parametrize("logarithm", [pt.log, pt.log2, pt.log10])
def test_logarithms_of_powers(logarithm: Callable[[Any], Any]) -> None:
    """That of a negative power is NaN, and of one to the power infinity it is 0."""
    f, reference = compile_both([X, Y], [logarithm(X**Y)])
    x, y = np.array(list(product([-2.0, -1.0, -0.0, 0.0, 1.0, 3.0], EDGES))).T
    with np.errstate(all="ignore"):
        [found], [expected] = f(x, y), reference(x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_scalars_in_a_composite() -> None:
    x, y, z = (ps.float64(name) for name in "xyz")
    op = Elemwise(ps.Composite([x, y, z], [z / (x / y), ps.log(x**y)]))
    f, reference = compile_both([X, Y, Z], op(X, Y, Z))
    given = [np.array([1e300, 1e-300, -2.0]), np.array([1e300, 1e-300, 3.0]), np.full(3, 1e300)]
    with np.errstate(all="ignore"):
        for found, expected in zip(f(*given), reference(*given), strict=True):
            np.testing.assert_allclose(found, expected)


def test_a_composite_computes_in_the_types_of_its_ops() -> None:
    """Not in the common type of its inputs: a real number has no place for these digits."""
    i, x = ps.int64("i"), ps.float64("x")
    op = Elemwise(ps.Composite([i, x], [i * i, x + i]))
    whole = pt.lvector("whole")
    f, reference = compile_both([whole, X], op(whole, X))
    given = np.array([3_037_000_499, 3]), np.array([0.5, -1.0])
    for found, expected in zip(f(*given), reference(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected, strict=True)


def test_gradients_pass() -> None:
    cost = (Z / (X / Y)).sum() + (X / Y / Z).sum() + pt.log(X**Y).sum()
    f, reference = compile_both([X, Y, Z], pytensor.grad(cost, [X, Y, Z]))
    given = [np.array([1.0, 2.0]), np.array([3.0, 0.5]), np.array([0.25, 4.0])]
    for found, expected in zip(f(*given), reference(*given), strict=True):
        np.testing.assert_allclose(found, expected)
    with jax.enable_x64(True):
        slopes = jax.grad(jaxify([X, Y, Z], cost), argnums=(0, 1, 2))(*given)
    for found, expected in zip(slopes, reference(*given), strict=True):
        np.testing.assert_allclose(found, expected)
