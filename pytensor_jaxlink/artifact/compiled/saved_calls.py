"""Calls of code in a file, as JAX transforms them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.typed_jax import configuration

SavedCall = Callable[..., list[jax.Array]]
"""From the arrays that code takes to those that it gives."""


def call_of(exported: export.Exported, where: str) -> SavedCall:
    """The function of code that JAX has exported, which says what JAX cannot do with it.

    The code has the types of the process that saved it.  Where JAX is configured without 64-bit
    types, it takes and gives the narrower ones, as functions of JAX do.

    Parameters
    ----------
    exported
        The code.
    where
        The file and the region, for errors.
    """
    narrow = not configuration.jax_enable_x64

    def evaluate(*leaves: jax.Array) -> list[jax.Array]:
        with jax.enable_x64(True):
            taken = [
                jnp.asarray(leaf, kind.dtype)
                for leaf, kind in zip(leaves, exported.in_avals, strict=True)
            ]
            given = jax.tree.leaves(exported.call(*taken))
            return [_narrowed(each) for each in given] if narrow else given

    mapped = custom_vmap(evaluate)

    @mapped.def_vmap
    def refuse(*_: object) -> NoReturn:  # calls of exported code have no rule for `jax.vmap`
        text = (
            "JAX cannot map code that was exported over one more axis. "
            f"{Remedy.OPEN_AXIS.text()}, or {Remedy.LOAD_GRAPH.text()}."
        )
        raise NotImplementedError(Code.NOT_MAPPED.mark(text))

    def rule(
        primals: Sequence[jax.Array], tangents: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], list[object]]:
        outputs = call(*primals)
        moving = [
            k
            for k, each in enumerate(tangents)
            if not isinstance(each, SymbolicZero) and jnp.issubdtype(primals[k].dtype, jnp.inexact)
        ]
        moves = iter(_moves(exported, where, primals, outputs, moving, tangents))
        return outputs, [next(moves) if _is_inexact(each) else _no_move(each) for each in outputs]

    call = jax.custom_jvp(mapped)
    call.defjvp(rule, symbolic_zeros=True)
    return call


def _moves(
    exported: export.Exported,
    where: str,
    primals: Sequence[jax.Array],
    outputs: Sequence[jax.Array],
    moving: Sequence[int],
    tangents: Sequence[jax.Array],
) -> list[jax.Array]:
    """The tangents of the real outputs, of which JAX may ask the transposed map alone."""
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
        of_all = [next(given) if _is_inexact(each) else _no_move(each) for each in outputs]
        found = backward(*residuals, *of_all)
        return [found[k] for k in moving]

    def pushforward(*_: object) -> NoReturn:
        raise ArtifactError(
            f"{where}: JAX differentiates forward (jvp, jacfwd, hessian), and the code has its "
            f"backward derivative alone. {Remedy.BACKWARD_ALONE.text()}, or "
            f"{Remedy.LOAD_GRAPH.text()}.",
            code=Code.NO_DERIVATIVE,
        )

    shapes = tuple(jax.ShapeDtypeStruct(o.shape, o.dtype) for o in outputs if _is_inexact(o))
    return LinearMap(pushforward, pullback, shapes)(primals, [tangents[k] for k in moving])


def _narrowed(array: jax.Array) -> jax.Array:
    """An array in the type that JAX has in its place without 64-bit types."""
    with jax.enable_x64(False):
        dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.lax.convert_element_type(array, dtype)


def _is_inexact(array: jax.Array) -> bool:
    return jnp.issubdtype(array.dtype, jnp.inexact)


def _no_move(array: jax.Array) -> np.ndarray:
    """The tangent of integers."""
    return np.zeros(array.shape, jax.dtypes.float0)
