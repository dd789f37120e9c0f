"""Random graphs: each production takes values from a pool and adds one to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor import sparse
from pytensor.compile.builders import OpFromGraph
from pytensor.scan.utils import until
from pytensor.tensor.blockwise import Blockwise

from pytensor_jaxlink.compat import ifelse
from tests.helpers import black_box, sort_down

host_sort = black_box(sort_down)


@dataclass
class Pool:
    """The values of a graph so far, by kind, and how to choose among them.

    ``choose(n)`` gives a number below n: from hypothesis, which then knows how to make a failing
    graph smaller, or from a generator.
    """

    choose: Callable[[int], int]
    rng: np.random.Generator
    inputs: list[Any] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)

    def pick(self, kind: str) -> Any:
        candidates = self.values[kind]
        return candidates[self.choose(len(candidates))]

    def same_length(self) -> tuple[Any, Any]:
        first, second = self.pick("vector"), self.pick("vector")
        length = pt.minimum(first.shape[0], second.shape[0])
        return first[:length], second[:length]


def new_pool(seed: int, choose: Callable[[int], int] | None = None) -> Pool:
    x, m = pt.dvector("x"), pt.dmatrix("m")
    n, k = pt.lscalar("n"), pt.iscalar("k")
    f, i, b = pt.fvector("f"), pt.lvector("i"), pt.vector("b", dtype="bool")
    rng = np.random.default_rng(seed)
    return Pool(
        choose or (lambda n: int(rng.integers(n))),
        rng,
        [x, m, n, k, f, i, b],
        {
            "vector": [x, m[0], m.sum(axis=0), f, pt.cast(i, "float64"), pt.cast(b, "int8") * 0.5],
            "matrix": [m],
            "size": [n, k, x.shape[0], m.shape[1], pt.constant(2)],
            "scalar": [x.sum(), pt.constant(1.5)],
        },
    )


def arguments(pool: Pool) -> list[Any]:
    """Values for the inputs: lengths from 0, sizes from -1."""
    rng = pool.rng
    return [
        rng.normal(size=rng.choice([0, 1, 3, 5])),
        rng.normal(size=(3, rng.choice([0, 1, 2, 4]))),
        np.asarray(rng.integers(-1, 6)),
        np.asarray(rng.integers(0, 4), dtype="int32"),
        rng.normal(size=4).astype("float32"),
        rng.integers(0, 3, size=3),
        rng.random(3) > 0.5,
    ]


def _scan(p: Pool) -> Any:
    return pytensor.scan(
        lambda element, state: state * 0.5 + pt.cast(element, "float64"),
        sequences=[p.pick("vector")],
        outputs_info=[pt.constant(0.0, dtype="float64")],
        return_updates=False,
    )


def _binary(operation: Callable[[Any, Any], Any]) -> Callable[[Pool], Any]:
    return lambda p: operation(*p.same_length())


def _unary(operation: Callable[[Any], Any]) -> Callable[[Pool], Any]:
    return lambda p: operation(p.pick("vector"))


def _size(p: Pool) -> Any:
    return pt.abs(p.pick("size"))


def _double(value: Any) -> Any:
    return pt.cast(value, "float64")


def _softmax(value: Any) -> Any:
    # Never of nothing: in PyTensor 3.0 the default mode, not the linker, decides if that raises.
    return pt.special.softmax(pt.concatenate([_double(value), pt.zeros(1)]))


def _loop(p: Pool, step: Callable[[Any], Any], start: Any, **options: Any) -> Any:
    return pytensor.scan(step, outputs_info=[start], return_updates=False, **options)


def _while(p: Pool) -> Any:
    def step(state: Any) -> Any:
        return state * 2 + 1, until(state > 20)

    return _loop(p, step, _double(p.pick("scalar")), n_steps=5)


def _host_in_loop(p: Pool) -> Any:
    start = _double(p.pick("vector"))
    return _loop(p, lambda state: host_sort(pt.sin(state)) / 2, start, n_steps=3)[-1]


def _mask_in_loop(p: Pool) -> Any:
    return pytensor.scan(
        lambda row: row[row > 0].sum(),
        sequences=[_double(p.pick("matrix"))],
        return_updates=False,
    )


def _steps_from_size(p: Pool) -> Any:
    steps = pt.minimum(_size(p), 6) + 1
    return _loop(p, lambda state: pt.tanh(state) + 0.5, _double(p.pick("vector")), n_steps=steps)[
        -1
    ]


_CURVES: tuple[Callable[[Any], Any], ...] = (
    pt.sin,
    pt.tanh,
    lambda value: pt.exp(-(value**2)),
    lambda value: pt.logsumexp(value[:, None] - value, axis=0),
    lambda value: pt.exp(-value[0]) * value,
)


def _curve(p: Pool) -> Callable[[Any], Any]:
    return _CURVES[p.choose(len(_CURVES))]


def _some(p: Pool) -> Any:
    """At least one value."""
    return pt.concatenate([pt.ones(1), _double(p.pick("vector"))])


def _two_loops(p: Pool) -> Any:
    """A loop over the states of another one, in some order, that may compute what it did."""
    one, other, start = _curve(p), _curve(p), _some(p)
    steps = pt.minimum(_size(p), 5) + 2
    states = _loop(p, lambda s: one(s) * 0.5 + other(s), start, n_steps=steps).owner.inputs[0]
    orders = [states[::-1], states[:-1][::-1], states[:0:-1], states[:-1], states[1:], states[::2]]
    later = pytensor.scan(
        lambda before, state: state * other(before) + before,
        sequences=[orders[p.choose(len(orders))]],
        outputs_info=[start],
        return_updates=False,
        **({"n_steps": steps - 1} if p.choose(2) else {}),
    )
    return later[-1] + states[-1]


def _gradient_of_loop(p: Pool) -> Any:
    one, other, start = _curve(p), _curve(p), _some(p)
    taps = [[-1], [-2, -1], [-3]][p.choose(3)]
    first = pt.stack([start * k for k in range(3)])[min(taps) :]
    states = pytensor.scan(
        lambda row, *seen: row + one(seen[0]) * other(seen[-1] * 0.5),
        sequences=[pt.outer(pt.arange(4) * 0.1, start)],
        outputs_info=[{"initial": first, "taps": taps}],
        return_updates=False,
    )
    cost = states[-1].sum() if p.choose(2) else (states**2).sum()
    return pytensor.grad(cost, start)


def _choice(p: Pool) -> Any:
    first, second = _double(p.pick("vector")), _double(p.pick("vector"))
    return ifelse(pt.cast(p.pick("scalar"), "float64") > 0, first * 2, host_sort(second))


def _batched(p: Pool) -> Any:
    v = pt.dvector()
    inner = OpFromGraph([v], [pt.cumsum(pt.exp(-pt.abs(v))) / (1 + pt.abs(v).sum())])
    matrix = _double(p.pick("matrix"))
    # PyTensor's own Blockwise refuses an empty batch.
    rows = pt.concatenate([matrix, pt.zeros((1, matrix.shape[1]))])
    return Blockwise(inner, signature="(n)->(n)")(rows)


def _inner_graph(p: Pool) -> Any:
    v = pt.dvector()
    return OpFromGraph([v], [host_sort(v) + v[v > 0].sum()])(_double(p.pick("vector")))


def _sparse(p: Pool) -> Any:
    matrix = _double(p.pick("matrix"))
    return sparse.dot(sparse.csr_from_dense(matrix), matrix.T)


_DTYPES = (
    "int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "float16", "complex64",
    "complex128",
)  # fmt: skip


def _as_another_dtype(p: Pool) -> Any:
    """Small numbers, which every dtype holds; complex ones come back by their absolute value."""
    dtype = _DTYPES[p.choose(len(_DTYPES))]
    small = pt.floor(pt.clip(pt.abs(_double(p.pick("vector"))), 0, 100))
    value = pt.cast(pt.switch(pt.isnan(small), 0, small), dtype)
    changed = (value + value[::-1], value * value, pt.sqrt(value), value.sum() + value)
    result = changed[p.choose(len(changed))]
    return abs(result) if result.type.dtype.startswith("complex") else result


PRODUCTIONS: list[tuple[str, Callable[[Pool], Any]]] = [
    *(
        ("vector", _unary(operation))
        for operation in (
            lambda v: pt.exp(-pt.abs(v)), lambda v: pt.log1p(pt.abs(v)), pt.tanh, pt.sin, pt.cos,
            lambda v: pt.sqrt(pt.abs(v)), pt.sigmoid, pt.sign, pt.floor, pt.ceil,
            lambda v: pt.softplus(pt.cast(v, "float64")),
            lambda v: pt.erf(v), lambda v: pt.gammaln(pt.abs(v) + 1), lambda v: v**2, pt.neg,
            lambda v: pt.expm1(-pt.abs(v)), pt.arctan, pt.isnan, lambda v: pt.cast(v, "int64"),
            lambda v: pt.clip(v, -0.5, 0.5), lambda v: pt.round(v), lambda v: pt.cast(v, "float32"),
            lambda v: v[::-1], lambda v: v[::2], lambda v: v[v > 0.3], pt.unique, pt.sort,
            lambda v: pt.argsort(v, kind="stable"), pt.cumsum, lambda v: pt.cumprod(v), pt.diff,
            lambda v: v[v.argmax() :],
            lambda v: pt.nonzero(v)[0], lambda v: host_sort(pt.cast(v, "float64")),
            lambda v: v / v.shape[0], lambda v: _softmax(v),
            lambda v: pt.set_subtensor(v[v < 0], 0), lambda v: pt.concatenate([v, v[:1]]),
            lambda v: pt.grad((pt.tanh(pt.cast(v, "float64") * 2) ** 2).sum(), v)
            if v.type.dtype.startswith("float") else v,
        )
    ),
    *(
        ("vector", _binary(operation))
        for operation in (
            lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, pt.maximum, pt.minimum,
            lambda a, b: a / (pt.abs(b) + 1), lambda a, b: pt.switch(a > b, a, b * 2),
            lambda a, b: a // (pt.abs(b) + 1), lambda a, b: pt.mod(a, pt.abs(b) + 1),
            lambda a, b: pt.eq(a, b), lambda a, b: (a < b) & (b > 0), pt.arctan2,
            lambda a, b: pt.logaddexp(a, b),
        )
    ),
    ("vector", lambda p: p.pick("vector")[: p.pick("size")]),
    ("vector", lambda p: p.pick("vector")[p.pick("size") :]),
    ("vector", lambda p: pt.zeros(_size(p)) + p.pick("scalar")),
    ("vector", lambda p: pt.arange(p.pick("size"))),
    ("vector", lambda p: pt.concatenate([p.pick("vector"), p.pick("vector")])),
    ("vector", lambda p: pt.repeat(p.pick("vector"), _size(p))),
    ("vector", lambda p: pt.set_subtensor(p.pick("vector")[: p.pick("size")], 1)),
    ("vector", lambda p: pt.inc_subtensor(p.pick("vector")[p.pick("size") :], 1)),
    ("vector", lambda p: p.pick("vector")[pt.clip(p.inputs[5], 0, 0)]),
    ("vector", lambda p: p.pick("matrix").sum(axis=p.choose(2))),
    ("vector", lambda p: p.pick("matrix").mean(axis=0)),
    ("vector", lambda p: p.pick("matrix").max(axis=1)),
    ("vector", lambda p: p.pick("matrix").ravel()),
    ("vector", lambda p: pt.dot(p.pick("matrix"), p.pick("matrix").T).sum(axis=0)),
    ("vector", lambda p: pt.linspace(0, 1, _size(p) + 1)),
    ("vector", _scan),
    ("vector", _while),
    ("vector", lambda p: _while(p)[-1] + p.pick("vector")),
    ("vector", _host_in_loop),
    ("vector", _mask_in_loop),
    ("vector", _steps_from_size),
    ("vector", _choice),
    ("vector", _inner_graph),
    ("vector", _as_another_dtype),
    ("vector", _as_another_dtype),
    ("matrix", _batched),
    ("matrix", _sparse),
    ("matrix", lambda p: pt.specify_shape(p.pick("matrix"), (None, p.pick("size")))),
    ("vector", lambda p: pt.where(p.pick("vector") > 0)[0]),
    ("vector", lambda p: p.pick("vector")[pt.arange(_size(p))]),
    ("vector", lambda p: pt.extract_diag(p.pick("matrix"))),
    ("vector", lambda p: pt.tile(p.pick("vector"), (2,))),
    ("vector", lambda p: pt.split(p.pick("vector"), [p.pick("size"), 1], 2)[0]),
    ("vector", lambda p: pt.logsumexp(_double(p.pick("matrix")), axis=0)),
    ("vector", lambda p: pt.var(p.pick("matrix"), axis=1)),
    ("vector", lambda p: pt.argmax(p.pick("matrix"), axis=1)),
    ("vector", lambda p: pt.any(p.pick("matrix") > 0, axis=0)),
    ("matrix", lambda p: pt.sort(p.pick("matrix"), axis=0)),
    ("matrix", lambda p: pt.roll(p.pick("matrix"), 1, axis=0)),
    ("matrix", lambda p: pt.expand_dims(p.pick("vector"), 0)),
    ("matrix", lambda p: pt.outer(p.pick("vector"), p.pick("vector"))),
    ("matrix", lambda p: p.pick("matrix").T),
    ("matrix", lambda p: pt.eye(_size(p)) * p.pick("scalar")),
    ("matrix", lambda p: p.pick("vector").reshape((-1, 1)) * np.ones((1, 2))),
    ("matrix", lambda p: pt.tril(p.pick("matrix"))),
    ("matrix", lambda p: pt.diag(p.pick("vector"))),
    ("matrix", lambda p: pt.stack(list(p.same_length()))),
    ("matrix", lambda p: p.pick("matrix")[: p.pick("size")]),
    ("matrix", lambda p: pt.pad(p.pick("matrix"), ((0, 0), (0, 1)))),
    ("size", lambda p: p.pick("size") + p.pick("size")),
    ("size", lambda p: p.pick("size") // 2),
    ("size", lambda p: pt.maximum(p.pick("size"), 1)),
    ("size", lambda p: (p.pick("vector") > 0.5).sum()),
    ("size", lambda p: p.pick("vector").shape[0]),
    ("scalar", lambda p: p.pick("vector").sum()),
    ("scalar", lambda p: p.pick("vector").prod()),
    ("scalar", lambda p: pt.log(pt.abs(p.pick("scalar")) + 1)),
    ("scalar", lambda p: p.pick("vector")[p.pick("size")]),
    ("scalar", lambda p: pt.any(p.pick("vector") > 0) * 1.0),
]  # fmt: skip


LOOPS = [("vector", _two_loops), ("vector", _gradient_of_loop)]
"""Graphs of their own: they take long to compile."""


def random_graph(
    seed: int, choose: Callable[[int], int] | None = None, *, loops: bool = False
) -> tuple[Pool, list[Any]]:
    """A graph with its pool; the same for the same seed and choices."""
    pool = new_pool(seed, choose)
    productions, most = (LOOPS, 1) if loops else (PRODUCTIONS, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3 + pool.choose(most)):
            kind, production = productions[pool.choose(len(productions))]
            try:
                pool.values[kind].append(production(pool))
            except (TypeError, NotImplementedError):
                continue  # PyTensor has no such operation on these dtypes
    last = [values[-1] for values in pool.values.values()]
    return pool, [*last, pool.pick("vector")]
