"""A linear map of which JAX is given both directions.

`jax.custom_jvp` takes a pushforward and transposes what it traces of it; `jax.custom_vjp` takes a
pullback and has no forward mode.  What has a pullback that JAX cannot look into (it calls the host)
needs both, so this is a primitive: evaluated it is the pushforward, transposed it is the pullback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Map = Callable[[list[jax.Array], list[jax.Array]], list[jax.Array]]


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A map that is linear in its second argument.

    Attributes
    ----------
    pushforward
        From residuals (on which the map depends in any way) and tangents to results.
    pullback
        From residuals and cotangents of the results to those of the tangents.
    results
        Shapes and dtypes of the results.
    """

    pushforward: Map
    pullback: Map
    results: tuple[jax.ShapeDtypeStruct, ...]

    def __call__(
        self, residuals: Sequence[jax.Array], tangents: Sequence[jax.Array]
    ) -> list[jax.Array]:
        """The results; JAX may evaluate, batch, transpose and differentiate them."""
        return _linear.bind(*residuals, *tangents, linear_map=self, count=len(residuals))


_linear = Primitive("pytensor_linear_map")
_linear.multiple_results = True


@_linear.def_impl
def _evaluate(*values: jax.Array, linear_map: LinearMap, count: int) -> list[jax.Array]:
    return linear_map.pushforward(list(values[:count]), list(values[count:]))


@_linear.def_abstract_eval
def _abstract(*values: object, linear_map: LinearMap, count: int) -> list[ShapedArray]:
    return [ShapedArray(each.shape, each.dtype) for each in linear_map.results]


def _jvp(
    values: Sequence[jax.Array], moves: Sequence[object], *, linear_map: LinearMap, count: int
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Linear in the tangents; of the residuals JAX differentiates the pushforward."""
    residuals, tangents = list(values[:count]), list(values[count:])
    further = [ad.instantiate_zeros(move) for move in moves[count:]]
    results, changes = linear_map(residuals, tangents), linear_map(residuals, further)
    moving = [k for k, move in enumerate(moves[:count]) if type(move) is not ad.Zero]
    if moving:

        def of_moving(*moved: jax.Array) -> list[jax.Array]:
            here = list(residuals)
            for position, value in zip(moving, moved, strict=True):
                here[position] = value
            return linear_map.pushforward(here, tangents)

        _, added = jax.jvp(of_moving, [residuals[k] for k in moving], [moves[k] for k in moving])
        changes = [one + other for one, other in zip(changes, added, strict=True)]
    return results, changes


def _transpose(
    cotangents: Sequence[object], *values: jax.Array, linear_map: LinearMap, count: int
) -> list[jax.Array | None]:
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    return [None] * count + linear_map.pullback(list(values[:count]), given)


def _batch(
    values: Sequence[jax.Array], axes: Sequence[int | None], *, linear_map: LinearMap, count: int
) -> tuple[list[jax.Array], list[int]]:
    [size, *_] = [v.shape[a] for v, a in zip(values, axes, strict=True) if a is not None]
    moved = [
        value if axis is None else jnp.moveaxis(value, axis, 0)
        for value, axis in zip(values, axes, strict=True)
    ]
    tangents = [
        jnp.broadcast_to(value, (size, *value.shape)) if axis is None else value
        for value, axis in zip(moved[count:], axes[count:], strict=True)
    ]
    batched = [None if axis is None else 0 for axis in axes[:count]]
    over = (batched, 0)
    results = tuple(
        jax.ShapeDtypeStruct((size, *each.shape), each.dtype) for each in linear_map.results
    )
    of_batch = LinearMap(
        jax.vmap(linear_map.pushforward, over), jax.vmap(linear_map.pullback, over), results
    )
    return of_batch(moved[:count], tangents), [0] * len(results)


ad.primitive_jvps[_linear] = _jvp
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _batch
mlir.register_lowering(_linear, mlir.lower_fun(_evaluate, multiple_results=True))
