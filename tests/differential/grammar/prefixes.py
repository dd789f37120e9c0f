"""Arrays whose length is data: cut by a size, a mask or the places of one, or as long as they come.

Each production takes arrays of one length, cuts all of them in one way, lets them pass through
operations, and ends in values whose length is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.scan.utils import until

from pytensor_jaxlink.compat import ifelse
from tests.differential.grammar.elementwise import DTYPES
from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float

family = Family("prefixes")

Cut = Callable[[Any], Any]


def _cuts(p: Pool) -> list[Cut]:
    """The ways to cut an array along its first dimension."""
    n, k, late = p.pick("size"), p.pick("size"), pt.cast(p.pick("scalar"), "int64")
    mask = p.pick("mask")
    few = pt.abs(late) % 4
    return [
        lambda v: v[:n], lambda v: v[n:], lambda v: v[n:k], lambda v: v[-n:], lambda v: v[:-n],
        lambda v: v[:n], lambda v: v[: n + 1], lambda v: v[:late], lambda v: v[few:],
        lambda v: v[: v.shape[0] - few], lambda v: v[mask], lambda v: v[pt.nonzero(mask)[0]],
        lambda v: v[:n][::-1], lambda v: v[: mask.sum()], lambda v: v[mask][:n],
        lambda v: v[:n][mask[:n]], lambda v: v, lambda v: v, lambda v: v[1:], lambda v: v[:-1],
    ]  # fmt: skip


def _double(value: Any) -> Any:
    return pt.cast(as_float(value), "float64")


def _scan(step: Callable[..., Any], **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def _zero() -> Any:
    return pt.zeros((), dtype="float64")


class _Arrays:
    """Arrays of one length that nobody knows, made from each other."""

    def __init__(self, p: Pool) -> None:
        self.p = p
        cut = p.one_of(_cuts(p))
        bases = [each.variable for each in p.values["vector"] if each.tag == "length"]
        if not p.sometimes(4):
            bases = [each for each in bases if each.owner is None] or bases
        self.base = p.one_of(bases)
        self.leaf = _double(self.base)
        self.made = [cut(self.leaf), cut(p.one_of(bases)), cut(p.one_of(bases))]
        square = p.pick("square")
        self.square = cut(cut(_double(square)).T).T if p.choose(2) else None

    def one(self) -> Any:
        """One of the arrays, likelier a late one."""
        return self.made[-1 - min(self.p.choose(len(self.made)), self.p.choose(len(self.made)))]

    def real(self) -> Any:
        """One of the arrays as numbers of float64."""
        return _double(self.one())

    def grow(self) -> None:
        """Make another array of this length."""
        self.made.append(self.p.one_of(STEPS)(self))

    def scalar(self) -> Any:
        """A number made of all entries."""
        return self.p.one_of(ENDS)(self)


def _kernel(a: _Arrays, v: Any) -> Any:
    tame = pt.tanh(v)
    near = pt.exp(-((tame[:, None] - tame[None, :]) ** 2))
    return near + a.p.one_of([0.5, 2.0]) * pt.eye(v.shape[0])


def _walk(a: _Arrays, v: Any, **options: Any) -> Any:
    return _scan(
        lambda e, s: s * 0.5 + pt.tanh(e), sequences=[v], outputs_info=[_zero()], **options
    )


def _two_sequences(a: _Arrays) -> Any:
    return _scan(
        lambda e, g, s: pt.sin(s) + e * g, sequences=[a.real(), a.real()], outputs_info=[_zero()]
    )


def _taps(a: _Arrays) -> Any:
    return _scan(
        lambda e, two, one: 0.5 * one - 0.25 * two + e,
        sequences=[a.real()],
        outputs_info=[{"initial": pt.zeros(2, dtype="float64"), "taps": [-2, -1]}],
    )


def _two_states(a: _Arrays) -> Any:
    first, second = _scan(
        lambda e, s, t: [s + e, t * 0.5 + s],
        sequences=[a.real()],
        outputs_info=[_zero(), pt.ones((), dtype="float64")],
    )
    return first - second


def _last_entries(a: _Arrays) -> Any:
    """Of a state, and of an output that no step reads.  Of others PyTensor errs (upstream.md)."""
    states, others = _scan(
        lambda e, s: [s + e, e * 2 - s], sequences=[a.real()], outputs_info=[_zero(), None]
    )
    read = a.p.one_of([lambda v: v[-1], lambda v: v[-2:].sum(), lambda v: v[-1:].sum()])
    return read(others) - a.p.one_of([states.sum(), read(states)])


def _whole_inside(a: _Arrays) -> Any:
    v = a.real()
    return _scan(lambda e: (e * v).sum() + v.max(), sequences=[a.real()])


def _nested(a: _Arrays) -> Any:
    v = a.real()
    return _scan(
        lambda e: _scan(lambda g, s: s * 0.5 + g * e, sequences=[v], outputs_info=[_zero()])[-1],
        sequences=[a.real()],
    )


def _inner_graph(a: _Arrays) -> Any:
    one, two = pt.dvector("one"), pt.dvector("two")
    body = a.p.one_of([one * two, one - two.mean(), one[::-1] + two, pt.exp(-(one**2)) * two.sum()])
    return OpFromGraph([one, two], [body])(a.real(), a.real())


def _branch(a: _Arrays) -> Any:
    return ifelse(pt.gt(a.p.pick("scalar"), 0), a.real(), a.real() * 2)


def _set(a: _Arrays) -> Any:
    v, w = a.real(), a.real()
    return a.p.one_of(
        [
            lambda: pt.set_subtensor(v[:1], 2.0),
            lambda: pt.inc_subtensor(v[1:], w[:-1]),
            lambda: pt.set_subtensor(v[1:], w[1:]),
            lambda: pt.set_subtensor(v[v > 0], 0.5),
            lambda: pt.inc_subtensor(v[w > 0], v[w > 0]),
            lambda: pt.inc_subtensor(v[pt.argsort(w, kind="stable")], w),
            lambda: pt.set_subtensor(v[::-1], w),
            lambda: pt.set_subtensor(v[-1], 3.0),
            lambda: pt.inc_subtensor(v[0], 3.0),
        ]
    )()


def _gathered(a: _Arrays) -> Any:
    table = _double(a.p.some())
    places = pt.cast(pt.clip(pt.floor(pt.abs(_finite(a.real()))), 0, 9), "int64")
    return table[places % table.shape[0]]


def _finite(v: Any) -> Any:
    return pt.switch(pt.isnan(v) | pt.isinf(v), 1.0, v)


def _joined(a: _Arrays) -> Any:
    v = a.real()
    return a.p.one_of(
        [
            lambda: pt.concatenate([v[:1], v[1:]]),
            lambda: pt.concatenate([v[-1:], v[:-1]]),
            lambda: pt.concatenate([pt.zeros(v.shape[0] - 1), v[:1]]),
            lambda: pt.concatenate([v, v])[: v.shape[0]],
        ]
    )()


def _solved(a: _Arrays) -> Any:
    v, w = _finite(a.real()), a.real()
    kernel = _kernel(a, v)
    factor = pt.linalg.cholesky(kernel)
    return a.p.one_of(
        [
            lambda: pt.linalg.solve(kernel, w),
            lambda: pt.linalg.solve(kernel, w, assume_a="pos"),
            lambda: pt.linalg.solve_triangular(factor, w, lower=True),
            lambda: pt.linalg.cho_solve((factor, True), w),
            lambda: pt.linalg.inv(kernel) @ w,
            lambda: pt.diagonal(factor) * w,
            lambda: kernel @ w,
            lambda: factor.sum(axis=a.p.choose(2)),
        ]
    )()


def _of_square(a: _Arrays) -> Any:
    m = pt.outer(a.real(), a.real()) if a.square is None else a.square
    v = a.real()
    return a.p.one_of(
        [
            lambda: m @ v,
            lambda: v @ m,
            lambda: (m * v).sum(axis=1),
            lambda: (m - v[:, None]).max(axis=0),
            lambda: m.mean(axis=1),
            lambda: m.prod(axis=0),
            lambda: pt.diagonal(m),
            lambda: pt.tril(m).sum(axis=1),
            lambda: pt.cumsum(m, axis=1)[:, -1],
            lambda: pt.sort(m, axis=0, kind="stable")[0],
            lambda: pt.argmax(m, axis=1),
            lambda: pt.special.softmax(m, axis=1).sum(axis=0),
            lambda: m.var(axis=0),
            lambda: (m.T @ m).sum(axis=0),
            lambda: m[0],
            lambda: m[:, -1],
            lambda: m[::-1, ::-1].min(axis=1),
            lambda: pt.any(m > 0, axis=0),
            lambda: _scan(lambda row: row.sum(), sequences=[m]),
            lambda: _scan(
                lambda row, s: s + row[0], sequences=[m], outputs_info=[_zero()], go_backwards=True
            ),
            lambda: pt.set_subtensor(m[:, 0], v).sum(axis=1),
            lambda: pt.inc_subtensor(m[0], v).sum(axis=0),
            lambda: (m[:, :, None] * v[None, None, :]).sum(axis=(1, 2)),
            lambda: pt.fill_diagonal(m, 2.0).sum(axis=1) if hasattr(pt, "fill_diagonal") else v,
        ]
    )()


STEPS: tuple[Callable[[_Arrays], Any], ...] = (
    lambda a: a.p.one_of([pt.abs, pt.sign, lambda v: -v, lambda v: v**2, lambda v: v + 1])(a.one()),
    lambda a: a.p.one_of(
        [pt.exp, pt.log, pt.sqrt, pt.tanh, lambda v: 1 / v, pt.sigmoid, pt.log1p, pt.cos]
    )(a.real()),
    lambda a: a.p.one_of(
        [
            lambda v, w: v + w,
            lambda v, w: v * w,
            lambda v, w: v / w,
            pt.maximum,
            pt.minimum,
            lambda v, w: v // w,
            lambda v, w: v % w,
            pt.lt,
            pt.eq,
            lambda v, w: v**w,
            lambda v, w: pt.switch(pt.gt(v, w), v, 2),
            lambda v, w: v - w,
        ]
    )(a.one(), a.one()),
    lambda a: pt.cast(_finite(pt.clip(a.real(), 0, 9)), a.p.one_of(DTYPES)),
    lambda a: a.one() * a.p.pick("scalar"),
    lambda a: a.one() + a.p.pick("size"),
    lambda a: a.one()[::-1],
    lambda a: pt.cumsum(a.one()),
    lambda a: pt.cumprod(a.one()),
    lambda a: pt.sort(a.one(), kind="stable"),
    lambda a: pt.argsort(a.one(), kind="stable"),
    lambda a: a.one()[pt.argsort(a.one(), kind="stable")],
    lambda a: pt.roll(a.one(), a.p.one_of([1, -1, 2])),
    lambda a: a.one() - a.one().mean(),
    lambda a: a.real() / a.real().sum(),
    lambda a: a.one() - a.one()[0],
    lambda a: a.one() * a.one()[-1],
    lambda a: a.one() - a.scalar(),
    lambda a: pt.special.softmax(a.real()),
    lambda a: pt.arange(a.one().shape[0]) * a.one(),
    lambda a: pt.ones_like(a.one()),
    lambda a: pt.zeros(a.one().shape[0], dtype=a.p.one_of(DTYPES[:12])) + a.one(),
    lambda a: pt.full((a.one().shape[0],), a.p.pick("scalar")),
    lambda a: pt.eye(a.one().shape[0])[-1] + a.one(),
    lambda a: a.one().reshape((-1, 1)).ravel(),
    lambda a: pt.stack([a.real(), a.real()]).max(axis=0),
    lambda a: pt.stack([a.real(), a.real()], axis=1).sum(axis=1),
    lambda a: pt.clip(a.one(), a.one().min(), 2),
    lambda a: _walk(a, a.real()),
    lambda a: _walk(a, a.real(), go_backwards=True),
    lambda a: _walk(a, a.real())[::-1],
    lambda a: _scan(lambda e: pt.exp(-(e**2)), sequences=[a.real()]),
    lambda a: pt.real(pt.cast(a.real(), "complex128") * (1 + 2j)),
    _two_sequences,
    _taps,
    _two_states,
    _whole_inside,
    _nested,
    _inner_graph,
    _branch,
    _set,
    _set,
    _gathered,
    _joined,
    _solved,
    _solved,
    _of_square,
    _of_square,
    _of_square,
)
"""Operations that give an array as long as those that they take.

