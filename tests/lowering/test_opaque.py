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

from pytensor_jaxlink import JAXLinker, jaxify
from tests.helpers import compile_both

X, Y, Z = pt.dvectors("x", "y", "z")
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1e300, -1e300, 1e-300, np.inf, -np.inf, np.nan]
GRID = np.array(list(product(EDGES, EDGES, EDGES))).T

# Each has more than one reader, or PyTensor itself would combine the two operations.
CHAINS: dict[str, Callable[..., list[Any]]] = {
    "a quotient divided": lambda q: [q, q / Z],
    "by a quotient": lambda q: [q, Z / q],
    "a quotient by a quotient": lambda q: [q, q / (Z / X), Z / X],
    "the reciprocal": lambda q: [q, pt.reciprocal(q)],
    "floor": lambda q: [q, q // Z, Z // q],
    "one entry": lambda q: [q, Z / q[::-1]],
}


def check(outputs: list[Any], given: tuple[Any, ...], **options: Any) -> None:
    f, reference = compile_both([X, Y, Z], outputs, JAXLinker(**options))
    with np.errstate(all="ignore"):
        for found, expected in zip(f(*given), reference(*given), strict=True):
            denormal = (expected != 0) & (abs(expected) < np.finfo(expected.dtype).tiny)
            seen, zero = np.where(denormal, expected, found), expected == 0
            np.testing.assert_allclose(seen, expected, rtol=1e-13)
            np.testing.assert_array_equal(np.signbit(seen[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", CHAINS)
def test_quotients_of_quotients(name: str) -> None:
    outputs = CHAINS[name](X / Y)
    ratios = [X / Y, Z / X, Z / Y, X / Y / Z]  # a denormal one is zero for XLA, and so divides
    fine = np.all([_is_normal(ratio) for ratio in _values(ratios)], axis=0)
    check(outputs, tuple(GRID[:, fine]))


def _values(outputs: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return compile_both([X, Y, Z], outputs)[1](*GRID)


def _is_normal(value: Any) -> Any:
    return (value == 0) | ~(abs(value) < np.finfo(value.dtype).tiny)


@pytest.mark.parametrize("logarithm", [pt.log, pt.log2, pt.log10])
def test_logarithms_of_powers(logarithm: Callable[[Any], Any]) -> None:
    """That of a negative power is NaN, and of one to the power infinity it is 0."""
    f, reference = compile_both([X, Y], [logarithm(X**Y)])
    x, y = np.array(list(product([-2.0, -1.0, -0.0, 0.0, 1.0, 3.0], EDGES))).T
    with np.errstate(all="ignore"):
        [found], [expected] = f(x, y), reference(x, y)
        fine = _is_normal(x**y)
    np.testing.assert_allclose(found[fine], expected[fine], rtol=1e-13)


def test_scalars_in_a_composite() -> None:
    x, y, z = (ps.float64(name) for name in "xyz")
    op = Elemwise(ps.Composite([x, y, z], [z / (x / y), ps.log(x**y)]))
    f, reference = compile_both([X, Y, Z], op(X, Y, Z))
    given = [np.array([1e300, 1e-300, -2.0]), np.array([1e300, 1e-300, 3.0]), np.full(3, 1e300)]
    with np.errstate(all="ignore"):
        for found, expected in zip(f(*given), reference(*given), strict=True):
            np.testing.assert_allclose(found, expected)


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
