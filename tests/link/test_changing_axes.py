"""Arrays of which several lengths change: the padded ones stay small."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from tests.helpers import black_box, compile_both, sort_down

_MOST = 2_000_000
"""Entries of a padded argument, or computed by a padded program."""

GRAPHS: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda x: x * 2,
    "sum": lambda x: (x * x).sum(axis=0),
    "an entry": lambda x: x[(0,) * x.ndim] * 2,
    "a few entries": lambda x: x[(slice(2), *[0] * (x.ndim - 1))] + 1,
    "an index known late": lambda x: x[(x > 9).sum() % x.shape[0]].sum(axis=-1),
    "selected": lambda x: x[x[(slice(None), *[0] * (x.ndim - 1))] > 0].sum(),
    "largest": lambda x: x - x.max(axis=(0, 1), keepdims=True),
    "on the host": lambda x: black_box(sort_down)(x.flatten()) * 2,
}


def _shapes(ndim: int, longest: int = 6) -> Sequence[Sequence[int]]:
    return np.random.default_rng(ndim).integers(1, longest, size=(6, ndim)).tolist()


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("ndim", "dynamic"), [(3, "auto"), (4, True), (6, "auto")])
def test_every_axis_changes(ndim: int, name: str, dynamic: Any) -> None:
    x = pt.TensorType("float64", (None,) * ndim)("x")
    f, reference = compile_both([x], GRAPHS[name](x), JAXLinker(dynamic=dynamic))
    for shape in _shapes(ndim):
        given = np.arange(float(np.prod(shape))).reshape(shape) + 1
        np.testing.assert_allclose(f(given), reference(given), rtol=1e-13)
    padded = f.vm.compiled.changing._padded
    assert padded is None or getattr(padded.executor, "entries", 0) < 5 * _MOST


def test_small_matrices_that_multiply_their_lengths() -> None:
    matrices, kron = pt.dmatrices("a", "b", "c"), pt.linalg.kron
    a, b, c = matrices
    f, reference = compile_both(matrices, kron(kron(a, b), c).sum())
    rng = np.random.default_rng(1)
    for lengths in rng.integers(2, 5, size=(6, 3, 2)):
        given = [rng.normal(size=each) for each in lengths]
        np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-10)


def test_arrays_of_four_axes_share_a_program() -> None:
    x = pt.dtensor4("x")
    f, reference = compile_both([x], (x * 2).sum(axis=-1))
    for shape in _shapes(4, 16):
        given = np.arange(float(np.prod(shape))).reshape(shape)
        np.testing.assert_allclose(f(given), reference(given))
    assert f.stats.padded.compilations == [1]
    assert f.vm.compiled.changing._padded.executor.entries < _MOST


OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": lambda x, y: x * 2,
    "an entry": lambda x, y: x[0, 0, 0, 0] + y.sum(),
    "beside a vector": lambda x, y: (x.sum(axis=0) * 2, y * 2),
    "after a step on the host": lambda x, y: black_box(sort_down)(x.flatten()) * 2,
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("dynamic", ["auto", True])
def test_an_axis_changes_after_the_others(name: str, dynamic: Any) -> None:
    """The buckets that suited an empty array, or a short one, are far too long for it then."""
    x, y = pt.dtensor4("x"), pt.dvector("y")
    graph = OTHERS[name](x, y)
    f, reference = compile_both([x, y], graph, JAXLinker(dynamic=dynamic))
    for length in (0, 1):
        for shape in ((length, 1, 5, 5), (length, 4, 1, 0), (5, 3, 3, 2), (4000, 2, 2, 3)):
            given = np.arange(float(np.prod(shape))).reshape(shape) + 1, np.arange(shape[1] + 1.0)
            if 0 in shape and name == "an entry":
                continue
            for ours, theirs in zip(
                *[v if isinstance(v, list) else [v] for v in (f(*given), reference(*given))],
                strict=True,
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_programs_of_lengths_that_are_not_padded() -> None:
    """Each of them has buckets that suit what is computed for it."""
    x, y = pt.dvectors("x", "y")
    # The length of the other vector cannot be padded: it is the length of a sample.
    f, reference = compile_both(
        [x, y], (x[:, None] * pt.linalg.eigvalsh(pt.outer(y, y), None)).sum()
    )
    for n, m in ((3, 2), (4, 2), (5, 2), (6, 2), (6, 30), (7, 30), (9, 2)):
        given = np.arange(1.0, n + 1), np.linspace(1, 2, m)
        np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-12)


def test_many_lengths_that_are_not_padded() -> None:
    """Beyond some of them nothing is traced for one more: it would take longer than the call."""
    x, m = pt.dvector("x"), pt.dmatrix("m")
    singular = pt.linalg.svd(m, compute_uv=False).sum()
    f, reference = compile_both([x, m], x.sum() * singular, JAXLinker(recompile_limit=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(1, 80):
            given = np.arange(1.0, 5 + k % 7), np.eye(k)
            np.testing.assert_allclose(f(*given), reference(*given))
        traced = f.vm.compiled.executor._suited
        assert len(traced) <= 64
        assert f.vm.compiled.executor._unsuited.padding.work is None
