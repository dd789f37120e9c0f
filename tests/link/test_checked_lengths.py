"""Lengths with checks, once they are data: what is made of that length has the check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.raise_op import Assert

from pytensor_jaxlink import JAXLinker, NotJittableError, jaxify
from tests.helpers import compile_both
from tests.link.test_dynamic_sizes import answer, assert_same

X, Y, M, K = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m"), pt.lscalar("k")
J = pt.lvector("i")


def _few(length: Any) -> Any:
    return Assert("few")(length, length < 4)


# A length with a check, what is as long, and whether the length of x is all that decides.
CHECKED: dict[str, tuple[Any, Any, bool]] = {
    "an argument": (_few(K), X[:K], False),
    "more than an argument": (_few(K) + 1, X[: K + 1], False),
    "of a mask": (_few((X > 0).sum()), X[X > 0], True),
    "of two arrays": (pt.eq(X, Y).shape[0], X, True),
    "equal to another": (Assert("eq")(X.shape[0], pt.eq(X.shape[0], Y.shape[0])), X, True),
}
GRAPHS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "zeros": lambda n, x: [pt.zeros(n), x],
    "multiplied": lambda n, x: [pt.ones(n) * x],
    "range": lambda n, x: [pt.arange(n), x.sum()],
    "range multiplied": lambda n, x: [(pt.arange(n) * x).sum()],
    "unit matrix": lambda n, x: [pt.eye(n).sum(axis=0), x],
    "repeated": lambda n, x: [pt.alloc(x, 2, n), pt.zeros((n, n)).sum()],
    "room": lambda n, x: [pt.set_subtensor(pt.empty((n,))[:], 1.0), x],
    "reshaped": lambda n, x: [x.reshape((n,)), x.reshape((n, 1))],
    "loop": lambda n, x: [
        pytensor.scan(
            lambda s: s + 1, outputs_info=[pt.zeros(())], n_steps=n, return_updates=False
        ),
        x.sum(),
    ],
}


@pytest.mark.parametrize("length", CHECKED)
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_check_of_a_length_that_has_become_data(graph: str, length: str) -> None:
    checked, like, of_x = CHECKED[length]
    f, reference = compile_both([X, Y, K], GRAPHS[graph](checked, like), JAXLinker())
    sizes = (5, 5, 3), (6, 5, 2), (7, 7, 3), (7, 6, 5), (8, 8, 1), (9, 2, 3), (4, 4, 4)
    for n, m, k in sizes:
        arguments = np.linspace(-1, 2, n), np.ones(m), 0 if of_x else k
        assert_same(answer(f, arguments), answer(reference, arguments))


EMPTY: dict[str, Any] = {
    "beside a literal length": M.reshape((M.size, (X > 0).sum())),
    "reduced": M.reshape((M.size, 2, (X > 0).sum())).sum(axis=0),
    "beside a computed length": M.reshape(
        (M.size, (pt.set_subtensor(J[1:], J[:-1]) > 0).sum(), (X > 0).sum())
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_length_that_does_not_follow_from_an_array_of_nothing(name: str) -> None:
    """PyTensor reads it from the data; where JAX traces them nobody knows it."""
    inputs, output = [X, J, M], EMPTY[name]
    f, reference = compile_both(inputs, output)
    for x in (np.ones(3), -np.ones(3), np.array([1.0, -1.0, 2.0])):
        arguments = x, np.ones(4, int), np.zeros((0, 0))
        assert_same(answer(f, arguments), answer(reference, arguments))
    run = jaxify(inputs, output)
    with pytest.raises(NotJittableError, match="does not follow"):
        jax.jit(lambda x: run(x, np.ones(4, int), np.zeros((0, 0))))(np.ones(3))


B, OK = pt.vector("b", dtype="bool"), X.sum() > 0
# Selections of which something is checked before they are there.
SELECTED: dict[str, Any] = {
    "mask": X[B],
    "increased": X[B] + Y,
    "checked": Assert("sum")(X, OK)[X > 0],
    "checked mask": X[Assert("sum")(X > 0, OK)],
    "entries": X[J][X[J] > 0],
    "entries of a mask": pt.exp(X[B])[J],
    "part": X[J][: (X > 0).sum()],
    "places": pt.nonzero(X[J] > 0)[0],
    "distinct": pt.unique(X[J]),
    "rows": M[B],
    "set": pt.set_subtensor(X[B], Y[B]),
}
MEASURED: dict[str, Callable[[Any], Any]] = {
    "shape": lambda v: v.shape,
    "zeros": lambda v: pt.zeros(v.shape[0]),
    "part": lambda v: X[: v.shape[0]].sum(),
}


@pytest.mark.parametrize("measured", MEASURED)
@pytest.mark.parametrize("selected", SELECTED)
def test_the_length_of_a_selection_needs_the_selection(selected: str, measured: str) -> None:
    """Without PyTensor's rewrites, which take the length of the mask."""
    inputs, output = [X, B, J, M, Y], MEASURED[measured](SELECTED[selected])
    f, reference = (
        pytensor.function(inputs, output, mode=Mode(linker, None), on_unused_input="ignore")
        for linker in (JAXLinker(), "py")
    )
    mask, places, rows = np.array([True, False, True]), np.array([0, 1, 2]), np.ones((3, 2))
    for x, b, j, m, y in (
        ([1, -2, 3], mask, places, rows, [1, 2, 3]),
        ([1, -2, 3], [*mask, True], places, rows, [1, 2, 3]),
        ([1, -2, 3], mask, [0, 7, 0], rows, [1, 2]),
        ([-1, -2, 1], mask, [0, -9, 0], rows, [1]),
        ([1, -2, 3, 4], [*mask, True], [3, 1], np.ones((4, 1)), [1, 2, 3]),
    ):
        arguments = np.array(x, float), np.array(b), np.array(j), m, np.array(y, float)
        assert_same(answer(f, arguments), answer(reference, arguments))
