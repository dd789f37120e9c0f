"""Graphs of arrays whose length changes, in several dimensions and in loops.

Each graph is built twice: of the prefixes of arrays, up to a size that is an argument, and of
arguments whose lengths change.  Either is compiled twice at most, for its first size and for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert
from pytensor.scan.utils import until as scan_until
from pytensor.tensor.linalg import cholesky, slogdet, solve, solve_triangular

from pytensor_jaxlink import JAXLinker, jaxify
from pytensor_jaxlink.compat import ifelse
from tests.edges.known import OLD
from tests.helpers import PYTHON, as_list, compile_both
from tests.link.test_dynamic_sizes import answer, assert_same, inputs_of, with_gradient

X, Y, M, W = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m"), pt.dmatrix("w")
B, N = pt.dvector("b"), pt.lscalar("n")
LENGTH = 9
SIZES = (3, 5, 0, 1, 4, 9, 11)
LENGTHS = (3, 5, 0, 1, 64, 65)


def kernel(x: Any, scale: Any = 1.0) -> Any:
    return pt.exp(-((x[:, None] - x[None, :]) ** 2) * scale) + 0.1 * pt.eye(x.shape[0])


def normal(x: Any, y: Any, b: Any) -> Any:
    """The log density of a Gaussian process."""
    factor = cholesky(kernel(x, b[0]))
    z = solve_triangular(factor, y, lower=True)
    return -0.5 * (z**2).sum() - pt.log(pt.diagonal(factor)).sum() - b[1] ** 2


def by_solve(x: Any, y: Any, b: Any) -> Any:
    covariance = kernel(x, b[0])
    z = solve(covariance, y, assume_a="pos")
    return -0.5 * y @ z - 0.5 * slogdet(covariance)[1]


def walk(x: Any, start: Any = 0.0) -> Any:
    return pytensor.scan(
        lambda e, s: s * 0.9 + e,
        sequences=[x],
        outputs_info=[pt.as_tensor(start, dtype="float64")],
        return_updates=False,
    )


def second_order(x: Any, b: Any, start: Any = None) -> Any:
    start = pt.zeros(2) if start is None else start
    return pytensor.scan(
        lambda e, s2, s1: b[0] * s1 + b[1] * s2 + e,
        sequences=[x],
        outputs_info=[{"initial": start, "taps": [-2, -1]}],
        return_updates=False,
    )


def carried(x: Any) -> Any:
    """States as long as the argument."""
    return pytensor.scan(
        lambda b, s: pt.tanh(s * b + x),
        sequences=[B],
        outputs_info=[pt.zeros_like(x)],
        return_updates=False,
    )


def free(x: Any, y: Any) -> Any:
    return pytensor.scan(lambda e, f: pt.exp(-e) * f, sequences=[x, y], return_updates=False)


GRAPHS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "outer": lambda x, y, m, w: with_gradient((pt.outer(x, y) ** 2).sum(), X),
    "square": lambda x, y, m, w: with_gradient((m**2).sum(), M),
    "rows_and_columns": lambda x, y, m, w: [m.sum(axis=0).max(), pt.exp(m).sum(axis=1).min()],
    "trace": lambda x, y, m, w: with_gradient((pt.diagonal(m) ** 2).sum(), M),
    "quadratic": lambda x, y, m, w: with_gradient(x @ m @ y, X, M),
    "products": lambda x, y, m, w: [x @ y, (w[:, :2] @ B).sum(), w.T @ w, (w @ w.T).sum()],
    "pairs": lambda x, y, m, w: with_gradient(pt.exp(-((x[:, None] - x[None, :]) ** 2)).mean(), X),
    "distances": lambda x, y, m, w: with_gradient(
        pt.sqrt(((w[:, None, :] - w[None, :, :]) ** 2).sum(-1) + 1).sum(), W
    ),
    "triangle": lambda x, y, m, w: pt.tril(m).sum() - pt.triu(m, 1).max(),
    "unit": lambda x, y, m, w: (m * pt.eye(m.shape[0])).sum(),
    "cholesky": lambda x, y, m, w: with_gradient((cholesky(kernel(x)) ** 3).sum(), X),
    "logdet": lambda x, y, m, w: with_gradient(slogdet(kernel(x))[1], X),
    "process": lambda x, y, m, w: with_gradient(normal(x, y, B), B, X),
    "by_solve": lambda x, y, m, w: with_gradient(by_solve(x, y, B), B, X),
    "prediction": lambda x, y, m, w: (
        pt.exp(-((B[:, None] - x[None, :]) ** 2)) @ solve(kernel(x), y)
    ),
    "matmul": lambda x, y, m, w: with_gradient((pt.matmul(m, w) ** 2).sum(), W),
    "differences": lambda x, y, m, w: with_gradient(((x[1:] - x[:-1]) ** 2).sum(), X),
    "windows": lambda x, y, m, w: with_gradient((x[2:] * y[1:-1] * x[:-2]).sum(), X, Y),
    "blocks": lambda x, y, m, w: with_gradient((m[1:, :-1] * m[:-1, 1:]).sum(), M),
    "walk": lambda x, y, m, w: with_gradient((walk(x, B[0]) * y).sum(), B, X),
    "last_state": lambda x, y, m, w: with_gradient(walk(x, B[0])[-1], B),
    "second_order": lambda x, y, m, w: with_gradient(((second_order(x, B) - y) ** 2).sum(), B),
    "starts": lambda x, y, m, w: with_gradient(
        (second_order(x, B, pt.stack([B[1] ** 2, B[0]])) ** 2).sum(), B
    ),
    "free": lambda x, y, m, w: with_gradient(free(x, y).sum(), X),
    "rows_in_turn": lambda x, y, m, w: with_gradient(
        pytensor.scan(
            lambda row, s: pt.tanh(row + s),
            sequences=[w],
            outputs_info=[pt.zeros(3)],
            return_updates=False,
        ).sum(),
        W,
    ),
    "whole_in_a_loop": lambda x, y, m, w: pytensor.scan(
        lambda b, s: s + (b * x).sum(),
        sequences=[B],
        outputs_info=[pt.zeros(())],
        return_updates=False,
    )[-1],
    "sorted": lambda x, y, m, w: [(pt.sort(x)[::-1] ** 2)[0], pt.sort(y)[:2].sum()],
    "ranks": lambda x, y, m, w: with_gradient((y[pt.argsort(x)][1:] ** 2).sum(), Y),
    "softmax_of_rows": lambda x, y, m, w: with_gradient(
        (pt.special.softmax(m, axis=1) * m).sum(), M
    ),
    "log_sum": lambda x, y, m, w: [
        (each**2).sum() for each in with_gradient(pt.logsumexp(m, axis=0).sum(), M)
    ],
    "inner_graph": lambda x, y, m, w: pytensor.compile.builders.OpFromGraph([X, M], [M @ X])(
        x, m
    ).sum(),
    "joined": lambda x, y, m, w: (pt.concatenate([m, x[None, :]], axis=0) ** 2).sum(axis=1).max(),
    "flat": lambda x, y, m, w: [m.flatten().var(), pt.outer(x, y).ravel()[-1]],
    "batches": lambda x, y, m, w: pt.linalg.inv(w[:, :, None] * w[:, None, :] + pt.eye(3)).sum(),
    "laid_end_to_end": lambda x, y, m, w: with_gradient(
        (pt.concatenate([x, B, y]) ** 2).sum(), X, Y
    ),
    "side_by_side": lambda x, y, m, w: with_gradient(
        (pt.stack([x, y], axis=1) @ B[:2]).sum(), X, Y
    ),
    "second_differences": lambda x, y, m, w: with_gradient((pt.diff(x, n=2) ** 2).sum(), X),
    "of_all": lambda x, y, m, w: with_gradient(x.prod(), X),
    "repeated": lambda x, y, m, w: with_gradient((pt.repeat(x, 2) ** 2).sum(), X),
    "two_solutions": lambda x, y, m, w: [
        solve(kernel(x, B[0]), y).sum(),
        (m @ solve(kernel(x, B[0]), x)).sum(),
    ],
    "selected": lambda x, y, m, w: [pt.exp(y[x > 0]), (x[x > 0] * y[x > 0]).sum()],
    "sorted_along": lambda x, y, m, w: [
        *(pt.sort(w, axis=0)[0], pt.sort(w, axis=1).sum(0), pt.argsort(m, axis=0)[:1]),
        pt.take_along_axis(w, pt.argsort(w, axis=1), axis=1),
    ],
    "gathers_of_pairs": lambda x, y, m, w: with_gradient(
        (m[pt.argsort(x), pt.argsort(x)[::-1]] * y).sum(), M
    ),
    "set_at_places": lambda x, y, m, w: with_gradient(
        (pt.set_subtensor((x * y)[pt.argsort(x)], y) ** 3).sum(), Y
    ),
    "first_ones": lambda x, y, m, w: with_gradient((x[pt.arange(x.shape[0]) < 2] ** 2).sum(), X),
    "products_of_rows": lambda x, y, m, w: pt.matmul(w[:, None, :], w[:, :, None])[:, 0, 0],
    "first_of_two": lambda x, y, m, w: with_gradient(
        (pt.diff(pt.concatenate([B[:1], x])) ** 2).sum(), B
    ),
    "carried_matrix": lambda x, y, m, w: pytensor.scan(
        lambda b, s: s * b + m, sequences=[B], outputs_info=[m], return_updates=False
    )[-1].sum(0),
    "kept_rows": lambda x, y, m, w: with_gradient(
        (pytensor.scan(lambda b: pt.exp(b * x), sequences=[B], return_updates=False) ** 2).sum(), X
    ),
    "carried_along": lambda x, y, m, w: with_gradient(
        (
            pytensor.scan(
                lambda e, s: s * 0.5 + e * x,
                sequences=[x],
                outputs_info=[y],
                return_updates=False,
            )[-1]
            ** 2
        ).sum(),
        Y,
    ),
    "set": lambda x, y, m, w: [
        pt.set_subtensor(m[:, 0], x).sum(),
        pt.inc_subtensor(m[-1], y)[1:, :2].sum(),
    ],
}


OF_SIZES = {
    "values_set": lambda x, y, m, w: [
        pt.set_subtensor(x[:2], B).sum(),
        *with_gradient((pt.set_subtensor(x[1:3], B) ** 2).sum(), X, B),
    ],
    "carried": lambda x, y, m, w: with_gradient((carried(x)[-1] ** 2).sum(), X, B),
    "counted_entries": lambda x, y, m, w: with_gradient(
        pytensor.scan(
            lambda k, s: s + x[k] * B[0],
            sequences=[pt.arange(x.shape[0])],
            outputs_info=[pt.zeros(())],
            return_updates=False,
        ).sum(),
        X,
    ),
}
"""Graphs that PyTensor computes in another way than JAX: exceptions, and steps that are cut."""


def values(length: int, seed: int, missing: bool) -> dict[Any, Any]:
    rng = np.random.default_rng(seed)
    x, y, m, w = (rng.normal(size=s) for s in ((length,), (length,), (length,) * 2, (length, 3)))
    if missing:
        x[2:3] = m[1:2, 2:3] = w[3:4, 1] = np.nan
    return {X: x, Y: y, M: m, W: w, B: np.array([0.7, 0.3]), N: np.array(length)}


def compare(outputs: Any, inputs: Any, calls: Any) -> Any:
    f, reference = (
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(), PYTHON)
    )
    for call in calls:
        arguments = [call[v] for v in inputs]
        assert_same(answer(f, arguments), answer(reference, arguments))
    return f


def of_prefixes(name: str, size: Any) -> list[Any]:
    return as_list((GRAPHS | OF_SIZES)[name](X[:size], Y[:size], M[:size, :size], W[:size]))


def check_prefixes(name: str) -> None:
    outputs = of_prefixes(name, N)
    calls = [
        {**values(LENGTH, seed, missing=seed % 2 == 1), N: np.array(size)}
        for seed, size in enumerate(SIZES)
    ]
    f = compare(outputs, inputs_of(outputs), calls)
    assert f.explain().graph_break_count == f.stats.host_regions == 0, f.explain()
    assert f.stats.dynamic_sizes == 1
    assert f.stats.compilations[0] <= 3  # again after a check is false


def check_lengths(name: str) -> None:
    outputs = as_list((GRAPHS | OF_SIZES)[name](X, Y, M, W))
    calls = [values(length, seed, missing=seed % 2 == 1) for seed, length in enumerate(LENGTHS)]
    f = compare(outputs, inputs_of(outputs), calls)
    assert f.explain().graph_break_count == f.stats.host_regions == 0, f.explain()
    assert f.stats.compilations[0] <= 2
    assert f.stats.padded.compilations[0] <= 2 * 2


OFTEN = ("outer", "pairs", "process", "matmul", "differences", "walk", "second_order", "starts")
"""The graphs that are looked at in each run; the others are long."""

NEWEST = pytest.mark.skipif(
    OLD, reason="on this stack the graphs are compared with sizes computed from data"
)


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("name", OFTEN)
def test_of_prefixes(name: str) -> None:
    check_prefixes(name)


@NEWEST
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("name", sorted((GRAPHS | OF_SIZES).keys() - {*OFTEN}))
def test_of_more_prefixes(name: str) -> None:
    check_prefixes(name)


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("name", OFTEN)
def test_of_lengths(name: str) -> None:
    check_lengths(name)


@NEWEST
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("name", sorted((GRAPHS | OF_SIZES).keys() - {*OFTEN}))
def test_of_more_lengths(name: str) -> None:
    check_lengths(name)


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("name", GRAPHS)
def test_of_sizes_computed_from_data(name: str) -> None:
    """No break; and what the rewrites leave has the same values in Python, which finishes calls."""
    total = pt.dvector("total")
    outputs = of_prefixes(name, pt.cast(total.sum(), "int64"))
    inputs = inputs_of(outputs)
    f, rewritten, reference = (
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(), PYTHON.including("jaxlink"), PYTHON)
    )
    assert f.explain().graph_break_count == 0
    for seed, size in enumerate((*SIZES, -2)):
        known = {**values(LENGTH, seed, missing=seed % 2 == 1), total: np.array([size, 0.0])}
        arguments = [known[v] for v in inputs]
        expected = answer(reference, arguments)
        assert_same(answer(f, arguments), expected)
        assert_same(answer(rewritten, arguments), expected)


@pytest.mark.parametrize("of", ["a prefix", "an argument"])
def test_a_loop_that_counts_its_steps(of: str) -> None:
    """The steps that are cut read no entry that is not there: no fallback."""
    part = X[:N] if of == "a prefix" else X
    counted = pytensor.scan(
        lambda i, s, x: s + x[i] * x[i - 1],
        sequences=[pt.arange(part.shape[0])],
        outputs_info=[pt.zeros(())],
        non_sequences=[part],
        return_updates=False,
    )
    inputs = inputs_of(counted)
    calls = [
        {X: np.arange(LENGTH if of == "a prefix" else size, dtype="float64"), N: np.array(size)}
        for size in (3, 5, 7, 2, 4, 9, 1)
    ]
    f = compare(counted, inputs, calls)
    assert f.stats.fallbacks == f.stats.host_regions == 0, f.explain()
    assert sum(f.stats.compilations) <= 2


@pytest.mark.parametrize("name", ["process", "walk", "last_state"])
def test_what_the_user_traces(name: str) -> None:
    """One program for all sizes, also where JAX maps over them, and differentiates."""
    jax.config.update("jax_enable_x64", True)
    known = values(LENGTH, 0, missing=False)
    [out, slope, *_] = of_prefixes(name, N)
    arrays = [v for v in inputs_of([out]) if v is not N]
    arguments = [known[v] for v in arrays]
    reference = pytensor.function([*arrays, N], [out, slope], mode=PYTHON)
    function, place = jaxify([*arrays, N], out), arrays.index(B) if B in arrays else 0
    sizes = np.array([2, 5, 9])
    mapped = jax.jit(jax.vmap(function, (*[None] * len(arrays), 0)))(*arguments, sizes)
    derived = jax.jit(jax.grad(function, argnums=place))
    for size, value in zip(sizes, mapped, strict=True):
        expected = reference(*arguments, size)
        np.testing.assert_allclose(value, expected[0])
        np.testing.assert_allclose(derived(*arguments, size), expected[1], rtol=1e-7)


def test_the_two_sizes_of_a_matrix_are_two() -> None:
    k = pt.lscalar("k")
    total = with_gradient((M[:N, :k] ** 2).sum() + M[N:, :k].mean() * M[:N, 0].sum(), M)
    f, reference = (
        pytensor.function([M, N, k], total, mode=mode) for mode in (JAXLinker(), PYTHON)
    )
    m = values(LENGTH, 0, missing=False)[M]
    for n, other in [(3, 4), (5, 2), (0, 3), (3, 1), (9, 9), (4, 12), (-2, -3)]:
        assert_same(answer(f, [m, n, other]), answer(reference, [m, n, other]))
    assert f.stats.dynamic_sizes == 2
    assert f.stats.compilations == [1]


def test_a_unit_matrix_that_is_longer_than_the_array() -> None:
    """PyTensor decides: its result is as wide as it says."""
    outputs = [pt.eye(N).sum() * X[:N].sum(), (M[:N, :N] + pt.eye(N)).sum()]
    for output in outputs:
        inputs = inputs_of(output)
        calls = [{**values(LENGTH, 0, missing=False), N: np.array(n)} for n in (3, 5, 9, 11, -1, 0)]
        f = compare(output, inputs, calls)
        assert f.stats.dynamic_sizes == 1


def test_what_needs_the_size_keeps_it_static() -> None:
    eigenvalues = pt.linalg.eigvalsh(M[:N, :N] + M[:N, :N].T, None).sum()
    draws = pt.random.normal(X[:N]).sum()
    for output in (eigenvalues, draws):
        f = pytensor.function(inputs_of(output), output, mode=JAXLinker(dynamic=True))
        assert f.stats.dynamic_sizes == f.explain().graph_break_count == 0
        assert f.explain().static_inputs == ("n",)


MASKS = pt.vector("mask", dtype="bool")


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("of_masks", [False, True])
def test_infinities_stay_in_triangular_solutions(lower: bool, of_masks: bool) -> None:
    """Of what is not selected no infinity makes NaN that comes back."""
    taken = MASKS if of_masks else slice(None, N)
    x, y = X[taken], Y[taken]
    factor = cholesky(kernel(x), lower=lower)
    by_factor = pt.linalg.cho_solve((factor, lower), y)
    outputs = [
        pt.isinf(each).sum() + 10 * pt.isnan(each).sum()
        for each in (by_factor, solve_triangular(factor, y, lower=lower))
    ] + [by_factor.sum(), pt.linalg.cho_solve((factor, lower), y[:, None])[0, 0]]
    inputs = [X, Y, MASKS if of_masks else N]
    f, reference = (
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(), PYTHON)
    )
    rng = np.random.default_rng(0)
    for size in (3, 6, 9, 0, 1):
        x, y = rng.normal(size=LENGTH) * 3, rng.normal(size=LENGTH)
        given = rng.permutation(np.arange(LENGTH) < size) if of_masks else size
        assert_same(answer(f, [x, y, given]), answer(reference, [x, y, given]))
        y[size // 2] = np.inf
        assert_same(answer(f, [x, y, given]), answer(reference, [x, y, given]))
    assert f.explain().graph_break_count == f.stats.host_regions == 0


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("of_masks", [False, True])
@pytest.mark.parametrize("checks", ["raise", "ignore"])
@pytest.mark.parametrize(
    "solved", [pt.linalg.solve, lambda a, y: pt.linalg.inv(a) @ y], ids=["solve", "inv"]
)
def test_infinities_stay_in_solutions(of_masks: bool, checks: str, solved: Any) -> None:
    """PyTensor finishes a call in which such a number would come back from other rows."""
    taken = MASKS if of_masks else slice(None, N)
    x, y = X[taken], Y[taken]
    solution = solved(kernel(x) + pt.eye(x.shape[0]) * 2, y)
    inputs = [X, Y, MASKS if of_masks else N]
    f, reference = (
        pytensor.function(inputs, solution, mode=mode)
        for mode in (JAXLinker(dynamic=True, checks=checks), PYTHON)
    )
    rng = np.random.default_rng(0)
    for size in (2, 6, 1):
        x, y = rng.normal(size=LENGTH), rng.normal(size=LENGTH)
        given = rng.permutation(np.arange(LENGTH) < size) if of_masks else size
        for number in (1.0, -np.inf):
            y[np.flatnonzero(given)[0] if of_masks else 0] = number
            assert_same(answer(f, [x, y, given]), answer(reference, [x, y, given]))
    assert f.explain().graph_break_count == f.stats.host_regions == 0


@pytest.mark.parametrize("until", [False, True])
def test_loops_in_which_a_further_step_would_show(until: bool) -> None:
    """A check fails after the last true step, and a loop ends itself."""

    def step(e: Any, s: Any) -> Any:
        s = s + e if until else Assert("positive")(s + e, e > 0)
        return (s, scan_until(s > 2)) if until else s

    trace = pytensor.scan(
        step, sequences=[X[:N]], outputs_info=[pt.zeros(())], return_updates=False
    )
    f, reference = compile_both([X, N], trace.sum(), JAXLinker())
    x = np.array([1.0, 0.5, 0.7, 0.1, -1.0, 3.0])
    for n in (2, 3, 4, 5, 6):
        assert_same(answer(f, [x, n]), answer(reference, [x, n]))


@pytest.mark.skipif(OLD, reason="PyTensor 3.0 itself fails to rewrite the graph")
def test_unsigned_bounds_and_lengths_that_change() -> None:
    """PyTensor has no expression for such a length: int64 less uint64 is a float."""
    start = pt.scalar("start", dtype="uint64")
    slope = pt.grad((X[start:] ** 2).sum(), X)
    f, reference = compile_both([X, start], slope, JAXLinker())
    for length in (3, 4, 3, 7):
        arguments = [np.arange(1.0, length + 1), 2]
        assert_same(answer(f, arguments), answer(reference, arguments))


@pytest.mark.parametrize("of", [lambda: X[X > 0], lambda: X[: pt.cast(Y.sum(), "int64")]])
def test_reductions_of_selected_booleans(of: Callable[[], Any]) -> None:
    chosen = of() > 1
    outputs = [chosen.sum(), chosen.mean(), chosen.prod(), pt.any(chosen), pt.isnan(of()).sum()]
    f, reference = compile_both([X, Y], outputs, JAXLinker())
    assert f.explain().graph_break_count == 0
    for y in ([1.0], [3.0], [2.0]):
        arguments = [np.array([0.5, 2.0, -1.0, np.nan]), np.array(y)]
        assert_same(answer(f, arguments), answer(reference, arguments))


def test_a_selection_is_written_to_all_rows() -> None:
    """There is no bound that a mask could follow."""
    rows = pt.exp(M)[MASKS]
    outputs = [pt.set_subtensor(M[: Y.shape[0]][:, 1:3], rows[:, :2]).sum(), rows.sum()]
    outputs.append(pt.inc_subtensor(pt.outer(Y, Y)[:, 1:3], rows[:, :2]).sum())
    f, reference = compile_both([M, MASKS, Y], outputs, JAXLinker())
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    for count in (3, 4, 3):
        arguments = [matrix, np.arange(4) < count, np.arange(1.0, count + 1)]
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert not f.explain().failures


def test_a_branch_of_two_prefixes_of_one_length() -> None:
    part = X[:N]
    output = pt.exp(ifelse(pt.gt(part.sum(), 0), part * 2, part - 1)).sum()
    f, reference = compile_both([X, N], output, JAXLinker(dynamic=True))
    for length in (5, 0, 3):
        for sign in (1.0, -1.0):
            arguments = [sign * np.arange(1.0, 6), length]
            assert_same(answer(f, arguments), answer(reference, arguments))
    assert f.stats.padded.compilations == [1]
    assert f.explain().graph_break_count == f.stats.host_regions == 0


def test_a_loop_over_a_prefix_in_a_loop() -> None:
    def inner(e: Any, s: Any, scale: Any) -> Any:
        return s * 0.5 + scale * e

    def outer(scale: Any, x: Any) -> Any:
        start = pt.zeros(())
        options = {"non_sequences": [scale], "return_updates": False}
        return pytensor.scan(inner, sequences=[x], outputs_info=[start], **options)[-1]

    output = pytensor.scan(outer, sequences=[Y], non_sequences=[X[:N]], return_updates=False)
    f, reference = compile_both([X, Y, N], output, JAXLinker())
    for length in (5, 1, 3, 2, 4):
        arguments = [np.arange(1.0, 6), np.array([1.0, -2.0]), length]
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert (f.stats.compilations, f.stats.dynamic_sizes) == ([1], 1)
