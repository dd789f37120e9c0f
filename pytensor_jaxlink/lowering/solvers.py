"""Solvers that JAX has in another form: tridiagonal systems and least squares."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.linalg.solvers.lstsq import Lstsq
from pytensor.tensor.linalg.solvers.tridiagonal import (
    LUFactorTridiagonal,
    SolveLUFactorTridiagonal,
)

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.coercion import as_dtype
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.lowering.rules import not_right
from pytensor_jaxlink.validity import nan_unless


@jax_rule.register(LUFactorTridiagonal)
def _factor(op: LUFactorTridiagonal, node: Apply, context: Context) -> JaxFunction:
    """Elimination with the exchanges of neighbouring rows that LAPACK's ``gttrf`` makes."""
    dtype = node.outputs[0].type.dtype

    def factor(lower: jax.Array, diagonal: jax.Array, upper: jax.Array) -> tuple[jax.Array, ...]:
        lower, diagonal, upper = (as_dtype(v, dtype) for v in (lower, diagonal, upper))
        count = diagonal.shape[0]
        _check_lengths(count, lower, upper)

        def step(
            row: tuple[jax.Array, ...], following: tuple[jax.Array, ...]
        ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
            here, right = row
            below, next_here, next_right = following
            stays = jnp.abs(here) >= jnp.abs(below)
            pivot, other = jnp.where(stays, here, below), jnp.where(stays, below, here)
            ratio = jnp.where(pivot == 0, other, other / jnp.where(pivot == 0, 1, pivot))
            # A column of zeros is left as it is.
            factor = jnp.where(stays & (pivot == 0), 0, ratio)
            kept = jnp.where(stays, right, next_here)
            moved = jnp.where(stays, next_here - factor * right, right - factor * next_here)
            filled = jnp.where(stays, 0, next_right)
            following_right = jnp.where(stays, next_right, -factor * next_right)
            return (moved, following_right), (ratio, pivot, kept, filled, stays)

        padded = jnp.concatenate([upper[1:], jnp.zeros(min(count - 1, 1), upper.dtype)])
        start = diagonal[0], upper[0] if count > 1 else jnp.zeros((), upper.dtype)
        last, made = jax.lax.scan(step, start, (lower, diagonal[1:], padded))
        ratios, pivots, kept, filled, stays = made
        rows = jnp.arange(1, count + 1, dtype="int32")  # LAPACK counts from 1
        chosen = rows.at[:-1].add(jnp.where(stays, 0, 1).astype("int32"))
        whole = jnp.concatenate([pivots, last[0][None]])
        return ratios, whole, kept, filled[: max(count - 2, 0)], chosen

    return factor


@jax_rule.register(SolveLUFactorTridiagonal)
def _solve(op: SolveLUFactorTridiagonal, node: Apply, context: Context) -> JaxFunction:
    """The two sweeps of LAPACK's ``gttrs``."""
    dtype = node.outputs[0].type.dtype

    def solve(*operands: jax.Array) -> jax.Array:
        *diagonals, chosen, b = operands
        lower, diagonal, upper, second, b = (as_dtype(v, dtype) for v in (*diagonals, b))
        count = diagonal.shape[0]
        _check_lengths(count, lower, upper)
        if b.shape[0] != count:
            raise ValueError("the right-hand side of a tridiagonal system has another length")
        stays = chosen[:-1] == jnp.arange(1, count, dtype=chosen.dtype)
        if op.transposed:
            return _backward(lower, stays, _forward(diagonal, upper, second, b))
        flipped = (v[::-1] for v in (diagonal, upper, second, _eliminated(lower, stays, b)))
        return _forward(*flipped)[::-1]

    return solve


def _eliminated(lower: jax.Array, stays: jax.Array, b: jax.Array) -> jax.Array:
    """The product of the inverse of the lower factor with b, rows exchanged as it was made."""

    def step(here: jax.Array, following: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        below, factor, stay = following
        kept, other = jnp.where(stay, here, below), jnp.where(stay, below, here)
        return other - factor * kept, kept

    last, kept = jax.lax.scan(step, b[0], (b[1:], lower, stays))
    return jnp.concatenate([kept, last[None]])


def _forward(diagonal: jax.Array, side: jax.Array, second: jax.Array, b: jax.Array) -> jax.Array:
    """The solution of a triangular system with two side diagonals, from its first row on."""
    count = diagonal.shape[0]
    zero = jnp.zeros((), diagonal.dtype)
    side = jnp.concatenate([zero[None], side])
    second = jnp.concatenate([zero[None], zero[None], second])[:count]

    def step(
        before: tuple[jax.Array, ...], row: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        nearer, farther = before
        pivot, near, far, value = row
        found = (value - near * nearer - far * farther) / pivot
        return (found, nearer), found

    start = jnp.zeros_like(b[0]), jnp.zeros_like(b[0])
    return jax.lax.scan(step, start, (diagonal, side, second, b))[1]


def _backward(lower: jax.Array, stays: jax.Array, b: jax.Array) -> jax.Array:
    """The transposed lower factor, with the exchanges in the opposite order."""

    def step(below: jax.Array, row: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        here, factor, stay = row
        reduced = here - factor * below
        return jnp.where(stay, reduced, below), jnp.where(stay, below, reduced)

    first, found = jax.lax.scan(step, b[-1], (b[:-1], lower, stays), reverse=True)
    return jnp.concatenate([first[None], found])


def _check_lengths(count: int, lower: jax.Array, upper: jax.Array) -> None:
    if count < 3 or lower.shape[0] != count - 1 or upper.shape[0] != count - 1:
        raise ValueError("the diagonals do not make a matrix that LAPACK takes")


@not_right.register(Lstsq)
def _not_right_lstsq(op: Lstsq, node: Apply) -> str | None:
    matrices = node.inputs[0].type.ndim == 2 and node.inputs[1].type.ndim == 2
    if any(np.dtype(each.type.dtype).kind == "c" for each in node.inputs):
        return "it is written for real numbers"
    return None if matrices else "its solution has another number of dimensions than it declares"


@jax_rule.register(Lstsq)
def _least_squares(op: Lstsq, node: Apply, context: Context) -> JaxFunction:
    """By singular values, as LAPACK's ``gelsd``.

    NumPy gives no residuals where the rank is not full.  As that length depends on data, such a
    call is finished on the host.
    """

    def least_squares(a: jax.Array, b: jax.Array, cutoff: jax.Array) -> tuple[jax.Array, ...]:
        a, b = as_dtype(a, "float64"), as_dtype(b, "float64")
        rows, columns = a.shape
        if b.shape[0] != rows:
            raise ValueError("the matrices of a least-squares problem have different lengths")
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        # LAPACK takes a cutoff that is no share of the largest value for the rounding of one.
        precision = float(np.finfo(values.dtype).eps) / 2
        cutoff = jnp.where((cutoff <= 0) | (cutoff >= 1), precision, cutoff)
        counts = ~(values <= cutoff * values[:1])
        inverse = jnp.where(counts, 1 / jnp.where(counts, values, 1), 0)
        solution = right.T @ (inverse[:, None] * (left.T @ b))
        rank = counts.sum().astype("int32")
        require(jnp.isfinite(values))
        if rows > columns:
            require(rank == columns)
            residuals = ((b - a @ solution) ** 2).sum(axis=0)
            residuals = nan_unless(rank == columns, residuals)
        else:
            residuals = jnp.zeros((0,), a.dtype)
        return solution, residuals, rank, values

    return least_squares
