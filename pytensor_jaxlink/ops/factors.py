"""Matrices that are known to be Cholesky factors."""

from __future__ import annotations

from pytensor.graph.basic import Variable
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky


def is_a_factor(matrix: Variable) -> bool:
    """Return True for a Cholesky factor, whose diagonal has no zero, or the transpose of one."""
    while matrix.owner is not None and isinstance(matrix.owner.op, DimShuffle):
        [matrix] = matrix.owner.inputs
    op = getattr(matrix.owner, "op", None)
    return isinstance(op.core_op if isinstance(op, Blockwise) else op, Cholesky)
