"""Loops over reversed arrays begin at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink.compat import ifelse
from tests.helpers import check_against_python

X, Y, START = pt.dmatrix("x"), pt.dmatrix("y"), pt.dvector("start")
RNG = np.random.default_rng(0)
VALUES = (RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=3))


def scan(*sequences: Any, step: Any = None) -> Any:
    return pytensor.scan(
        step or (lambda *rows: sum(rows[:-1]) * pt.sin(rows[-1])),
        sequences=list(sequences),
        outputs_info=[START],
        return_updates=False,
    )


LOOPS: dict[str, tuple[Callable[[], Any], list[bool]]] = {
    "backward": (lambda: scan(X[::-1]), [True]),
    "of what follows": (lambda: scan(X[:-1][::-1], Y[1:][::-1]), [True]),
    "of values computed before": (lambda: scan(pt.exp(X[::-1]) * Y[::-1]), [True]),
    "forward": (lambda: scan(X), [False]),
    "every other one": (lambda: scan(X[::-2]), [False]),
    "one of two": (
        lambda: scan(X[::-1], Y, step=lambda x, y, s: pt.sin(s * x) + pt.cos(s * y)),
        [False],
    ),
    "a gradient": (lambda: pytensor.grad((scan(X) ** 2).sum(), X), [False, True]),
    "a gradient of a backward loop": (
        lambda: pytensor.grad((scan(X[::-1]) ** 2).sum(), [X, START]),
        [True, True],
    ),
    "a failing check": (
        lambda: scan(X[::-1], step=lambda row, s: s + pt.sin(s) * row[pt.argmax(row)]),
        [True],
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_order(name: str) -> None:
    outputs, backward = LOOPS[name]
    f = check_against_python([X, Y, START], outputs(), VALUES)
    jaxpr = jax.make_jaxpr(f.jax_fn)(*VALUES)
    found = [equation.params for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    assert [params["reverse"] for params in found] == backward


def test_values_of_one_entry_that_are_computed_before_the_loop() -> None:
    """PyTensor takes them out of the loop, as vectors of no known length."""
    start, bound = pt.dscalar("start"), pt.dscalar("bound")
    rows = pytensor.scan(
        lambda entry, bound: ifelse(entry > bound, pt.tanh(entry), entry * 2),
        sequences=[pt.sin(start)[None] * pt.ones(1)],
        non_sequences=[bound],
        return_updates=False,
    )
    outputs = [rows, pytensor.grad(rows.sum(), start)]
    check_against_python([start, bound], outputs, [1.5, 0.3])
    check_against_python([start, bound], outputs, [1.5, 2.3])
