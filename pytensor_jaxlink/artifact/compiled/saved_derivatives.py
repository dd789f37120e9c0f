"""Derivatives of calls of code in a file: backward, as often as the code has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy

SavedCall = Callable[..., list[jax.Array]]
"""From the arrays that code takes to those that it gives."""


def moves_of(
    call_of: Callable[[export.Exported, str], SavedCall],
    exported: export.Exported,
    where: str,
    primals: Sequence[jax.Array],
    outputs: Sequence[jax.Array],
    moving: Sequence[int],
    tangents: Sequence[jax.Array],
) -> list[jax.Array]:
    """The tangents of the inexact outputs, of which JAX may ask the transposed map alone.

    Parameters
    ----------
    call_of
        Makes a function of code.
    exported, where
        The code that was called, and its place.
    primals, outputs
        What it took and gave.
    moving
        The positions of the primals that move.
    tangents
        The tangents of all.
    """
    # This imports Pallas: 3 % of `import jax`, for loaded functions.
    from pytensor_jaxlink.linear_maps import LinearMap

    if not exported.has_vjp():
        raise ArtifactError(
            f"{where}: the code holds no derivative. {Remedy.SAVE_BACKWARD.text()}, or "
            f"{Remedy.LOAD_GRAPH.text()}.",
            code=Code.NO_DERIVATIVE,
        )
    backward = call_of(exported.vjp(), where)

    def pullback(
        residuals: Sequence[jax.Array], cotangents: Sequence[jax.Array]
    ) -> list[jax.Array]:
        given = iter(cotangents)
        of_all = [next(given) if is_inexact(each) else no_move(each) for each in outputs]
        found = backward(*residuals, *of_all)
        return [found[k] for k in moving]

    def pushforward(*_: object) -> NoReturn:
        raise ArtifactError(
            f"{where}: JAX differentiates forward (jvp, jacfwd, hessian), and the code has its "
            f"backward derivative alone. {Remedy.BACKWARD_ALONE.text()}, or "
            f"{Remedy.LOAD_GRAPH.text()}.",
            code=Code.NO_DERIVATIVE,
        )

    shapes = tuple(jax.ShapeDtypeStruct(o.shape, o.dtype) for o in outputs if is_inexact(o))
    return LinearMap(pushforward, pullback, shapes)(primals, [tangents[k] for k in moving])


def in_narrow_types(array: jax.Array) -> jax.Array:
    """An array in the type that JAX has in its place without 64-bit types."""
    with jax.enable_x64(False):
        dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.lax.convert_element_type(array, dtype)


def is_inexact(array: jax.Array) -> bool:
    """Return True for real and complex numbers, which have tangents."""
    return jnp.issubdtype(array.dtype, jnp.inexact)


def no_move(array: jax.Array) -> np.ndarray:
    """The tangent of integers."""
    return np.zeros(array.shape, jax.dtypes.float0)
