"""Slices of a length that does not depend on where they begin."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.analysis.polynomials import Polynomials, constant_value, difference
from pytensor_jaxlink.rewriting.dynamic_slices import rewrite_dynamic_slices
from tests.helpers import compile_both

X, Y, M = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m")
AT, SIZE = pt.lscalar("at"), pt.lscalar("size")
K = pt.cast(X[0], "int64")  # known only when the data are
INPUTS = [X, Y, M, AT, SIZE]


def scan(step: Any, **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


BY_DATA = {
    "taken": lambda: X[K : K + 3],
    "before": lambda: X[K - 1 : K + 2] * 2,
    "columns": lambda: M[:, K : K + 2].sum(axis=0),
    "of a row": lambda: M[AT, K : K + 2],
    "set": lambda: pt.set_subtensor(X[K : K + 2], 1.0),
    "increased": lambda: pt.inc_subtensor(X[K : K + 2], Y[:2]),
    "increased in a row": lambda: pt.inc_subtensor(M[AT, K : K + 2], [1.0, 2.0]),
    "two": lambda: X[K : K + 2] - Y[K : K + 2],
    "gradient": lambda: pytensor.grad((X[K : K + 3] ** 2).sum(), X),
    "gradient of a row": lambda: pytensor.grad((M[AT, K : K + 2] ** 2).sum(), M),
    "scaled": lambda: X[2 * (K + 1) - 3 : K + K + 1],
}
BY_INPUT = {
    "batch": lambda: X[AT * SIZE : (AT + 1) * SIZE],
    "next": lambda: X[AT : AT + 3] * 2,
    "batch gradient": lambda: pytensor.grad((X[AT : AT + 3] ** 2).sum(), X),
    "block": lambda: M[AT : AT + 2, AT : AT + 3],
    "batch set": lambda: pt.set_subtensor(X[AT : AT + 2], 0.0),
}


def outcome(function: Any, *arguments: Any) -> Any:
    try:
        return np.asarray(function(*arguments))
    except (ValueError, IndexError) as error:
        return type(error)


@pytest.mark.parametrize("name", [*BY_DATA, *BY_INPUT])
def test_the_same_values(name: str) -> None:
    f, reference = compile_both(INPUTS, (BY_DATA | BY_INPUT)[name]())
    assert f.explain().graph_break_count == 0
    assert bool(f.explain().rewritten) is (name in BY_DATA)
    rng = np.random.default_rng(0)
    for start in range(-8, 9):
        x, y, m = rng.normal(size=6), rng.normal(size=6), rng.normal(size=(3, 6))
        x[0] = start
        arguments = x, y, m, start // 2, abs(start) % 4
        found, expected = outcome(f, *arguments), outcome(reference, *arguments)
        if isinstance(expected, type):
            assert found is expected
        else:
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected)


def test_one_compilation_for_all_beginnings() -> None:
    f, reference = compile_both([X], pytensor.grad((X[K : K + 3] ** 2).sum(), X))
    for start in range(4):
        x = np.array([start, 1.0, 2, 3, 4, 5, 6])
        np.testing.assert_allclose(f(x), reference(x))
    assert f.stats.compilations == [1]
    assert f.stats.fallbacks == 0


def test_batches_are_compiled_for_their_lengths() -> None:
    f, reference = compile_both([X, AT], (X[AT * 4 : (AT + 1) * 4] ** 2).sum())
    x = np.arange(18.0)
    for batch in range(5):
        np.testing.assert_allclose(f(x, batch), reference(x, batch))
    assert f.stats.compilations == [2]  # of 4, and the last of 2
    assert f.explain().static_inputs == ("at",)


LOOPS = {
    "lags": lambda t, x: x[t : t + 3].sum(),
    "batches": lambda t, x: x[t * 2 : (t + 1) * 2],
    "prefixes": lambda t, x: x[: t + 1].sum(),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("steps", ["literal", "input"])
def test_in_loops(name: str, steps: str) -> None:
    times = pt.arange(3) if steps == "literal" else pt.arange(AT)
    f, reference = compile_both([X, AT], scan(LOOPS[name], sequences=[times], non_sequences=[X]))
    x = np.arange(1.0, 8.0)
    np.testing.assert_allclose(f(x, 3), reference(x, 3))
    assert f.explain().graph_break_count == 0
    assert f.stats.fallbacks == 0


KEPT = {
    "two ends": lambda: X[K : K + pt.cast(X[1], "int64")].cumsum()[:, None] * Y,
    "a prefix that is returned": lambda: X[:K, None] * Y,
    "by steps backward": lambda: pt.exp(X[K + 4 : K : -2]),
}


@pytest.mark.parametrize("name", KEPT)
def test_where_it_must_not_fire(name: str) -> None:
    f = pytensor.function(INPUTS, KEPT[name](), mode="JAXSELECTIVE", on_unused_input="ignore")
    assert f.explain().graph_break_count > 0
    assert f.explain().rewritten == ()


def test_literal_bounds_are_left_alone() -> None:
    f = pytensor.function([X], X[1:4] * 2, mode="JAXSELECTIVE")
    assert not any("DynamicSlice" in operation for operation in f.plan.regions[0].operations)


def test_it_can_be_turned_off() -> None:
    mode = get_mode("JAXSELECTIVE").excluding("jaxlink_windows", "jaxlink_masks")
    f = pytensor.function([X], X[K : K + 3].sum(), mode=mode)
    assert f.explain().graph_break_count == 1
    loop = scan(LOOPS["lags"], sequences=[pt.arange(3)], non_sequences=[X])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert pytensor.function([X], loop, mode=mode).explain().graph_break_count == 1


def test_the_graph_before_and_after() -> None:
    fgraph = FunctionGraph([X], [X[K : K + 3] * 2], clone=True)
    rewrite_dynamic_slices(fgraph)
    once = [str(node.op) for node in fgraph.toposort()]
    assert "DynamicSlice{axis=0, exact=False}" in once
    assert not any(op.startswith("Subtensor{start") for op in once)
    rewrite_dynamic_slices(fgraph)
    assert [str(node.op) for node in fgraph.toposort()] == once


def test_polynomials() -> None:
    terms = Polynomials()
    [left, right] = (terms.of(v) for v in ((AT + 1) * SIZE, SIZE * AT))
    assert terms.atoms_of(difference(left, right)) == {SIZE}
    assert constant_value(difference(terms.of(2 * (AT - 3)), terms.of(AT + AT))) == -6
    assert constant_value(difference(terms.of(AT), terms.of(SIZE))) is None
    expression = terms.expression(terms.of((AT - 2) * (SIZE + 1)))
    assert expression.eval({AT: 5, SIZE: 3}) == 12


SELECTIONS = {
    "a prefix": lambda: X[: X.shape[0] - 1],
    "a mask": lambda: X[X > 0],
    "rows": lambda: M[Y > 0],
}
TAKEN = {
    "taken": lambda part: part[K : K + 2],
    "from the end": lambda part: part[K - 2 : K].sum(axis=0),
    "set": lambda part: pt.set_subtensor(part[K : K + 2], 7.0),
    "increased": lambda part: pt.inc_subtensor(part[K : K + 2], 1.5).sum(),
}


@pytest.mark.parametrize("part", SELECTIONS)
@pytest.mark.parametrize("name", TAKEN)
def test_slices_of_selections(part: str, name: str) -> None:
    """The lengths change, too; no slice lies in the shortest arrays."""
    output = TAKEN[name](SELECTIONS[part]())
    f, reference = compile_both(INPUTS, output, JAXLinker(dynamic=True))
    for length in (7, 1, 70, 2):
        data = np.random.default_rng(length).normal(size=length)
        for at in (0.0, length - 2.0, length - 1.0, -3.0):
            given = np.r_[at, data[1:]], data, data[:, None] * [1.0, 2.0], 0, 1
            found, expected = outcome(f, *given), outcome(reference, *given)
            assert isinstance(found, type) == isinstance(expected, type)
            if isinstance(found, type):
                assert found is expected
            else:
                np.testing.assert_allclose(found, expected)
    assert f.stats.failures == 0


def test_rows_of_a_value_for_rows_of_a_mask() -> None:
    """They are as many as the mask selects, not as many as the array has."""
    value, columns = pt.dmatrix("value"), pt.dvector("columns")
    part = M[Y > 0][:, columns > 0]
    output = pt.set_subtensor(part[:, K : K + 2], value)
    f, reference = compile_both([X, Y, M, value, columns], output, JAXLinker(dynamic=True))
    for mask in ([1.0, -1.0, 1.0], [1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, -1.0]):
        rows = sum(entry > 0 for entry in mask)
        whole, block = np.zeros((len(mask), 5)), np.full((rows, 2), 7.0)
        given = np.ones(1), np.array(mask), whole, block, np.array([1.0, -1, 1, 1, 1])
        np.testing.assert_array_equal(f(*given), reference(*given))
    assert (f.stats.failures, f.stats.fallbacks) == (0, 0)


def test_one_program_for_all_lengths() -> None:
    f, reference = compile_both([X], X[K : K + 2].prod())
    for length in (7, 9, 30, 11, 8):
        given = np.arange(1.0, length + 1)
        np.testing.assert_allclose(f(given), reference(given))
    assert (f.stats.compilations, f.stats.padded.compilations) == ([1], [1])


def test_an_array_that_is_too_short_is_no_failure_of_jax() -> None:
    """Its call is finished by PyTensor, and those of longer ones stay in the region."""
    k = pt.cast(Y.sum(), "int64")
    f, reference = compile_both([X, Y], X[k : k + 2].prod(), JAXLinker(dynamic=False))
    for length in (0, 1, 7, 1, 7):
        given = np.arange(1.0, length + 1), np.zeros(3)
        np.testing.assert_allclose(f(*given), reference(*given))
    assert (f.stats.failures, f.stats.fallbacks, f.stats.host_steps) == (0, 3, 0)
    assert f.explain().graph_break_count == 0


@pytest.mark.parametrize("write", [pt.set_subtensor, pt.inc_subtensor])
@pytest.mark.parametrize("options", [{"dynamic": False}, {}])
def test_a_value_that_fits_a_shorter_slice_is_no_failure_of_jax(
    write: Any, options: dict[str, Any]
) -> None:
    """It is written where the slice is cut by the end of the array, and refused elsewhere."""
    parts = pt.dvector("parts")
    k = pt.cast(parts.sum(), "int64")
    f, reference = compile_both([X, Y, parts], write(X[k : k + 2], Y), JAXLinker(**options))
    whole = np.arange(1.0, 8.0)
    for arguments in (
        (whole, whole[:2], [3, 0]),
        (whole, whole[:0], [7, 0]),
        (whole[:0], whole[:0], [0, 0]),
        (whole, whole[:1], [6, 0]),
        (whole, whole[:1], [2, 0]),
        (whole[:3], whole[:2], [1, 0]),
    ):
        np.testing.assert_array_equal(f(*arguments), reference(*arguments))
    for value in (whole[:0], whole[:3]):
        assert {outcome(each, whole, value, [3, 0]) for each in (f, reference)} == {ValueError}
    assert f.stats.failures == f.stats.host_steps == 0
    assert f.explain().graph_break_count == 0


def test_what_fails_after_a_slice_that_is_too_short_is_not_recorded() -> None:
    """Another operation asks for the length that the slice would have had."""
    k = pt.cast((X > 0).sum(), "int64")
    window = X[k : k + 2]
    product = pt.outer(window, window)
    f, reference = compile_both([X], pt.tril(product), JAXLinker(dynamic=False))
    for x in (np.arange(-4.0, 5.0), np.zeros(1), np.arange(-4.0, 5.0), -np.ones(1)):
        np.testing.assert_array_equal(f(x), reference(x))
    assert f.stats.failures == 0
    assert not f.explain().failures


ENDS = {
    "places": lambda w: pt.arange(w.shape[0]) * w,
    "ramp": lambda w: pt.tri(w.shape[0], w.shape[0]) @ w,
    "triangle": lambda w: pt.tril(pt.outer(w, w)),
    "ones": lambda w: pt.concatenate([pt.ones(w.shape[0]), w]),
}


@pytest.mark.parametrize("dynamic", [False, "auto"])
@pytest.mark.parametrize("name", ENDS)
def test_the_length_of_a_slice_is_read_from_it(name: str, dynamic: Any) -> None:
    """Also where PyTensor's rewrites have given the expression of the length another form."""
    k = (X > 0).sum()
    f, reference = compile_both([X], ENDS[name](X[k : k + 2]), JAXLinker(dynamic=dynamic))
    assert f.explain().graph_break_count == 0
    for length, positive in [(5, 1), (5, 3), (7, 6), (5, 5), (7, 2), (1, 0), (9, 3), (9, 8)]:
        x = np.where(np.arange(length) < positive, 1.0, -1.0) * np.arange(1.0, length + 1)
        np.testing.assert_array_equal(f(x), reference(x))
    assert (f.stats.failures, f.stats.host_steps, f.explain().failures) == (0, 0, ())
