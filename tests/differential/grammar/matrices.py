"""Linear algebra of small matrices that are far from singular."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float

family = Family("matrices")


def _definite(p: Pool) -> Any:
    matrix = pt.tanh(as_float(p.pick("matrix")))
    return pt.dot(matrix, matrix.T) + 3 * pt.eye(matrix.shape[0])


@family.gives("matrix")
def cholesky(p: Pool) -> Any:
    return pt.linalg.cholesky(_definite(p))


@family.gives("matrix")
def inverse(p: Pool) -> Any:
    return pt.linalg.inv(_definite(p))


@family.gives("scalar")
def determinant(p: Pool) -> Any:
    return pt.linalg.det(_definite(p))


@family.gives("vector")
def solve(p: Pool) -> Any:
    matrix = _definite(p)
    return pt.linalg.solve(matrix, matrix[0] * 2)


@family.gives("matrix")
def gradient(p: Pool) -> Any:
    matrix = as_float(p.pick("matrix"))
    gram = pt.dot(pt.tanh(matrix), pt.tanh(matrix).T) + 3 * pt.eye(matrix.shape[0])
    cost = p.one_of(
        [pt.linalg.det, lambda a: pt.linalg.inv(a).sum(), lambda a: pt.linalg.cholesky(a).sum()]
    )
    return pt.grad(cost(gram), matrix)


@family.gives("vector")
def eigenvalues(p: Pool) -> Any:
    return pt.linalg.eigvalsh(_definite(p), None)


@family.gives("scalar")
def log_determinant(p: Pool) -> Any:
    """One of two outputs, or both."""
    sign, value = pt.linalg.slogdet(_definite(p))
    return sign * value if p.choose(2) else value


@family.gives("matrix")
def triangular(p: Pool) -> Any:
    matrix = pt.linalg.cholesky(_definite(p))
    return pt.linalg.solve_triangular(matrix, matrix.T, lower=True)
