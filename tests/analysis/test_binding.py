"""Binding times on worked examples, and the checker on right and wrong answers."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.analysis import BindingTime, check_binding_times
from pytensor_jaxlink.ops import Stretched
from tests.helpers import analysed
from tests.partition.graphs import build, random_nodes

X, N = pt.dvector("x"), pt.lscalar("n")


def time_of(output: pt.TensorVariable) -> BindingTime:
    view, _, times = analysed([X, N], [output])
    return times[view.outputs[0]]


@pytest.mark.parametrize(
    ("output", "time"),
    [
        (pt.constant(2) + 3, BindingTime.CONSTANT),
        (X.shape[0], BindingTime.SHAPE),
        (pt.prod(X.shape) // 2, BindingTime.SHAPE),
        (pt.exp(X).shape[0] + 1, BindingTime.SHAPE),
        (pt.tri(X.shape[0]), BindingTime.SHAPE),
        (N, BindingTime.HOST),
        (N // 2 + X.shape[0], BindingTime.HOST),
        (pt.arange(N), BindingTime.HOST),
        (X.sum(), BindingTime.DEVICE),
        (X[:N], BindingTime.DEVICE),
        (N + X.argmax(), BindingTime.DEVICE),
    ],
    ids=str,
)
def test_the_earliest_time(output: pt.TensorVariable, time: BindingTime) -> None:
    assert time_of(output) is time


def test_integer_vectors_are_sizes_and_masks_are_not() -> None:
    sizes, mask, table = pt.lvector("sizes"), pt.vector("mask", dtype="bool"), pt.lmatrix("table")
    view, _, times = analysed([sizes, mask, table], [sizes + 1, ~mask, table + 1])
    assert [times[number] for number in view.outputs] == [
        BindingTime.HOST,
        BindingTime.DEVICE,
        BindingTime.DEVICE,
    ]


def test_a_variable_that_one_node_reads_by_shape_and_by_value_is_read_by_value() -> None:
    y = pt.dvector("y")
    view, facts, _ = analysed([X, y], [Stretched()(X, y), Stretched()(X, X)])
    once, twice = (facts[view.producer[number]] for number in view.outputs)
    assert [view.variables[number] for number in once.shape_only] == [y]
    assert not twice.shape_only


@pytest.mark.parametrize("seed", range(10))
def test_the_checker_accepts_what_the_analysis_finds(seed: int) -> None:
    x, output = build(random_nodes(np.random.default_rng(seed), 12))
    view, _, times = analysed([x], [output])
    check_binding_times(view, times)


@pytest.mark.parametrize("wrong", list(BindingTime))
def test_the_checker_refuses_any_other_time_of_a_node(wrong: BindingTime) -> None:
    view, _, times = analysed([X, N], [N + X.shape[0]])
    number = view.outputs[0]
    if wrong is times[number]:
        return
    mutated = [*times[:number], wrong, *times[number + 1 :]]
    with pytest.raises(AssertionError):
        check_binding_times(view, mutated)
