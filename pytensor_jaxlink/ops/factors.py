"""Values that are known to come from a factorisation."""

from __future__ import annotations

from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.lu import LUFactor


def is_a_factor(matrix: Variable) -> bool:
    """Return True for a Cholesky factor, whose diagonal has no zero, or the transpose of one."""
    while matrix.owner is not None and isinstance(matrix.owner.op, DimShuffle):
        [matrix] = matrix.owner.inputs
    return isinstance(_core(matrix), Cholesky)


def are_pivots(places: Variable) -> bool:
    """Return True for the exchanges of rows of an LU factorisation, each with a row that exists."""
    return isinstance(_core(places), LUFactor)


def _core(variable: Variable) -> Op | None:
    op = getattr(variable.owner, "op", None)
    return op.core_op if isinstance(op, Blockwise) else op
