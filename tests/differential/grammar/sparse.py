"""Sparse matrices."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor import sparse

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float

family = Family("sparse")


def _dense(value: Any) -> Any:
    return sparse.dense_from_sparse(value)


family.of(
    "sparse", "sparse",
    transposed=lambda s: s.T, negative=lambda s: -s, doubled=lambda s: s + s,
    scaled=lambda s: s * 2,
    squared=sparse.sqr, absolute=lambda s: abs(s), there_and_back=lambda s: s.T.T,
)  # fmt: skip
family.of("matrix", "sparse", dense=_dense)
family.of(
    "vector", "sparse",
    sums_of_rows=lambda s: sparse.sp_sum(s, axis=1),
    sums_of_columns=lambda s: sparse.sp_sum(s, axis=0),
    stored=sparse.csm_data, places=sparse.csm_indices,
)  # fmt: skip
family.of("scalar", "sparse", total=lambda s: as_float(sparse.sp_sum(s)))
family.of("size", "sparse", rows=lambda s: s.shape[0])


@family.gives("sparse")
def from_dense(p: Pool) -> Any:
    convert = p.one_of([sparse.csr_from_dense, sparse.csc_from_dense])
    return convert(as_float(p.pick("matrix")))


@family.gives("matrix")
def dot(p: Pool) -> Any:
    matrix = p.pick("sparse")
    return sparse.dot(matrix, _dense(matrix).T)


@family.gives("matrix")
def dot_dense(p: Pool) -> Any:
    return sparse.dot(p.pick("sparse"), as_float(p.pick("matrix")).T)


@family.gives("matrix")
def structured_dot(p: Pool) -> Any:
    matrix = p.pick("sparse")
    return sparse.structured_dot(matrix, _dense(matrix).T * 2)


@family.gives("sparse")
def times_vector(p: Pool) -> Any:
    matrix = p.pick("sparse")
    scale = sparse.sp_sum(matrix, axis=0)
    return sparse.col_scale(matrix, scale) if p.choose(2) else matrix * scale


@family.gives("sparse")
def rows(p: Pool) -> Any:
    return p.pick("sparse")[: p.pick("size"), :]


@family.gives("scalar")
def entry(p: Pool) -> Any:
    return as_float(p.pick("sparse")[p.one_of([0, 1]), 0])


@family.gives("sparse")
def sum_of_two(p: Pool) -> Any:
    return p.pick("sparse") + p.pick("sparse")


@family.gives("sparse")
def product_of_two(p: Pool) -> Any:
    matrix = p.pick("sparse")
    return sparse.true_dot(matrix, matrix.T)


@family.gives("sparse")
def stacked(p: Pool) -> Any:
    matrix = p.pick("sparse")
    return sparse.vstack([matrix, matrix * 2], format=matrix.type.format, dtype=matrix.type.dtype)


@family.gives("vector")
def gradient(p: Pool) -> Any:
    vector = p.some()
    matrix = sparse.csr_from_dense(pt.outer(vector[:4], vector))
    cost = sparse.structured_dot(matrix, as_float(vector).dimshuffle(0, "x")).sum()
    return p.with_tag_of(pt.grad(cost, vector), vector)


@family.gives("vector")
def gradient_of_entries(p: Pool) -> Any:
    data, *pattern = sparse.csm_properties(matrix := p.pick("sparse"))
    other = sparse.CSM(matrix.type.format)(data, *pattern)
    return pt.grad((_dense(other) ** 2).sum(), data)
