"""The classes of equal dimensions, what is known of them, and what follows from values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.fg import FunctionGraph
from pytensor.raise_op import Assert
from pytensor.tensor.subtensor import advanced_inc_subtensor

from pytensor_jaxlink import load, save
from pytensor_jaxlink.analysis.extents import measured
from pytensor_jaxlink.analysis.lengths import Lengths
from pytensor_jaxlink.compat import ifelse
from tests.helpers import compile_both, outcome

X, Y, Z = pt.dmatrix("x"), pt.dvector("y"), pt.dvector("z")
ROW, MASK, N = pt.drow("row"), pt.bvector("mask"), pt.lscalar("n")
INPUTS = [X, Y, Z, ROW, MASK, N]
AddRows = OpFromGraph([X, Y], [X + Y[:, None]])


def lengths_of(*outputs: Any, thorough: bool = False) -> Lengths:
    graph = FunctionGraph(INPUTS, outputs, clone=False)
    return Lengths(measured(graph) if thorough else graph, thorough=thorough)


def scan(step: Any, *given: Any, **more: Any) -> Any:
    return pytensor.scan(step, *given, return_updates=False, **more)


SAME: dict[str, Callable[[], Any]] = {
    "a sum": lambda: Y + Z,
    "through transposition and a check": lambda: Assert()(Y, N > 0)[:, None] * Z[:, None],
    "a product": lambda: X @ Y * 2 + X[:, 0] @ (X * Z[:, None]) @ X.T + (X.T @ Z).sum() + (Y * Z),
    "joined beside": lambda: pt.join(1, Y[:, None], Z[:, None]),
    "kept by a reduction": lambda: (Y[:, None] * X).sum(axis=1) + Z,
    "an index": lambda: X[0][pt.cast(Y, "int64")] * Z,
    "batches": lambda: pt.linalg.cholesky(Y[:, None, None] * pt.eye(2)) * Z[:, None, None],
}
THOROUGH: dict[str, Callable[[], Any]] = {
    "the number of steps": lambda: (
        scan(lambda s: s * 0.5, None, [pt.ones(())], n_steps=Y.shape[0]) * Z
    ),
    "inside of a loop": lambda: scan(lambda r, s, z: s + r[0] * z.sum(), [X], [Z], [Y * 1]) + Y,
    "equal slices": lambda: Y[:N] * Z[:N],
    "in a branch": lambda: ifelse(N > 0, Y + Z, Y),
    "read from a shape": lambda: pt.zeros(Y.shape[0]) * pt.ones(Z.shape[-1]),
}
DIFFERENT: dict[str, Callable[[], Any]] = {
    "nothing": lambda: [Y, Z],
    "a row that is stretched": lambda: [ROW + Y[:, None], Z],
    "laid end to end": lambda: pt.concatenate([Y, Z]),
    "contracted with something else": lambda: [Y * 2, Z @ Z],
    "a mask, which may be empty": lambda: Y[pt.eq(Z, 0)],
}


@pytest.mark.parametrize("name", [*SAME, *THOROUGH, *DIFFERENT])
def test_vectors(name: str) -> None:
    made = (SAME | THOROUGH | DIFFERENT)[name]()
    outputs = made if isinstance(made, list) else [made]
    for thorough in (False, True):
        lengths = lengths_of(*outputs, Y * 1, Z * 1, thorough=thorough)
        expected = name in SAME or (thorough and name in THOROUGH)
        assert lengths.same(Y, 0, Z, 0) is expected
        assert lengths.same(Z, 0, Y, 0) is expected
        assert ((Z, 0) in lengths.equal(Y, 0)) is expected


def test_inside_of_inner_graphs() -> None:
    """What a loop and a wrapped graph make equal."""
    states = scan(lambda r, s: pt.tanh(s + r), [X], [pt.zeros(3)])
    assert lengths_of(states, thorough=True).known(X, 1) == 3
    assert lengths_of(states).known(X, 1) is None
    wrapped = AddRows(X, Y)
    assert lengths_of(wrapped, thorough=True).same(X, 0, Y, 0)
    fixed = scan(lambda r, z: (r * z).sum(), [X], None, [Z])
    assert lengths_of(fixed, thorough=True).same(X, 1, Z, 0)


def test_several_graphs() -> None:
    other = [v.type() for v in INPUTS]
    first = FunctionGraph(INPUTS, [Y * 2, Z * 2], clone=False)
    second = FunctionGraph(other, [other[1] + other[2]], clone=False)
    assert not Lengths(first).same(Y, 0, Z, 0)
    assert Lengths(first, second).same(Y, 0, Z, 0)


def test_numbers() -> None:
    lengths = lengths_of(Y * np.ones(4), Z + Y)
    assert lengths.known(Z, 0) == 4
    assert lengths.known(X, 0) is None


IMPLIED: dict[str, tuple[Callable[[], Any], dict[Any, int], int | None]] = {
    "a range": (lambda: pt.arange(N) * Y, {N: 5}, 5),
    "filled": (lambda: pt.zeros(2 * N + 1) * Y, {N: 5}, 11),
    "of nothing": (lambda: pt.arange(N) * Y, {N: -1}, 0),
    "a polynomial": (lambda: pt.ones(3 * N - 2) * Y, {N: 5}, 13),
    "nothing": (lambda: pt.zeros(Z.shape[0] + N) * Y, {N: 5}, None),
}


@pytest.mark.parametrize("name", IMPLIED)
def test_lengths_that_values_imply(name: str) -> None:
    build, values, expected = IMPLIED[name]
    lengths = lengths_of(build(), thorough=True)
    assert lengths.implied(values).get(lengths.root(Y, 0)) == expected


def test_a_length_from_a_difference() -> None:
    rest = Y.shape[0] - N
    lengths = lengths_of(pt.zeros(rest), Y * Z, thorough=True)
    assert lengths.implied({rest: 3, N: 4})[lengths.root(Z, 0)] == 7


@pytest.mark.skipif(
    pytensor.__version__.startswith("3.0"), reason="PyTensor 3.0 refuses the graph in every mode"
)
def test_save_passes_lengths_that_pytensor_refuses(tmp_path: Path) -> None:
    x, n = pt.dvector("x"), pt.scalar("n", dtype="uint64")
    f = pytensor.function([x, n], x[n:] * 2, mode="JAXSELECTIVE")
    expected = f(np.arange(5.0), np.uint64(2))
    save(f, tmp_path / "f")
    np.testing.assert_array_equal(load(tmp_path / "f")(np.arange(5.0), np.uint64(2)), expected)


def test_a_mask_beside_an_index_of_a_vector() -> None:
    """Two indices of one axis: each call raises, and so does the one that looks for lengths."""
    mask, places = pt.vector("mask", dtype="bool"), pt.vector("places", dtype="uint16")
    more = advanced_inc_subtensor(places, np.array(1, "uint16"), mask)
    wrong = advanced_inc_subtensor(mask, np.array(True), more, mask)
    pair = compile_both([mask, places], [wrong, pt.eq(places, mask), places[1]])
    for length, expected in ((2, ValueError), (1, IndexError), (3, IndexError)):
        arguments = [np.ones(3, "bool"), np.ones(length, "uint16")]
        assert [outcome(function, *arguments) for function in pair] == [expected] * 2
