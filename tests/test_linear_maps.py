"""A linear map of which JAX is given both directions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pytensor_jaxlink.linear_maps import LinearMap

FORWARD, BACKWARD = "forward", "backward"


def times(calls: list[str]) -> Any:
    """``(matrix, vector) -> exp(matrix) @ vector`` as a linear map of the vector."""

    def forward(residuals: list[Any], tangents: list[Any]) -> list[Any]:
        calls.append(FORWARD)
        return [jnp.exp(residuals[0]) @ tangents[0]]

    def backward(residuals: list[Any], cotangents: list[Any]) -> list[Any]:
        calls.append(BACKWARD)
        return [jnp.exp(residuals[0]).T @ cotangents[0]]

    def product(matrix: Any, vector: Any) -> Any:
        shape = jax.ShapeDtypeStruct(matrix.shape[:1], matrix.dtype)
        return LinearMap(forward, backward, (shape,))([matrix], [vector])[0]

    return product


MATRIX = jnp.asarray(np.arange(6.0).reshape(2, 3) / 10)
VECTOR = jnp.asarray([1.0, -1.0, 2.0])


@pytest.fixture
def calls() -> list[str]:
    return []


def plain(matrix: Any, vector: Any) -> Any:
    return jnp.exp(matrix) @ vector


def test_transposed_it_is_the_pullback(calls: list[str]) -> None:
    product = times(calls)
    np.testing.assert_allclose(product(MATRIX, VECTOR), plain(MATRIX, VECTOR))
    assert calls == [FORWARD]
    [found] = jax.linear_transpose(lambda v: product(MATRIX, v), VECTOR)(jnp.ones(2))
    np.testing.assert_allclose(found, jnp.exp(MATRIX).sum(0))
    assert calls == [FORWARD, BACKWARD]


@pytest.mark.parametrize("argument", [0, 1])
def test_every_transformation(calls: list[str], argument: int) -> None:
    product = times(calls)
    for transform in (jax.jacfwd, jax.jacrev, jax.hessian):
        for make in (lambda f: f, jax.jit):
            found = make(transform(product, argument))(MATRIX, VECTOR)
            expected = jax.jit(transform(plain, argument))(MATRIX, VECTOR)
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1)])
def test_batches(calls: list[str], axes: Any) -> None:
    batch = 4
    arguments = [
        value if axis is None else jnp.stack([value * k for k in range(batch)], axis)
        for value, axis in zip((MATRIX, VECTOR), axes, strict=True)
    ]
    product = times(calls)
    for one, other in (
        (product, plain),
        (
            jax.grad(lambda *a: product(*a).sum(), (0, 1)),
            jax.grad(lambda *a: plain(*a).sum(), (0, 1)),
        ),
    ):
        found = jax.jit(jax.vmap(one, axes))(*arguments)
        expected = jax.jit(jax.vmap(other, axes))(*arguments)
        for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(mine, theirs)