Gradients of sorting are stable here: NumPy leaves the order of equal entries open otherwise.
"""


def _part(a: _Arrays, operation: Callable[[Any], Any]) -> Any:
    v = a.one()
    part = a.p.one_of(
        [
            lambda: v[1:], lambda: v[:-1], lambda: v[:2], lambda: v[-2:], lambda: v[2:-1],
            lambda: v[1:] - v[:-1], lambda: v[v > 0], lambda: v[pt.nonzero(v)[0]],
            lambda: pt.unique(v), lambda: v[::2], lambda: pt.concatenate([v, a.one()]),
            lambda: pt.concatenate([pt.zeros(1), v]), lambda: pt.repeat(v, 2), lambda: pt.diff(v),
            lambda: pt.concatenate([v[1:], v[:1]]), lambda: v[: v.shape[0] // 2],
            lambda: pt.tile(v, 2), lambda: v[v.argmax() :], lambda: pt.pad(v, (1, 2)),
        ]
    )()  # fmt: skip
    return operation(part)


REDUCTIONS: tuple[Callable[[Any], Any], ...] = (
    pt.sum, pt.sum, pt.prod, pt.max, pt.min, pt.argmax, pt.argmin, pt.any, pt.all, pt.mean, pt.var,
    pt.std, lambda v: pt.logsumexp(as_float(v)), lambda v: v[0], lambda v: v[-1],
    lambda v: v.shape[0], lambda v: (v > 0).sum(), lambda v: pt.sum(v, dtype="int8"),
    lambda v: (as_float(v) ** 2).sum(), lambda v: pt.nonzero(v)[0].sum(),
    lambda v: pt.max(abs(v)) if v.type.dtype.startswith("complex") else pt.max(-v),
)  # fmt: skip

ENDS: tuple[Callable[[_Arrays], Any], ...] = (
    lambda a: a.p.one_of(REDUCTIONS)(a.one()),
    lambda a: a.p.one_of(REDUCTIONS)(a.one()),
    lambda a: a.p.one_of(REDUCTIONS)(a.one()),
    lambda a: _part(a, a.p.one_of(REDUCTIONS)),
    lambda a: pt.dot(a.one(), a.one()),
    lambda a: (a.real() ** 2).sum(),
    lambda a: pt.linalg.slogdet(_kernel(a, _finite(a.real())))[1],
    lambda a: pt.linalg.det(_kernel(a, _finite(a.real()))),
    lambda a: pt.outer(a.one(), a.one()).sum(),
    lambda a: _walk(a, a.real())[-1],
    lambda a: _scan(
        lambda e, s: (s + e, until(s > 2)), sequences=[a.real()], outputs_info=[_zero()]
    )[-1],
    _last_entries,
    lambda a: a.p.some()[pt.argmax(a.one())] if a.p.sometimes(4) else pt.argmax(a.one()),
    lambda a: _part(a, lambda v: _walk(a, _double(v)).sum()),
    lambda a: _part(a, lambda v: pt.linalg.slogdet(_kernel(a, _finite(_double(v))))[1]),
)
"""Operations that end in a number."""


def _grown(p: Pool) -> _Arrays:
    arrays = _Arrays(p)
    for _ in range(p.choose(5)):
        arrays.grow()
    return arrays


@family.gives("scalar")
def value(p: Pool) -> Any:
    return as_float(_grown(p).scalar())


@family.gives("size")
def whole_number(p: Pool) -> Any:
    found = _grown(p).scalar()
    return found if found.type.dtype in DTYPES[1:9] else pt.cast(_finite(as_float(found)), "int64")


@family.gives("vector")
def gradient(p: Pool) -> Any:
    arrays = _grown(p)
    return pt.grad(_double(arrays.scalar()), arrays.leaf)


@family.gives("vector")
def both(p: Pool) -> Any:
    arrays = _grown(p)
    cost = _double(arrays.scalar())
    return pt.concatenate([pt.grad(cost, arrays.leaf), cost[None]])


@family.gives("vector")
def gradient_by_scalar(p: Pool) -> Any:
    arrays = _Arrays(p)
    scale = _double(p.pick("scalar"))
    arrays.made.append(arrays.real() * scale)
    for _ in range(p.choose(4)):
        arrays.grow()
    return pt.grad(_double(arrays.scalar()), scale, disconnected_inputs="ignore")[None]


@family.gives("vector")
def second_order(p: Pool) -> Any:
    arrays = _grown(p)
    slope = pt.grad(_double(arrays.scalar()), arrays.leaf)
    return pt.grad((slope**2).sum(), arrays.leaf)


@family.gives("vector")
def scattered(p: Pool) -> Any:
    """What is cut is written to places of an array whose length does not change."""
    arrays = _grown(p)
    there = _double(p.some())
    places = pt.cast(pt.clip(pt.abs(_finite(arrays.real())), 0, 9), "int64") % there.shape[0]
    write = p.one_of([pt.inc_subtensor, pt.set_subtensor])
    return write(there[places], arrays.real() if write is pt.inc_subtensor else 1.0)


@family.gives("vector")
def elementwise(p: Pool) -> Any:
    """As long as what is cut."""
    return _grown(p).one()


@family.gives("vector")
def written_back(p: Pool) -> Any:
    n = p.pick("size")
    base = p.real()
    arrays = _Arrays(p)
    value = pt.tanh(base[:n]) * arrays.scalar()
    return p.one_of([pt.set_subtensor, pt.inc_subtensor])(base[:n], value)
