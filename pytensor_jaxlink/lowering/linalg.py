"""Factorisations and solves, with the failures that LAPACK reports.

Where a matrix has no Cholesky factor or a system no solution, PyTensor's results are NaN as a
whole; JAX leaves zeros and infinities in them.  What is not finite in a right-hand side stays in
its column.  Where NumPy and SciPy raise (a matrix without an inverse, infinities in a
factorisation), it is a condition of the region: it is checked after the region has run.
LAPACK may loop for ever on infinities, so what must be finite is replaced before it sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.linalg.constructors import BlockDiagonal
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.eigen import Eig, Eigh, Eigvalsh
from pytensor.tensor.linalg.decomposition.lu import LU, LUFactor, PivotToPermutations
from pytensor.tensor.linalg.decomposition.qr import QR
from pytensor.tensor.linalg.decomposition.schur import Schur
from pytensor.tensor.linalg.decomposition.svd import SVD
from pytensor.tensor.linalg.inverse import MatrixInverse, MatrixPinv
from pytensor.tensor.linalg.products import Expm, KroneckerProduct
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.linear_control import SolveSylvester
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.linalg.summary import Det, SLogDet

from pytensor_jaxlink.lowering.barriers import stored
from pytensor_jaxlink.lowering.coercion import (
    as_double,
    as_dtype,
    as_inexact,
    as_jax,
    check_equal_lengths,
)
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.ops import are_pivots, is_a_factor
from pytensor_jaxlink.validity import nan_unless


@jax_rule.register(Cholesky)
def _cholesky(op: Cholesky, node: Apply, context: Context) -> JaxFunction:
    """In the declared type: PyTensor's rule returns that of the matrix, of integers too."""
    function, declared = upstream_rule(node, context.static), node.outputs[0].type.dtype

    def factor(matrix: jax.Array) -> jax.Array:
        matrix = as_dtype(matrix, declared)
        return _factor_or_nan(function(matrix), matrix)

    return factor


@jax_rule.register(Solve)
def _solve(op: Solve, node: Apply, context: Context) -> JaxFunction:
    """A tridiagonal system of integers, and of no equations, JAX does not take."""
    kind = node.outputs[0].type.dtype
    function = upstream_rule(node, context.static, kind)

    def solve(a: jax.Array, b: jax.Array) -> jax.Array:
        check_equal_lengths(np.shape(a)[-1], np.shape(b)[-op.b_ndim])
        read = _half(a, op) if op.assume_a in ("sym", "her") else as_dtype(a, kind)
        if op.assume_a == "tridiagonal":
            b = as_dtype(b, kind)
            if not (a.size or b.size):
                return b
        return _solved(function(read, b), a, b, op.b_ndim)

    return solve


@jax_rule.register(SolveTriangular)
def _solve_triangular(op: SolveTriangular, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node, context.static, node.outputs[0].type.dtype)
    if op.unit_diagonal or is_a_factor(node.inputs[0]):
        return function
    return lambda a, b: _solution_or_nan(function(a, b), _is_singular(a), op.b_ndim)


@jax_rule.register(Det)
def _determinant(op: Det, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node, context.static)

    def determinant(matrix: jax.Array) -> jax.Array:
        _refuse_halves(matrix)
        if matrix.shape[-2:] == (0, 0):  # of no entries JAX has the value, and no derivative
            return jnp.ones(matrix.shape[:-2], node.outputs[0].type.dtype)
        return _without_sign(with_nan(function(matrix), matrix))

    return determinant


@jax_rule.register(BlockDiagonal)
@jax_rule.register(CholeskySolve)
@jax_rule.register(KroneckerProduct)
def _of_one_type(op: Op, node: Apply, context: Context) -> JaxFunction:
    return upstream_rule(node, dtype=node.outputs[0].type.dtype)


