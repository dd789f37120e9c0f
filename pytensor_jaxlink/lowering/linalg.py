"""Factorisations and solves, with the failures that LAPACK reports.

Where a matrix has no Cholesky factor or a system no solution, PyTensor's results are NaN as a
whole; JAX leaves zeros and infinities in them.  Where a matrix has no inverse NumPy raises, which
is a condition of the region: it is looked at after the region has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.lowering.values import as_dtype, as_jax
from pytensor_jaxlink.ops import Contraction


@jax_rule.register(Cholesky)
@jax_rule.register(MatrixInverse)
@jax_rule.register(Solve)
@jax_rule.register(SolveTriangular)
@jax_rule.register(CholeskySolve)
def _linear_algebra(op: Op, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node, context.known)
    match op:
        case Cholesky():
            return lambda *values: _factor_or_nan(function(*values))
        case SolveBase():
            return lambda *values: _whole_or_nan(function(*values), op.b_ndim)
        case MatrixInverse() if context.checks:
            return lambda *values: _require_finite(function(*values), values)
    return function


@jax_rule.register(AllocDiag)
def _alloc_diag(op: AllocDiag, node: Apply, context: Context) -> JaxFunction:
    """By selection: XLA takes longer to compile, and to run, the scatter that PyTensor writes."""

    def alloc_diag(diagonal: Any) -> Any:
        size = np.shape(diagonal)[-1] + abs(op.offset)
        row, column = (jax.lax.broadcasted_iota("int32", (size, size), axis) for axis in (0, 1))
        room = [*[(0, 0)] * (np.ndim(diagonal) - 1), (0, abs(op.offset))]
        padded = jnp.pad(diagonal, room) if op.offset else as_jax(diagonal)
        spread = padded[..., :, None] if op.offset > 0 else padded[..., None, :]
        matrix = jnp.where(row + op.offset == column, spread, jnp.zeros((), padded.dtype))
        return jnp.moveaxis(matrix, (-2, -1), (op.axis1, op.axis2))

    return alloc_diag


@jax_rule.register(Contraction)
def _contraction(op: Contraction, node: Apply, context: Context) -> JaxFunction:
    dimensions = (((op.left,), (op.right,)), ((), ()))
    dtype = node.outputs[0].type.dtype

    def contract(*matrices: Any) -> Any:
        left, right = (as_dtype(matrix, dtype) for matrix in matrices)
        return jax.lax.dot_general(left, right, dimensions)

    return contract


def _factor_or_nan(factor: Any) -> Any:
    """A Cholesky factor, or NaN; what is not finite in it shows on its diagonal."""
    diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
    finite = jnp.isfinite(diagonal).all(axis=-1)[..., None, None]
    return jnp.where(finite, factor, jnp.nan)


def _whole_or_nan(result: Any, core_ndim: int) -> Any:
    """The result, with each element of the batch that is not finite replaced by NaN."""
    axes = tuple(range(-core_ndim, 0))
    return jnp.where(jnp.isfinite(result).all(axis=axes, keepdims=True), result, jnp.nan)


def _require_finite(result: Any, values: Sequence[Any]) -> Any:
    given = jnp.stack([jnp.isfinite(value).all() for value in values]).all()
    require(jnp.isfinite(result).all() | ~given)
    return result
