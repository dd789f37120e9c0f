"""New arrays, joins, orders, shapes and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from tests.differential.grammar.elementwise import DTYPES
from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float
from tests.helpers import black_box, sort_down

family = Family("arrays")

host_sort = black_box(sort_down)

family.entries(
    reverse=lambda v: v[::-1], sort=lambda v: pt.sort(v),
    order=lambda v: pt.argsort(v, kind="stable"),
    running_sum=lambda v: pt.cumsum(v), running_product=lambda v: pt.cumprod(v),
    share=lambda v: v / v.shape[0], roll=lambda v: pt.roll(v, 1), center=lambda v: v - v.mean(),
    on_host=lambda v: host_sort(pt.cast(as_float(v), "float64")),
    # What is written is read from the same array.
    shifted_in=lambda v: pt.set_subtensor(v[1:], v[:-1]),
    shifted_sums=lambda v: pt.inc_subtensor(v[1:], v[:-1]),
    turned_around_in=lambda v: pt.set_subtensor(v[:3], v[:3][::-1]),
    shifted_in_a_column=lambda v: pt.set_subtensor(
        v.reshape((-1, 1))[1:], v.reshape((-1, 1))[:-1] * 2
    ).reshape(v.shape),
)  # fmt: skip
family.of(
    "vector", "vector",
    distinct=pt.unique, differences=pt.diff, twice=lambda v: pt.tile(v, (2,)),
    from_largest=lambda v: v[v.argmax() :], doubled=lambda v: pt.concatenate([v, v[:1]]),
    # Never of nothing: in PyTensor 3.0 the default mode, not the linker, decides if that raises.
    softmax=lambda v: pt.special.softmax(pt.concatenate([as_float(v), pt.zeros(1)])),
    padded=lambda v: pt.pad(v, (1, 2)),
)  # fmt: skip


@family.gives("vector")
def join(p: Pool) -> Any:
    """Parts of any dtype."""
    return pt.concatenate([p.pick("vector") for _ in range(2 + p.choose(2))])


@family.gives("vector")
def join_with_stretch(p: Pool) -> Any:
    """A stretch of one value, which may be empty and of a narrower dtype, before or after."""
    stretch = pt.full((p.length(),), p.pick("scalar"), dtype=p.one_of(DTYPES[1:12]))
    parts = [stretch, p.pick("vector")]
    return pt.concatenate(parts if p.choose(2) else parts[::-1])


@family.gives("vector")
def join_with_empty(p: Pool) -> Any:
    vector = p.pick("vector")
    return p.with_tag_of(
        pt.concatenate([vector, pt.zeros(0, dtype=p.one_of(DTYPES[:12])), vector[:0]]), vector
    )


@family.gives("vector")
def stretch(p: Pool) -> Any:
    return pt.zeros(p.length()) + p.pick("scalar")


@family.gives("vector")
def typed_stretch(p: Pool) -> Any:
    return pt.full((p.length(),), p.pick("size"), dtype=p.one_of(DTYPES[1:12]))


@family.gives("vector")
def alloc(p: Pool) -> Any:
    return pt.alloc(p.pick("scalar"), pt.abs(p.length()))


@family.gives("index")
def count_up(p: Pool) -> Any:
    size = p.length(9)
    return pt.arange(size, dtype=p.one_of([None, "int8", "uint8", "int32", "int64"]))


@family.gives("vector")
def count_between(p: Pool) -> Any:
    start, stop = p.length(9), p.length(9)
    return pt.arange(start, stop, p.one_of([1, 2, -1]))


@family.gives("vector")
def count_reals(p: Pool) -> Any:
    start = pt.clip(pt.tanh(p.pick("scalar")), -1, 1)
    return pt.arange(start, start + 1.5, 0.5)


@family.gives("vector")
def line(p: Pool) -> Any:
    return pt.linspace(0, p.pick("scalar"), pt.abs(p.length()) + 1)


@family.gives("vector")
def repeat(p: Pool) -> Any:
    return pt.repeat(p.pick("vector"), p.length(4))


@family.gives("vector")
def split(p: Pool) -> Any:
    vector, size = p.pick("vector"), p.length(4)
    rest = vector.shape[0] - size
    sizes = pt.stack([pt.cast(size, "int64"), pt.cast(rest, "int64")])
    return pt.split(vector, sizes, n_splits=2)[p.choose(2)]


@family.gives("matrix")
def to_rows(p: Pool) -> Any:
    return p.pick("vector").reshape((-1, p.one_of([1, 2, p.length(4)])))


def _lengths(p: Pool, array: Any) -> Any:
    """A length that may fit: of the array, of another one, open, or any."""
    other = p.pick("vector")
    return p.one_of(
        [
            *(array.shape[axis] for axis in range(array.type.ndim)), array.size, other.shape[0],
            (other > 0).sum(), -1, p.length(4), -pt.cast(p.length(3), "int64"), 1, 2,
        ]
    )  # fmt: skip


@family.gives("vector")
def to_length(p: Pool) -> Any:
    array = p.pick(p.one_of(["vector", "matrix"]))
    return array.reshape((_lengths(p, array),))


@family.gives("matrix")
def to_lengths(p: Pool) -> Any:
    array = p.pick(p.one_of(["vector", "matrix"]))
    one, other = _lengths(p, array), _lengths(p, array)
    return array.reshape(p.one_of([(one, -1), (-1, one), (one, other)]))


@family.gives("matrix")
def through_three(p: Pool) -> Any:
    array = p.pick(p.one_of(["vector", "matrix"]))
    lengths = [_lengths(p, array), p.one_of([-1, _lengths(p, array)])]
    lengths.insert(p.choose(3), p.one_of([1, _lengths(p, array)]))
    return array.reshape(tuple(lengths)).sum(axis=p.choose(3))


@family.gives("matrix")
def like_another(p: Pool) -> Any:
    return p.pick(p.one_of(["vector", "matrix"])).reshape(p.pick("matrix").shape)


@family.gives("matrix")
def stacked(p: Pool) -> Any:
    return pt.stack(list(p.pair()), axis=p.choose(2))


@family.gives("matrix")
def outer(p: Pool) -> Any:
    return pt.outer(p.pick("vector")[:5], p.pick("vector")[:6])


@family.gives("matrix")
def unit(p: Pool) -> Any:
    return pt.eye(p.length(), dtype=p.one_of(DTYPES[1:12])) * p.pick("scalar")


@family.gives("matrix")
def specified(p: Pool) -> Any:
    return pt.specify_shape(p.pick("matrix"), (None, p.pick("size")))


@family.gives("matrix")
def scaled_rows(p: Pool) -> Any:
    matrix = p.pick("matrix")
    return matrix * matrix.sum(axis=1, keepdims=True)


family.of(
    "matrix", "matrix",
    transpose=lambda m: m.T, sorted_columns=lambda m: pt.sort(m, axis=0), lower=pt.tril,
    rolled=lambda m: pt.roll(m, 1, axis=0), padded_columns=lambda m: pt.pad(m, ((0, 0), (0, 1))),
    product=lambda m: pt.dot(m, m.T), running_columns=lambda m: pt.cumsum(m, axis=1),
    matrix_times=lambda m: m * 2 + 1, flipped=lambda m: m[::-1, ::-1],
)  # fmt: skip
family.of("matrix", "vector", as_row=lambda v: pt.expand_dims(v, 0),
          on_diagonal=lambda v: pt.diag(v[:6]),
          as_columns=lambda v: v.reshape((-1, 1)) * np.ones((1, 2)))  # fmt: skip
family.of(
    "vector", "matrix",
    flat=lambda m: m.ravel(), diagonal=pt.extract_diag, column_sums=lambda m: m.sum(axis=0),
    row_means=lambda m: m.mean(axis=1), row_maxima=lambda m: m.max(axis=1),
    column_minima=lambda m: m.min(axis=0), row_variances=lambda m: pt.var(m, axis=1),
    largest_columns=lambda m: pt.argmax(m, axis=1), any_in_column=lambda m: pt.any(m > 0, axis=0),
    all_in_row=lambda m: pt.all(m > 0, axis=1), row_products=lambda m: m.prod(axis=1),
    log_sums=lambda m: pt.logsumexp(as_float(m), axis=0), gram=lambda m: pt.dot(m, m.T).sum(axis=0),
    typed_sums=lambda m: m.sum(axis=0, dtype="float32"),
)  # fmt: skip
family.of(
    "scalar", "vector",
    total=lambda v: as_float(v.sum()), product_of_all=lambda v: as_float(v.prod()),
    mean=lambda v: as_float(v.mean()), largest=lambda v: as_float(v.max()),
    smallest=lambda v: as_float(v.min()), deviation=lambda v: as_float(pt.std(v)),
    any_positive=lambda v: pt.any(v > 0) * 1.0, total_of_inverses=lambda v: (1 / as_float(v)).sum(),
    log_total=lambda v: pt.logsumexp(as_float(v)),
)  # fmt: skip


@family.gives("scalar")
def dot(p: Pool) -> Any:
    first, second = p.pair()
    return as_float(pt.dot(first, second))


@family.gives("vector")
def matrix_times_vector(p: Pool) -> Any:
    matrix = p.pick("matrix")
    return pt.dot(matrix, matrix.sum(axis=0))


@family.gives("matrix")
def join_rows(p: Pool) -> Any:
    """Matrices, one of them of another type and mostly without rows or columns."""
    matrix, axis = p.pick("matrix"), p.choose(2)
    length = p.one_of([0, 0, 1, pt.abs(p.length(3))])
    other = matrix.shape[1 - axis]
    shape = (length, other) if axis == 0 else (other, length)
    parts = [matrix, pt.ones(shape, dtype=p.one_of(DTYPES[:12]))]
    return pt.concatenate(parts if p.choose(2) else parts[::-1], axis=axis)


@family.gives("vector")
def gradient_of_join(p: Pool) -> Any:
    """By one of several parts, of which others have other types or no entries."""
    vector = p.real()
    parts = [vector, p.pick("vector"), vector[: p.pick("size")] * 2, pt.zeros(0, dtype="int8")]
    cost = p.one_of([pt.tanh, pt.sqr, pt.cumsum])(as_float(pt.concatenate(parts))).sum()
    return p.with_tag_of(pt.grad(cost, vector), vector)


@family.gives("vector")
def counts_of_distinct(p: Pool) -> Any:
    """Several outputs of one operation."""
    _, places, counts = pt.unique(p.pick("vector"), return_inverse=True, return_counts=True)
    return pt.concatenate([places, counts])