@jax_rule.register(MatrixInverse)
@jax_rule.register(SolveSylvester)
def _of_a_finite_result(op: Op, node: Apply, context: Context) -> JaxFunction:
    """Where it is not finite NumPy decides, and LAPACK, which perturbs singular equations."""
    function = upstream_rule(node, context.static)

    def result(*matrices: jax.Array) -> jax.Array:
        found = with_nan(function(*matrices), matrices[0])
        context.check(jnp.isfinite(found))
        return found

    return result


@jax_rule.register(Eig)
@jax_rule.register(Eigh)
@jax_rule.register(Eigvalsh)
@jax_rule.register(LU)
@jax_rule.register(SVD)
def _of_finite_matrices(op: Op, node: Apply, context: Context) -> JaxFunction:
    """NumPy and SciPy refuse other matrices."""
    function = upstream_rule(node, context.static)

    def of_finite(matrix: jax.Array) -> list[jax.Array]:
        matrix = as_inexact(matrix)
        context.check(jnp.isfinite(matrix))
        read = _mirrored(matrix, lower=op.lower) if isinstance(op, Eigh | Eigvalsh) else matrix
        outputs = _finite_or_nan(function, read)
        if isinstance(op, LU) and len(outputs) == 3 and not matrix.shape[-1]:
            outputs[0] = outputs[0][:0, :0]  # as SciPy has it
        return outputs

    return of_finite


@jax_rule.register(MatrixPinv)
def _pseudoinverse(op: MatrixPinv, node: Apply, context: Context) -> JaxFunction:
    """As NumPy: in double precision, where a singular value of 1e-15 of the largest is zero."""

    def pseudoinverse(matrix: jax.Array) -> jax.Array:
        _refuse_halves(matrix)
        matrix = as_double(matrix)
        context.check(jnp.isfinite(matrix))
        read = _mirrored(matrix, lower=True) if op.hermitian else matrix
        has_double = jnp.finfo(matrix.dtype).bits == 64  # or JAX is configured without 64 bits
        cutoff = 1e-15 if has_double else None
        function = partial(jnp.linalg.pinv, rtol=cutoff, hermitian=op.hermitian)
        return _finite_or_nan(function, read)[0]

    return pseudoinverse


@jax_rule.register(Schur)
def _schur(op: Schur, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node, context.static)
    return lambda matrix: _finite_or_nan(function, as_jax(matrix))


