"""The forms in which an expression of a matrix and two vectors is compared.

Rewrites follow a selection through an expression, and the same expression is lowered by itself, in
a loop, in a branch, for a batch, and with its gradient.  So a rule may suit one form alone, or fail
for the second length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.replace import vectorize_graph

from pytensor_jaxlink.compat import ifelse
from tests.edges.indexing import Case

Expression = Callable[[Any, Any, Any], Any]
"""A value, or several, of a matrix and two vectors."""

Form = Callable[[Expression, str], tuple[Callable[..., Any], list[Any], list[Any]]]
"""The outputs of further inputs, those inputs, and the values of all inputs in each call."""


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix and two vectors; of real numbers no two entries are equal.

    Gradients of equal entries depend on the order that `argsort` gives them, which NumPy leaves
    open (docs/known_differences.md).
    """
    rng = np.random.default_rng(0)
    low = -3 if np.dtype(dtype).kind in "ifc" else 0
    entries = [rng.integers(low, 6, shape) for shape in ((4, 4), 6, 6)]
    if np.dtype(dtype).kind in "fc":
        entries = [each + 0.25 + np.arange(each.size).reshape(each.shape) / 64 for each in entries]
    if np.dtype(dtype).kind == "c":
        entries = [each + 0.5j for each in entries]
    m, v, w = (each.astype(dtype) for each in entries)
    return m, v, w


def case(name: str, expression: Expression, dtype: str, form: str, **options: Any) -> Case:
    """An expression of arrays of a type, in one of the forms."""
    m, v, w = pt.matrix("m", dtype=dtype), pt.vector("v", dtype=dtype), pt.vector("w", dtype=dtype)
    build, more, calls = FORMS[form](expression, dtype)
    # Functions of integers of 8 bits have values of type float16, of wider ones float32.
    width = np.dtype(dtype).itemsize // (2 if dtype[0] == "c" else 1)
    computed = {1: "float16", 2: "float32", 4: "float32", 8: "float64"}[width]
    eps = float(np.finfo("float16" if dtype == "float16" else computed).eps)
    return Case(
        f"{name}, {form}, {dtype}", build, (m, v, w, *more), tuple(calls), tuple(options.items()),
        rounding=4 * eps if eps > 1e-4 else 1024 * eps,
        signs_of_zero=form in ("whole", "mask", "prefix"),
    )  # fmt: skip


# -- all of the arrays, or a part ------------------------------------------------------------------


def _lengths(dtype: str) -> list[Any]:
    """Arrays of several lengths; the last are no rows of memory."""
    m, v, w = arrays(dtype)
    kept = [(m[:r, :r], v[:k], w[:k]) for r, k in ((4, 6), (1, 1), (0, 0), (3, 5))]
    return [*kept, (m.T, v[::-1], w[::2].repeat(2)[::-1])]


def _whole(expression: Expression, dtype: str) -> Any:
    return expression, [], _lengths(dtype)


_SIGNS = [
    ([1, -1, 1, 1, -1, 1], [1, 1, 1, -1]),
    ([-1] * 6, [-1] * 4),
    ([1] * 6, [1] * 4),
    ([-1, 1, -1, -1, -1, -1], [-1, -1, -1, 1]),
]


def _selected(expression: Expression, dtype: str, kept: str) -> Any:
    def build(m: Any, v: Any, w: Any, q: Any, r: Any) -> Any:
        return expression(
            m[r > 0] if "m" in kept else m[:, r > 0] if "c" in kept else m,
            v[q > 0] if "v" in kept else v,
            w[q > 0] if "w" in kept else w,
        )

    calls = [(*arrays(dtype), np.array(one, "d"), np.array(two, "d")) for one, two in _SIGNS]
    return build, [pt.dvector("q"), pt.dvector("r")], calls


def _prefix(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any, n: Any) -> Any:
        return expression(m[:n, :n], v[:n], w[:n])

    return build, [pt.lscalar("n")], [(*arrays(dtype), n) for n in (3, 0, 4, 1, 9, -1)]


