"""Arguments that no node reads: their shapes select no program, their types are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, load, save
from tests.helpers import PYTHON

X, Y, N = pt.dvector("x"), pt.dvector("y"), pt.lscalar("n")
LENGTHS = [0, 1, 3, 64, 65, 1024, 1025]


def functions(inputs: list[Any], graph: Any, **options: Any) -> tuple[Any, Any]:
    linker: Any = JAXLinker(**options)
    f, reference = (
        pytensor.function(inputs, graph, mode=mode, on_unused_input="ignore")
        for mode in (linker, PYTHON)
    )
    return f, reference


def with_other_lengths(inputs: list[Any], **options: Any) -> Any:
    """The statistics of a function of which one argument is read; the lengths of others change."""
    f, reference = functions(inputs, [pt.exp(X).sum(), X * 2], **options)
    for length in LENGTHS:
        values = [np.arange(3.0) if v is X else np.full(length, np.nan) for v in inputs]
        for found, expected in zip(f(*values), reference(*values), strict=True):
            np.testing.assert_allclose(found, expected)
    assert (f.stats.direct, f.stats.slow_calls) == (len(LENGTHS), 0)
    return f.stats


OTHERS = [[X, Y], [Y, X], [Y, X, Y.type("z")]]


@pytest.mark.parametrize("options", [{}, {"outputs": "numpy"}])
@pytest.mark.parametrize("inputs", OTHERS)
def test_one_program_serves_every_length(inputs: list[Any], options: dict[str, Any]) -> None:
    stats = with_other_lengths(inputs, **options)
    assert (stats.compilations, stats.padded_calls) == ([1], 0)


@pytest.mark.parametrize("inputs", OTHERS)
def test_what_is_not_read_is_not_padded(inputs: list[Any]) -> None:
    stats = with_other_lengths(inputs, dynamic=True)
    assert (stats.compilations, stats.padded.compilations, stats.dynamic_sizes) == ([0], [1], 1)


def test_with_shared_variables_constants_and_conditions() -> None:
    places, unread = pytensor.shared(np.array([0, 2, 1])), pytensor.shared(np.ones(2))
    table = pt.constant(np.arange(1000.0))
    outputs = [X[places] + table[:3], unread.shape[0] * 0]
    f, reference = functions([Y, X], outputs)
    for length in LENGTHS:
        values = [np.ones(length), np.arange(4.0)]
        np.testing.assert_allclose(f(*values)[0], reference(*values)[0])
    assert f.stats.compilations == [1]
    places.set_value(np.array([0, 9, 1]))
    with pytest.raises(IndexError):
        f(np.ones(2), np.arange(4.0))
    places.set_value(np.array([3, 3, 1]))
    np.testing.assert_allclose(f(np.ones(7), np.arange(4.0))[0][0], 3)


def test_beside_an_argument_whose_length_changes() -> None:
    f, reference = functions([X, Y], [pt.arange(Y.shape[0]).sum(), Y * 2])
    for length in LENGTHS:
        values = [np.ones(length), np.arange(2.0 * length)]
        for found, expected in zip(f(*values), reference(*values), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert f.stats.compilations == [1]
    assert f.stats.padded.compilations[0] <= 3  # 1024, 2048, 4096


def test_other_types_and_numbers_of_arguments() -> None:
    f, reference = functions([Y, X, N], X.sum())
    good = np.ones(2), np.ones(3), 4
    assert f(*good) == 3
    for wrong in (
        (np.ones((2, 2)), *good[1:]),
        (np.ones(2, "complex128"), *good[1:]),
        (None, *good[1:]),
        (*good[:2], 1.5),
        good[:2],
        (*good, 1),
        (good[1],),
    ):
        for function in (reference, f):
            with pytest.raises(TypeError):
                function(*wrong)
        assert f(*good) == 3
    assert f([1, 2], np.ones(3), np.int8(1)) == reference([1, 2], np.ones(3), np.int8(1)) == 3


def test_compiled_ahead_and_saved(tmp_path: Path) -> None:
    f, _ = functions([Y, X], pt.exp(X).sum())
    f.compile(np.ones(3), np.ones(2))
    for length in LENGTHS:
        f(np.ones(length), np.zeros(2))
    assert f.stats.compilations == [1]
    save(f, tmp_path / "f")
    loaded = load(tmp_path / "f")
    assert [float(loaded(np.ones(length), np.zeros(2))) for length in LENGTHS] == [2] * 7
    assert loaded.stats.slow_calls == 0
