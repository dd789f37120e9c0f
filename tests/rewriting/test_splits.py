"""Parts of computed lengths: the gradient of what joins prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXFunction
from tests.helpers import assert_same, compile_both

Y = np.random.default_rng(0).normal(size=40)
A, T = pt.dvector("a"), pt.lscalar("t")
LEVELS = pt.concatenate([pt.full((T,), A[0]), pt.full((40 - T,), A[1])])
DENSITY = -((Y - LEVELS) ** 2).sum()


def test_a_change_point_and_its_gradient_are_one_program() -> None:
    """PyMC samples it so: each place of the change was a compilation."""
    ours, python = compile_both([A, T], [DENSITY, pytensor.grad(DENSITY, A)])
    for place in range(12, 34):
        found, expected = (f(np.array([1.0, 2.0]), place) for f in (ours, python))
        assert_same(found, expected)
    assert sum(ours.stats.compilations) == 1
    assert (ours.stats.dynamic_sizes, ours.stats.fallbacks) == (1, 0)
    for place in (0, 40):
        found, expected = (f(np.array([1.0, 2.0]), place) for f in (ours, python))
        assert_same(found, expected)


def test_three_parts() -> None:
    whole, other = pt.dvector("x"), pt.lscalar("u")
    parts = pt.split(whole, [T, other, whole.shape[0] - T - other], n_splits=3)
    outputs = [pt.exp(part).sum() * (k + 1) for k, part in enumerate(parts)]
    ours, python = compile_both([whole, T, other], outputs)
    for one, two in ((3, 4), (5, 2), (0, 7), (9, 0), (10, 30), (2, 2)):
        assert_same(ours(Y, one, two), python(Y, one, two))
    assert sum(ours.stats.compilations) <= 2


@pytest.mark.parametrize("wrong", [(30, 20), (-1, 41), (10, 10)])
def test_lengths_that_are_not_the_whole(wrong: tuple[int, int]) -> None:
    whole, lengths = pt.dvector("x"), pt.lvector("lengths")
    parts = pt.split(whole, [lengths[0], lengths[1]], n_splits=2)
    ours, python = compile_both([whole, lengths], [pt.exp(part).sum() for part in parts])
    for one in ((10, 30), (11, 29), (12, 28)):
        assert_same(ours(Y, np.array(one)), python(Y, np.array(one)))
    for function in (ours, python):
        with pytest.raises(ValueError):  # noqa: PT011 -- the text is PyTensor's
            function(Y, np.array(wrong))


def test_a_length_that_is_negative_for_each_call() -> None:
    """PyTensor declares it."""
    x = pt.dvector("x")
    one = x[T : T + 2].sum()[None] * 2
    parts = pt.split(one, [2, one.shape[0] - 2], n_splits=2)
    for function in compile_both([x, T], parts[1]):
        with pytest.raises(ValueError):  # noqa: PT011 -- the text is PyTensor's
            function(Y, 1)
        if isinstance(function, JAXFunction):
            assert not function.explain().failures


def test_lengths_from_data() -> None:
    x: Any = pt.dmatrix("x")
    count = (x[:, 0] > 0).sum()
    parts = pt.split(x, [count, x.shape[0] - count], n_splits=2, axis=0)
    ours, python = compile_both([x], [pt.exp(part).sum(axis=0) for part in parts])
    for seed in range(3):
        values = np.random.default_rng(seed).normal(size=(20, 3))
        assert_same(ours(values), python(values))
    assert ours.explain().graph_break_count == 0
    assert ours.stats.fallbacks == 0


def test_parts_that_are_needed_as_they_are_stay_one_split() -> None:
    x = pt.dvector("x")
    count = pt.cast(pt.exp(x[0]), "int64")
    parts = pt.split(x, [count, x.shape[0] - count], n_splits=2)
    f = pytensor.function(
        [x], pt.outer(parts[0], parts[1]), mode="JAXSELECTIVE", on_unused_input="ignore"
    )
    assert f.explain().graph_break_count == 1
    assert f(np.arange(5.0)).shape == (1, 4)