def _stretch(expression: Expression, dtype: str) -> Any:
    """From a place that is computed from data, of a computed length."""

    def build(m: Any, v: Any, w: Any, q: Any) -> Any:
        k = (q > 0).sum()
        return expression(m[k:], v[k : k + 3], w[k : k + 3])

    return build, [pt.dvector("q")], [
        (*arrays(dtype), np.array(q, "d")) for q in ([1, -1], [1, 1], [-1], [1] * 5)
    ]  # fmt: skip


# -- gradients -------------------------------------------------------------------------------------


def _cost(expression: Expression, *, weighted: bool) -> Callable[..., Any]:
    """The sum of all outputs, each entry with a weight of its own or with none."""

    def build(m: Any, v: Any, w: Any) -> Any:
        found = expression(m, v, w)
        terms = []
        for each in found if isinstance(found, Sequence) else [found]:
            value = pt.as_tensor(each)
            value = value.real + value.imag if value.dtype.startswith("complex") else value
            if value.dtype.startswith("float"):
                flat = value.ravel()
                terms.append((flat * (1.0 + pt.arange(flat.size)) if weighted else flat).sum())
        if not terms:
            raise ValueError("no output has a gradient")
        return pt.add(*terms) if len(terms) > 1 else terms[0]

    return build


def _gradients(expression: Expression, *, weighted: bool) -> Expression:
    def build(m: Any, v: Any, w: Any) -> Any:
        cost = _cost(expression, weighted=weighted)(m, v, w)
        return pt.grad(cost, [m, v, w], disconnected_inputs="ignore")

    return build


def _gradient(expression: Expression, dtype: str) -> Any:
    return _whole(_gradients(expression, weighted=False), dtype)


def _weighted_gradient(expression: Expression, dtype: str) -> Any:
    return _whole(_gradients(expression, weighted=True), dtype)


def _second_order(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any) -> Any:
        first = _gradients(expression, weighted=True)(m, v, w)
        cost = pt.add(*[(g * g).sum() for g in first])
        return pt.grad(cost, [m, v, w], disconnected_inputs="ignore")

    return _whole(build, dtype)


def _gradient_of_selected(expression: Expression, dtype: str) -> Any:
    selected, more, calls = _selected(expression, dtype, "mvw")

    def build(m: Any, v: Any, w: Any, q: Any, r: Any) -> Any:
        cost = _cost(lambda *_: selected(m, v, w, q, r), weighted=True)(m, v, w)
        return pt.grad(cost, [m, v, w], disconnected_inputs="ignore")

    return build, more, calls


def _gradient_of_prefix(expression: Expression, dtype: str) -> Any:
    prefix, more, calls = _prefix(expression, dtype)

    def build(m: Any, v: Any, w: Any, n: Any) -> Any:
        cost = _cost(lambda *_: prefix(m, v, w, n), weighted=True)(m, v, w)
        return pt.grad(cost, [m, v, w], disconnected_inputs="ignore")

    return build, more, calls


# -- inside of other graphs ------------------------------------------------------------------------


def _scan(step: Any, **options: Any) -> Any:
    return pytensor.scan(step, **options, return_updates=False)


def _variants(m: Any, v: Any, w: Any) -> list[Any]:
    """Three of each array."""
    return [pt.stack([each, each[::-1], pt.roll(each, 1, axis=0)]) for each in (m, v, w)]


def _sequences(expression: Expression, dtype: str) -> Any:
    return _whole(lambda m, v, w: _scan(expression, sequences=_variants(m, v, w)), dtype)


def _non_sequences(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any, n: Any) -> Any:
        return _scan(
            lambda i, *args: expression(args[0], pt.roll(args[1], i), args[2]),
            sequences=[pt.arange(n)], non_sequences=[m, v, w],
        )  # fmt: skip

    calls = [(*each, n) for each, n in zip(_lengths(dtype), (2, 1, 3, 2, 1), strict=True)]
    return build, [pt.lscalar("n")], calls


def _state(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any) -> Any:
        def step(state: Any, m: Any, w: Any) -> Any:
            found = expression(m, state, w)
            first = pt.as_tensor(found[0] if isinstance(found, Sequence) else found)
            return pt.cast(pt.roll(state, 1) + pt.cast(first.sum(), dtype), dtype)

        return _scan(step, outputs_info=[v], non_sequences=[m, w], n_steps=3)

    return _whole(build, dtype)


