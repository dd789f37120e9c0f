"""Arrays of three and four axes, of which every length changes from call to call."""

from __future__ import annotations

from typing import Any

import pytensor
import pytensor.tensor as pt

from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float

family = Family("cubes")

family.of(
    "cube", "cube",
    scaled=lambda c: c * 2, rectified=lambda c: pt.maximum(c, 0), turned=lambda c: c[..., ::-1],
    swapped=lambda c: pt.swapaxes(c, 0, -1), centered=lambda c: c - c.mean(axis=-1, keepdims=True),
    softmax=lambda c: pt.special.softmax(as_float(c), axis=1), cut=lambda c: c[:2, 1:, :3],
    running=lambda c: pt.cumsum(c, axis=1), sorted=lambda c: pt.sort(c, axis=0),
    joined=lambda c: pt.concatenate([c, c[:1]], axis=0), stacked=lambda c: pt.stack([c[0], c[-1]]),
    positive=lambda c: c[c[:, 0, 0] > 0] if c.type.ndim == 3 else c[c[:, 0, 0, 0] > 0],
    gram=lambda c: pt.matmul(as_float(c), pt.swapaxes(as_float(c), -1, -2)),
    of_log_sums=lambda c: pt.logsumexp(as_float(c), axis=0, keepdims=True) + c,
    set_to_zero=lambda c: pt.set_subtensor(c[:, :1], 0),
    derivative=lambda c: pt.grad((pt.sqr(as_float(c)).sum(axis=0) ** 2).sum(), c),
)  # fmt: skip
family.of(
    "matrix", "cube",
    of_sums=lambda c: c.sum(axis=tuple(range(2, c.type.ndim))),
    of_largest=lambda c: c.max(axis=tuple(range(c.type.ndim - 2))),
    first=lambda c: c[(0,) * (c.type.ndim - 2)],
    as_rows=lambda c: c.reshape((c.shape[0], -1)),
    of_places=lambda c: c.argmax(axis=0).sum(axis=tuple(range(c.type.ndim - 3))),
)  # fmt: skip
family.of(
    "vector", "cube",
    flat=lambda c: c.flatten(), selected=lambda c: c[c > 0],
    edge=lambda c: c[(slice(None), *[-1] * (c.type.ndim - 1))],
    diagonal=lambda c: pt.diagonal(c[0], axis1=-2, axis2=-1).flatten(),
    middle=lambda c: c.mean(axis=tuple(range(1, c.type.ndim))),
)  # fmt: skip
family.of(
    "scalar", "cube",
    corner=lambda c: as_float(c[(0,) * c.type.ndim]), total=lambda c: as_float(c).sum(),
    largest=lambda c: as_float(c.max()), spread=lambda c: as_float(c).std(),
)  # fmt: skip


@family.gives("cube")
def of_matrix(p: Pool) -> Any:
    """A product of a matrix with itself, without a sum."""
    matrix = p.pick("matrix")
    return matrix[:, None, :9] * matrix[None, :9, :9]


@family.gives("cube")
def of_vectors(p: Pool) -> Any:
    one, other = p.pair()
    return one[:9, None, None] + other[None, :9, None] * p.pick("vector")[None, None, :9]


@family.gives("cube")
def entry_by_entry(p: Pool) -> Any:
    """Two arrays, the longer one cut to the other."""
    one, other = p.pick("cube"), p.pick("cube")
    ndim = min(one.type.ndim, other.type.ndim)
    one, other = (each[(0,) * (each.type.ndim - ndim)] for each in (one, other))
    parts = [slice(pt.minimum(one.shape[k], other.shape[k])) for k in range(ndim)]
    return one[tuple(parts)] * other[tuple(parts)]


@family.gives("vector")
def by_places(p: Pool) -> Any:
    cube, places = p.pick("cube"), p.pick("index")
    return cube[(places, *[0] * (cube.type.ndim - 1))]


@family.gives("cube")
def part(p: Pool) -> Any:
    return p.pick("cube")[:, : p.length(4)]


@family.gives("matrix")
def over_steps(p: Pool) -> Any:
    """A loop over the first axis."""
    cube = as_float(p.pick("cube"))
    matrix = cube if cube.type.ndim == 3 else cube.sum(axis=-1)
    return pytensor.scan(
        lambda rows, state: state * 0.5 + rows.sum(axis=0),
        sequences=[matrix],
        outputs_info=[pt.zeros_like(matrix[0, 0])],
        return_updates=False,
    )
