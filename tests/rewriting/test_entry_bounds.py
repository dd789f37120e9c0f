"""Lengths that are the largest of computed numbers, as that of `bincount` is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from tests.helpers import assert_same, assert_same_outcomes, compile_both

D, Y = pt.dmatrix("d"), pt.dvector("y")
NEAREST = pt.argmin(D, axis=1)
COUNTS = pt.bincount(NEAREST)
CHANCES = COUNTS / NEAREST.shape[0]

NO_BREAK: dict[str, Callable[[], Any]] = {
    "returned": lambda: COUNTS,
    "sum": lambda: pt.exp(COUNTS).sum(),
    "with weights": lambda: pt.bincount(NEAREST, weights=D[:, 0]),
    "means of groups": lambda: (
        pt.bincount(NEAREST, weights=D[:, 0], minlength=2)
        / pt.maximum(pt.bincount(NEAREST, minlength=2), 1)
    ),
    "entry": lambda: pt.exp(COUNTS)[0],
    "the most frequent": lambda: COUNTS.argmax(),
    "entropy": lambda: (CHANCES * pt.log(CHANCES + 1e-9)).sum(),
    "running sum": lambda: COUNTS.cumsum()[-1],
    "of remainders": lambda: pt.bincount(pt.argsort(Y) % 3).argmax(),
    "of clipped numbers": lambda: pt.exp(pt.bincount(pt.clip(Y, 0, 7).astype("int64"))).sum(),
    "of places in sorted numbers": lambda: (
        pt.bincount(pt.searchsorted(pt.sort(Y), D[:, 0])) ** 2
    ).sum(),
    "of joined labels": lambda: (pt.bincount(pt.concatenate([NEAREST, NEAREST[:2]])) ** 2).sum(),
    "of pairs": lambda: pt.exp(
        pt.bincount(3 * pt.minimum(pt.argmin(D[:, :2], axis=1), 1) + NEAREST)
    ).sum(),
    "sum of two places": lambda: pt.zeros(Y.argmax() + Y.argmin()) + Y.max(),
    "size of a size": lambda: pt.zeros(Y.argmax() + Y[: Y.argmax()].shape[0]) + Y.max(),
    "place of a single number": lambda: pt.zeros(pt.argmax(Y[0]) + Y.argmax()) + Y.max(),
    "of booleans": lambda: (pt.bincount((D[:, 0] > 0).astype("int64")) ** 2).sum(),
}
rng = np.random.default_rng(2)
CALLS = [
    (rng.normal(size=(20, 4)), rng.uniform(0, 9, size=7)),
    (rng.normal(size=(20, 4)), rng.uniform(0, 9, size=7)),
    (np.ones((5, 2)), np.zeros(3)),
    (np.ones((5, 4)), np.array([0.5])),
]


@pytest.mark.parametrize("name", NO_BREAK)
def test_a_length_with_a_bound_is_a_mask(name: str) -> None:
    ours, python = compile_both([D, Y], NO_BREAK[name]())
    assert_same_outcomes(ours, python, CALLS)
    explained = ours.explain()
    assert (explained.graph_break_count, ours.stats.fallbacks) == (0, 0), explained


def test_the_explanation_names_it() -> None:
    ours, _ = compile_both([D], pt.exp(COUNTS).sum())
    assert "a computed length with a known bound became a mask" in str(ours.explain())


def test_no_labels() -> None:
    ours, python = compile_both([D, Y], COUNTS)
    assert_same_outcomes(ours, python, [CALLS[0], (np.ones((0, 3)), np.ones(2))])


def test_labels_below_zero_count_from_the_end() -> None:
    ours, python = compile_both([D, Y], pt.exp(pt.bincount(NEAREST - 1)).sum())
    assert_same_outcomes(ours, python, CALLS)


@pytest.mark.parametrize(
    "length",
    [
        lambda k: pt.clip(k + 2, 0, 10**12),
        lambda k: pt.minimum(k + 2, 10**12),
    ],
)
def test_a_bound_too_large_for_memory(length: Callable[[Any], Any]) -> None:
    """An array of the bound would not be there."""
    zeros = pt.zeros(length(pt.argsort(Y)[0]))
    ours, python = compile_both([Y], pt.exp(zeros + Y[0]).cumsum()[1])
    for _, values in CALLS[:2]:
        assert_same(ours(values), python(values))


def test_a_bound_of_entries_is_none_of_their_sum() -> None:
    total = pt.minimum(pt.argsort(Y), 3).sum()
    ours, python = compile_both([Y], pt.exp(pt.zeros(total) + Y[0]).cumsum()[-1])
    for _, values in CALLS[:2]:
        assert_same(ours(values), python(values))
    assert ours.stats.fallbacks == 0


def test_groups_of_a_gradient() -> None:
    """The gradient reads the labels, and goes through the weights alone."""
    groups = pt.bincount(NEAREST, weights=D[:, 0], minlength=3)
    ours, python = compile_both([D], pytensor.grad((groups**2).sum(), D))
    for values, _ in CALLS:
        assert_same(ours(values), python(values))
    assert ours.explain().graph_break_count == 0


@pytest.mark.parametrize("options", [{}, {"checks": "ignore"}, {"dynamic": True}], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_numbers_up_to_a_negative_one_are_none(dtype: str, options: dict[str, Any]) -> None:
    x = pt.dvector("x")
    number = pt.cast(x[0], dtype)
    outputs = [
        pt.arange(number) * 2,
        pt.arange(2, pt.clip(number, -5, 5)),
        pt.arange(x.argmax() - 2),
    ]
    f = pytensor.function([x], outputs, mode=JAXLinker(**options))
    for first in (3.0, 0.0, -1.0, -4.0):
        assert [len(each) for each in f([first, 1.0])] == [max(first, 0), max(first - 2, 0), 0]


def test_a_number_that_is_taken_away_may_be_negative() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.ones(x.argmax() - pt.cast(x[0], "int64")), mode="JAXSELECTIVE")
    assert [len(f([first, 1.0])) for first in (-3.0, 0.0, -1.0)] == [4, 1, 2]