def _loop_over_prefixes(expression: Expression, dtype: str) -> Any:
    """Of another length in each step, and only the last value is kept."""

    def build(m: Any, v: Any, w: Any) -> Any:
        def step(n: Any, last: Any, m: Any, v: Any, w: Any) -> Any:
            found = expression(m[:n], v[:n], w[:n])
            first = pt.as_tensor(found[0] if isinstance(found, Sequence) else found)
            return last + first.sum().astype("complex128" if dtype[0] == "c" else "float64")

        zero = np.zeros((), "complex128" if dtype[0] == "c" else "float64")
        return _scan(
            step, sequences=[pt.arange(4)], outputs_info=[pt.as_tensor(zero)],
            non_sequences=[m, v, w],
        )[-1]  # fmt: skip

    return _whole(build, dtype)


def _from_graph(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any) -> Any:
        inner = [each.type() for each in (m, v, w)]
        found = expression(*inner)
        outputs = list(found) if isinstance(found, Sequence) else [found]
        return OpFromGraph(
            inner, [pt.as_tensor(each) for each in outputs], on_unused_input="ignore"
        )(m, v, w)

    return build


def _inner_graph(expression: Expression, dtype: str) -> Any:
    return _whole(_from_graph(expression, dtype), dtype)


def _gradient_of_inner_graph(expression: Expression, dtype: str) -> Any:
    return _whole(_gradients(_from_graph(expression, dtype), weighted=True), dtype)


def _branch(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any, c: Any) -> Any:
        one, other = expression(m, v, w), expression(m, w, v)
        if isinstance(one, Sequence):
            return ifelse(c, list(one), list(other))
        return ifelse(c, one, other)

    calls = [(*each, c) for each, c in zip(_lengths(dtype), (1, 0, 1, 0, 0), strict=True)]
    return build, [pt.lscalar("c")], calls


def _batch(expression: Expression, dtype: str) -> Any:
    def build(m: Any, v: Any, w: Any) -> Any:
        found = expression(m, v, w)
        outputs = list(found) if isinstance(found, Sequence) else [found]
        return vectorize_graph(outputs, dict(zip((m, v, w), _variants(m, v, w), strict=True)))

    return _whole(build, dtype)


def _batch_of_one(expression: Expression, dtype: str) -> Any:
    """A batch of vectors with one matrix."""

    def build(m: Any, v: Any, w: Any) -> Any:
        found = expression(m, v, w)
        outputs = list(found) if isinstance(found, Sequence) else [found]
        return vectorize_graph(outputs, {v: _variants(m, v, w)[1]})

    return _whole(build, dtype)


def _gradient_of_batch(expression: Expression, dtype: str) -> Any:
    return _whole(_gradients(_batch(expression, dtype)[0], weighted=True), dtype)


def _gradient_of_loop(expression: Expression, dtype: str) -> Any:
    return _whole(_gradients(_sequences(expression, dtype)[0], weighted=True), dtype)


FORMS: dict[str, Form] = {
    "whole": _whole,
    "mask": lambda e, dtype: _selected(e, dtype, "mvw"),
    "mask of one": lambda e, dtype: _selected(e, dtype, "v"),
    "mask of columns": lambda e, dtype: _selected(e, dtype, "cw"),
    "prefix": _prefix,
    "stretch": _stretch,
    "gradient": _gradient,
    "weighted gradient": _weighted_gradient,
    "second order": _second_order,
    "gradient of a mask": _gradient_of_selected,
    "gradient of a prefix": _gradient_of_prefix,
    "sequences": _sequences,
    "non-sequences": _non_sequences,
    "state": _state,
    "loop over prefixes": _loop_over_prefixes,
    "inner graph": _inner_graph,
    "gradient of an inner graph": _gradient_of_inner_graph,
    "branch": _branch,
    "batch": _batch,
    "batch of one": _batch_of_one,
    "gradient of a batch": _gradient_of_batch,
    "gradient of a loop": _gradient_of_loop,
}
