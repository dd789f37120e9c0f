"""Operations that models seldom use: one production for each, on arrays of any length and type."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float

family = Family("rare")

SIDES = ("left", "right")

family.of(
    "vector", "vector",
    swapped_halves=lambda v: pt.roll(v, v.shape[0] // 2),
    second_differences=lambda v: pt.diff(v, n=2),
    log_softmax=lambda v: pt.special.log_softmax(pt.concatenate([as_float(v), pt.zeros(1)])),
    counts=lambda v: pt.bincount(pt.cast(pt.clip(as_float(v), 0, 9), "int64")),
    counts_of_many=lambda v: pt.bincount(pt.cast(pt.clip(as_float(v), 0, 9), "int8"), minlength=5),
    where_true=lambda v: pt.flatnonzero(v > 0), of_matrix=lambda v: pt.diag(pt.diag(v[:6])),
    powers=lambda v: pt.power(as_float(v)[:, None], pt.arange(3)).sum(axis=1),
)  # fmt: skip
family.of(
    "matrix", "matrix",
    differences_of_columns=lambda m: pt.diff(m, axis=1), joined=lambda m: pt.concatenate([m, m], 1),
    stretched=lambda m: pt.tile(m, (2, 1)), turned=lambda m: m[:, ::-1].T,
    upper=lambda m: pt.triu(m, 1), lower_part=lambda m: pt.tril(m, -1),
    repeated_rows=lambda m: pt.repeat(m, 2, axis=0),
    log_of_softmax=lambda m: pt.special.log_softmax(as_float(m), axis=1),
    softmax_of_columns=lambda m: pt.special.softmax(as_float(m), axis=0),
    swapped=lambda m: pt.moveaxis(m[:, :, None], 2, 0)[0],
    ranks=lambda m: pt.argsort(m, axis=0, kind="stable"),
    with_diagonal=lambda m: pt.fill_diagonal(m, 1), folded=lambda m: pt.dot(m.T, m) / 2,
    added_rows=lambda m: pt.vertical_stack(m, m),
    blocks=lambda m: pt.linalg.block_diag(m[:3], m[:2]),
    with_itself=lambda m: pt.linalg.kron(m[:2, :9], m[:3, :9]),
    einstein=lambda m: pt.einsum("ij,kj->ik", m, m),
    contracted=lambda m: pt.tensordot(m, m, axes=[[0], [0]]),
)  # fmt: skip
family.of(
    "scalar", "matrix",
    trace=lambda m: as_float(m.trace()), spread=lambda m: as_float(m).std(),
    norm=lambda m: (as_float(m) ** 2).sum() ** 0.5,
)  # fmt: skip
family.pairs(
    convolved=lambda v, w: pt.signal.convolve1d(v, w, mode="same"),
    of_two_logs=lambda v, w: pt.logaddexp(as_float(v), as_float(w)),
    chosen=lambda v, w: pt.choose(pt.cast(v > 0, "int64"), pt.stack([v, w])),
    along=lambda v, w: pt.stack([v, w], axis=1)[pt.arange(v.shape[0]), pt.cast(w > 0, "int64")],
    swapped_order=lambda v, w: pt.inc_subtensor(v[::-1], w),
)  # fmt: skip


@family.gives("vector")
def places(p: Pool) -> Any:
    """Where entries belong in sorted ones."""
    return pt.searchsorted(
        pt.sort(as_float(p.pick("vector"))), as_float(p.pick("vector")), side=p.one_of(SIDES)
    )


@family.gives("vector")
def full_convolution(p: Pool) -> Any:
    return pt.signal.convolve1d(
        p.pick("vector"), p.pick("vector")[:4], mode=p.one_of(["full", "valid", "same"])
    )


@family.gives("matrix")
def convolved_rows(p: Pool) -> Any:
    """A batch of signals with one kernel or one for each, or its gradient."""
    rows = pt.arange(1, 4)[:, None] * as_float(p.pick("vector"))
    kernel = p.one_of([as_float(p.pick("vector"))[:4], rows[:, :3]])
    found = pt.signal.convolve1d(rows, kernel, mode=p.one_of(["full", "valid", "same"]))
    return p.one_of([found, pt.grad((found**2).sum(), rows)])


@family.gives("vector")
def repeated(p: Pool) -> Any:
    """Each entry as many times as another vector says."""
    first, second = p.pair()
    return pt.repeat(first, pt.cast(pt.clip(as_float(second), 0, 3), "int64"))


@family.gives("vector")
def taken(p: Pool) -> Any:
    mode = p.one_of(["raise", "wrap", "clip"])
    return pt.take(p.pick("vector"), p.pick("index"), mode=mode)


@family.gives("matrix")
def taken_rows(p: Pool) -> Any:
    axis = p.choose(2)
    return pt.take(p.pick("matrix"), p.pick("index"), axis=axis)


@family.gives("vector")
def unraveled(p: Pool) -> Any:
    """Places of a matrix as rows and columns, and back."""
    matrix, order = p.pick("matrix"), p.one_of(["C", "F"])
    rows, columns = pt.unravel_index(p.pick("index"), matrix.shape, order=order)
    return p.one_of(
        [rows, columns, pt.ravel_multi_index((rows, columns), matrix.shape, order=order)]
    )


@family.gives("matrix")
def rolled(p: Pool) -> Any:
    return pt.roll(p.pick("matrix"), p.pick("size"), axis=p.choose(2))


@family.gives("matrix")
def triangle(p: Pool) -> Any:
    return pt.tri(
        p.length(),
        p.length(),
        p.one_of([0, 1, -1, p.length(3)]),
        dtype=p.one_of(["int8", "float64"]),
    )


@family.gives("matrix")
def padded(p: Pool) -> Any:
    mode = p.one_of(["edge", "wrap", "reflect", "symmetric", "constant"])
    return pt.pad(p.pick("matrix"), ((1, p.choose(2)), (0, 2)), mode=mode)


@family.gives("vector")
def reduced(p: Pool) -> Any:
    """A reduction of a matrix, by any Op, axis and type."""
    matrix, axis = p.pick("matrix"), p.one_of([0, 1, -1])
    reduce = p.one_of(
        [pt.sum, pt.prod, pt.max, pt.min, pt.argmin, pt.mean, pt.all, pt.any, pt.median]
    )
    return reduce(matrix, axis=axis)


@family.gives("matrix")
def kept(p: Pool) -> Any:
    reduce = p.one_of([pt.sum, pt.prod, pt.max, pt.min, pt.mean, pt.std])
    matrix = p.pick("matrix")
    return matrix - reduce(matrix, axis=p.choose(2), keepdims=True)