@jax_rule.register(LUFactor)
def _lu_factor(op: LUFactor, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node, context.static)

    def lu_factor(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
        factors, pivots = function(matrix)
        factors = with_nan(factors, matrix)
        return nan_unless(~_has_zero(factors)[..., None, None], factors), pivots

    return lu_factor


@jax_rule.register(PivotToPermutations)
def _permutation(op: PivotToPermutations, node: Apply, context: Context) -> JaxFunction:
    """JAX exchanges what it likes for places that are negative or not there."""
    function = upstream_rule(node, context.static)
    if are_pivots(node.inputs[0]):
        return function

    def permutation(pivots: jax.Array) -> jax.Array:
        places, length = as_dtype(pivots, "int64"), np.shape(pivots)[0]
        context.check((places >= -length) & (places < length))
        return function(as_dtype(jnp.where(places < 0, places + length, places), "int32"))

    return permutation


@jax_rule.register(SLogDet)
def _slogdet(op: SLogDet, node: Apply, context: Context) -> JaxFunction:
    """The sign is 1 where there is none: LAPACK counts what is negative."""
    function = upstream_rule(node, context.static)

    def slogdet(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
        _refuse_halves(matrix)
        sign, logarithm = (with_nan(output, matrix) for output in function(matrix))
        sign = _without_sign(sign)
        if jnp.iscomplexobj(sign):
            return sign, logarithm
        return jnp.where(jnp.isnan(sign), jnp.ones((), sign.dtype), sign), logarithm

    return slogdet


@jax_rule.register(Expm)
def _expm(op: Expm, node: Apply, context: Context) -> JaxFunction:
    """Of one entry it is the function of that, also where a series does not converge."""
    function = upstream_rule(node, context.static)

    def exponential(matrix: jax.Array) -> jax.Array:
        matrix = as_inexact(matrix)
        if matrix.shape == (1, 1):
            return jnp.exp(matrix)
        # JAX squares a result at most 16 times, and a triangular matrix as any other.
        largest = jnp.abs(matrix).sum(axis=-2).max(axis=-1, initial=0)
        context.check(largest <= (10 if matrix.dtype in ("float32", "complex64") else 100))
        return function(matrix)

    return exponential


@jax_rule.register(QR)
def _qr(op: QR, node: Apply, context: Context) -> JaxFunction:
    """PyTensor's rule takes neither reflectors (mode "raw") nor pivots."""

    def qr(matrix: jax.Array) -> Sequence[jax.Array]:
        rows, columns = np.shape(matrix)
        if not rows and columns:
            raise ValueError("LAPACK refuses a matrix that has columns and no row")
        matrix = as_dtype(matrix, node.outputs[0].type.dtype)
        if op.mode == "raw":
            found = jnp.linalg.qr(matrix, mode="raw")
            reflectors, scales = (with_nan(output, matrix) for output in found)
            reflectors = reflectors.T  # NumPy's are those of Fortran
            return reflectors, scales, jnp.triu(reflectors[: min(rows, columns)])
        found = jax.scipy.linalg.qr(matrix, mode=op.mode, pivoting=op.pivoting)
        return [with_nan(output, matrix) for output in found]

    return qr


@jax_rule.register(AllocDiag)
def _alloc_diag(op: AllocDiag, node: Apply, context: Context) -> JaxFunction:
    """By selection: XLA takes longer to compile, and to run, the scatter that PyTensor writes."""

    def alloc_diag(diagonal: jax.Array) -> jax.Array:
        size = np.shape(diagonal)[-1] + abs(op.offset)
        row, column = (jax.lax.broadcasted_iota("int32", (size, size), axis) for axis in (0, 1))
        room = [*[(0, 0)] * (np.ndim(diagonal) - 1), (0, abs(op.offset))]
        padded = jnp.pad(diagonal, room) if op.offset else as_jax(diagonal)
        spread = padded[..., :, None] if op.offset > 0 else padded[..., None, :]
        matrix = jnp.where(row + op.offset == column, spread, jnp.zeros((), padded.dtype))
        return jnp.moveaxis(matrix, (-2, -1), (op.axis1, op.axis2))

    return alloc_diag


def _refuse_halves(matrix: jax.Array) -> None:
    """Raise what lets PyTensor finish the call: NumPy has no linear algebra of float16."""
    if matrix.dtype == np.float16:
        raise ValueError("NumPy has no linear algebra of float16")


def _without_sign(value: jax.Array) -> jax.Array:
    """A value with 0.0 for -0.0, which is added so that a derivative of JAX passes."""
    zero = jnp.zeros((), value.dtype)
    return value + jax.lax.stop_gradient(jnp.where(value == 0, zero, -zero))


def _factor_or_nan(factor: jax.Array, matrix: jax.Array) -> jax.Array:
    """A Cholesky factor, or NaN where there is none.

    JAX leaves zeros in one half then.  It shows in the first entry, which is otherwise NaN only if
    that of the matrix is: LAPACK does not look for NaN.  Several operations read the factor.
    """
    failed = jnp.isnan(factor[..., :1, :1]) & ~jnp.isnan(matrix[..., :1, :1])
    return nan_unless(stored(~failed), factor)


def _finite_or_nan(function: JaxFunction, matrix: jax.Array) -> list[jax.Array]:
    """The outputs for a matrix, or NaN where it is not finite."""
    finite, zero = jnp.isfinite(matrix).all(), jnp.zeros((), matrix.dtype)
    outputs = function(jnp.where(finite, matrix, zero))
    outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
    # A sum with -0.0 changes nothing; the other one hands NaN back to the matrix as its derivative.
    lost = jnp.where(finite, -0.0, jnp.nan * jnp.where(finite, zero, matrix).real.sum())
    return [_plus(nan_unless(finite, output), lost) for output in outputs]


def _plus(value: jax.Array, zero: jax.Array) -> jax.Array:
    """A sum with -0.0, or with NaN; of complex numbers in both parts, whose signs stay."""
    if jnp.iscomplexobj(value):
        return jax.lax.complex(_plus(value.real, zero), _plus(value.imag, zero))
    return value + zero.astype(value.dtype)


def with_nan(output: jax.Array, matrix: jax.Array) -> jax.Array:
    """An output of an LU or QR factorisation; on GPUs NaN where the matrix has NaN.

    cuSOLVER takes NaN for zero in them and gives finite numbers.  LAPACK gives NaN.
    """
    return _nan_of_nan(output, as_jax(matrix), np.ndim(output) - (np.ndim(matrix) - 2))


def _nan_of_nan(output: jax.Array, matrix: jax.Array, core_ndim: int) -> jax.Array:
    if not jnp.issubdtype(output.dtype, jnp.inexact):
        return output  # pivots

    def on_gpu(output: jax.Array, matrix: jax.Array) -> jax.Array:
        return _solution_or_nan(output, jnp.isnan(matrix).any(axis=(-2, -1)), core_ndim)

    return jax.lax.platform_dependent(
        output, matrix, cpu=lambda output, matrix: output, default=on_gpu
    )


def _half(matrix: jax.Array, op: Solve) -> jax.Array:
    """The matrix of a system of which SciPy reads one triangle."""
    return _mirrored(as_jax(matrix), lower=op.lower, conjugate=op.assume_a == "her")


def _mirrored(matrix: jax.Array, *, lower: bool, conjugate: bool = True) -> jax.Array:
    """The Hermitian matrix that LAPACK reads from one triangle; JAX takes both, or the mean."""
    if matrix.shape[-1] != matrix.shape[-2]:
        return matrix
    below = jnp.tri(matrix.shape[-1], dtype=bool)
    other = jnp.swapaxes(matrix, -1, -2)
    if conjugate and jnp.iscomplexobj(matrix):
        matrix = jnp.where(jnp.eye(matrix.shape[-1], dtype=bool), matrix.real, matrix)
        other = jnp.conj(other)
    return jnp.where(below if lower else below.T, matrix, other)


def _has_zero(matrix: jax.Array) -> jax.Array:
    """Return True if a triangular matrix is singular, as LAPACK finds it."""
    return (jnp.diagonal(matrix, axis1=-2, axis2=-1) == 0).any(axis=-1)


def _is_singular(matrix: jax.Array) -> jax.Array:
    """The zero that OpenBLAS looks for by a minimum, which NaN hides in the first place only."""
    return _has_zero(matrix) & ~jnp.isnan(matrix[..., :1, :1]).any(axis=(-2, -1))


def _solved(solution: jax.Array, matrix: jax.Array, given: jax.Array, core_ndim: int) -> jax.Array:
    """The solution, or NaN: a matrix is singular where a finite column has none that is finite."""
    solution = _nan_of_nan(solution, as_jax(matrix), core_ndim)
    axis = -min(core_ndim, 2)
    failed = jnp.isfinite(given).all(axis=axis) & ~jnp.isfinite(solution).all(axis=axis)
    return _solution_or_nan(solution, failed.any(axis=-1) if core_ndim == 2 else failed, core_ndim)


def _solution_or_nan(solution: jax.Array, singular: jax.Array, core_ndim: int) -> jax.Array:
    """The solution, or NaN in the elements of the batch whose matrix is singular."""
    return nan_unless(~jnp.expand_dims(singular, tuple(range(-core_ndim, 0))), solution)
