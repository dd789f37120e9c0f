"""How a selection passes through linear algebra: what is not selected is a unit matrix.

``cholesky(K[:k, :k])`` is a part of the factor of ``K`` with zeros outside of the first rows and
columns, and ones on the diagonal there.  So are inverses, solutions and determinants, for the rows
and columns of any mask: nothing couples the two parts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import AllocDiag, ExtractDiag
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.lu import LUFactor, PivotToPermutations
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular, solve_triangular
from pytensor.tensor.linalg.summary import Det, SLogDet
from pytensor.tensor.math import Dot

from pytensor_jaxlink.ops import Assumption, are_pivots, is_a_factor
from pytensor_jaxlink.rewriting.selections import (
    Known,
    Results,
    Selection,
    Tensor,
    agreed,
    at_front,
    follow,
)

_PRODUCTS = (BatchedDot, Dot)

_OF_MATRICES = (
    *_PRODUCTS,
    Cholesky,
    CholeskySolve,
    Det,
    LUFactor,
    MatrixInverse,
    SLogDet,
    Solve,
    SolveTriangular,
)
"""The Ops for which rows and columns of a unit matrix change nothing in the others."""


@follow.register(Cholesky)
@follow.register(CholeskySolve)
@follow.register(Det)
@follow.register(Dot)
@follow.register(LUFactor)
@follow.register(MatrixInverse)
@follow.register(SLogDet)
@follow.register(Solve)
@follow.register(SolveTriangular)
def _follow_matrices(op: object, node: Apply, known: Known) -> Results:
    return _follow(node, op.gufunc_signature, known)


@follow.register(BatchedDot)
def _follow_products(op: object, node: Apply, known: Known) -> Results:
    return _follow(node, "(m,n),(n,p)->(m,p)", known)


@follow.register(Blockwise)
def _follow_batches(op: Blockwise, node: Apply, known: Known) -> Results:
    """A batch of matrices, of which matrices or batches are selections."""
    if not op.batch_ndim(node):
        return follow(op.core_op, op.core_op.make_node(*node.inputs), known)
    return _follow(node, op.signature, known)


def _follow(node: Apply, signature: str, known: Known) -> Results:
    """Give equal letters of a signature equal masks, and the rest of the batch those of a batch."""
    taken, made = map(_letters, signature.split("->"))
    ranks = [v.type.ndim - len(each) for v, each in zip(node.inputs, taken, strict=True)]
    parts = [known.plain(v) for v in node.inputs]
    if len({*ranks}) > 1:
        return None
    [batch], core = {*ranks}, getattr(node.op, "core_op", node.op)
    by_neighbours = isinstance(core, Solve) and core.assume_a in ("tridiagonal", "banded")
    if by_neighbours or isinstance(core, CholeskySolve | LUFactor | SolveTriangular):
        # Row by row, an infinity in a selected row makes NaN in later ones that are not selected.
        # Pivots are places, and neighbours on a diagonal those of the selection, only at the front.
        moved = [at_front(part, part.axes, known) for part in parts]
        parts = [part for part in moved if part is not None]
        if len(parts) < len(moved):
            return None
    masks = _with_letters(core, parts, taken, known)
    if masks is None:
        return None
    new = {letter for letters in made for letter in letters} - {*masks}
    if new and any(mask is not None for mask in masks.values()):
        return None  # a dimension that has the lengths of others in it
    masks |= dict.fromkeys(new)
    parts = _with_batches(node, parts, batch, known)
    if parts is None:
        return None
    kept = {letter for letters in made for letter in letters} if _is_product(node.op) else set()
    fulls = [_filled(part, each, kept) for part, each in zip(parts, taken, strict=True)]
    if isinstance(core, Det | LUFactor | SLogDet | Solve) and any(
        mask is not None for mask in masks.values()
    ):
        fulls[-1] = _if_finite(fulls[-1], parts)
    if isinstance(core, CholeskySolve) and parts[0].masks[-1] is not None:
        outputs = _solutions(node, core, fulls, parts[1].masks)
    else:
        outputs = node.op.make_node(*fulls).outputs
    if outputs is None:
        return None
    rest = parts[0].masks[:batch]
    return [
        Selection(output, (*rest, *(masks[letter] for letter in letters)))
        for output, letters in zip(outputs, made, strict=True)
    ]


def _with_letters(
    core: object, parts: list[Selection], taken: Sequence[Sequence[str]], known: Known
) -> dict[str, Tensor] | None:
    """Give dimensions of one letter one mask, in place.  Returns the mask of each letter."""
    masks: dict[str, Tensor] = {}
    for k, letters in enumerate(taken):
        for axis, letter in enumerate(letters, start=len(parts[k].masks) - len(letters)):
            mask = masks.setdefault(letter, parts[k].masks[axis])
            if mask is None and parts[k].masks[axis] is None:
                continue
            if not isinstance(core, _OF_MATRICES) or None in (mask, parts[k].masks[axis]):
                return None
            moved = known.aligned(parts[k], axis, mask)
            if moved is None:
                return None
            parts[k] = moved
    return masks


def _solutions(
    node: Apply, core: Any, fulls: Sequence[Tensor], masks: Sequence[Tensor]
) -> list[Tensor] | None:
    """The solution by a Cholesky factor in two steps.

    The first one begins with what is selected, and what an infinity leaves in the rest must not
    reach the second one, which ends with it.  Only of factors: LAPACK divides by the zeros on the
    diagonal of other triangular matrices, and gives NaN in a single step.
    """
    if not is_a_factor(node.inputs[0]):
        return None
    factor, given = fulls
    turned = factor.mT.conj() if factor.type.dtype.startswith("complex") else factor.mT
    lower, upper = (factor, turned) if core.lower else (turned, factor)
    half: Any = solve_triangular(lower, given, lower=True, b_ndim=core.b_ndim)
    half = Selection(half, tuple(masks)).masked(0)
    return [solve_triangular(upper, half, lower=False, b_ndim=core.b_ndim)]


def _if_finite(given: Tensor, parts: Sequence[Selection]) -> Tensor:
    """The right-hand side, or the matrix to factorise, if all numbers are finite.

    A general solution goes through the rows twice, and so what an infinity makes of rows that are
    not selected (zero times infinity) would come back to those that are.  And among NaN LAPACK may
    choose a row that is not selected as the pivot, and the sign of a determinant with it.
    """
    held = Assumption(ValueError, "a number of a system of equations is not finite")
    return held(given, *(pt.all(pt.lt(pt.abs(part.masked(0)), np.inf)) for part in parts))


def _letters(signature: str) -> list[list[str]]:
    return [re.findall(r"\w+", each) for each in re.findall(r"\(([^)]*)\)", signature)]


def _with_batches(
    node: Apply, parts: Sequence[Selection], batch: int, known: Known
) -> list[Selection] | None:
    """The parts with equal masks of their batches."""
    batches = [Selection(part.full, part.masks[:batch]) for part in parts]
    found = agreed(batches, [v.type.broadcastable[:batch] for v in node.inputs], known)
    if found is None:
        return None
    return [
        Selection(one.full, (*one.masks, *part.masks[batch:]))
        for one, part in zip(found, parts, strict=True)
    ]


def _is_product(op: object) -> bool:
    return isinstance(getattr(op, "core_op", op), _PRODUCTS)


def _filled(part: Selection, letters: Sequence[str], kept: Collection[str]) -> Tensor:
    """The full array, with a unit matrix or zeros where nothing is selected.

    Along dimensions that the result has too (``kept``) it may be anything.
    """
    batch = len(part.masks) - len(letters)
    core = [axis for axis in part.axes if axis >= batch and letters[axis - batch] not in kept]
    full = part.masked(0, core)
    if not core or len(letters) != 2 or letters[0] != letters[1]:
        return full
    row, column = (
        pt.arange(full.shape[axis]).dimshuffle(order)
        for axis, order in ((batch, (0, "x")), (batch + 1, ("x", 0)))
    )
    unit = pt.eq(row, column) & ~part.masks[batch][:, None]
    return pt.switch(unit, pt.ones((), full.type.dtype), full)


@follow.register(PivotToPermutations)
def _follow_pivots(op: PivotToPermutations, node: Apply, known: Known) -> Results:
    """Places that are not selected stay where they are; others than pivots may be out of range."""
    chosen = at_front(known.plain(node.inputs[0]), [0], known)
    if chosen is None or not are_pivots(node.inputs[0]):
        return None
    [mask] = chosen.masks
    stays = pt.arange(mask.shape[0]).astype(chosen.full.type.dtype)
    return [Selection(op(pt.switch(mask, chosen.full, stays)), (mask,))]


@follow.register(ExtractDiag)
def _follow_diagonal(op: ExtractDiag, node: Apply, known: Known) -> Results:
    """The diagonal of a square selection, or of each of a batch."""
    chosen = known.plain(node.inputs[0])
    axes = op.axis1, op.axis2
    one, other = (chosen.masks[axis] for axis in axes)
    if op.offset and (one is not None or other is not None):
        return None
    if one is not other:
        moved = None if None in (one, other) else at_front(chosen, axes, known)
        if moved is None:
            return None
        chosen, one = moved, known.least(*(moved.masks[axis] for axis in axes))
    rest = [mask for axis, mask in enumerate(chosen.masks) if axis not in axes]
    return [Selection(op(chosen.full), (*rest, one))]


@follow.register(AllocDiag)
def _follow_diagonals(op: AllocDiag, node: Apply, known: Known) -> Results:
    """A diagonal matrix of a selection, or each of a batch."""
    chosen = known.selections[node.inputs[0]]
    *masks, mask = chosen.masks
    if not chosen.is_plain or (op.offset and mask is not None):
        return None
    for axis in sorted((op.axis1, op.axis2)):
        masks.insert(axis, mask)
    diagonal: Any = pt.basic.alloc_diag(
        chosen.full, offset=op.offset, axis1=op.axis1, axis2=op.axis2
    )
    return [Selection(diagonal, tuple(masks))]
