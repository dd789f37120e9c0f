"""Values that XLA would compute again and again get an optimization barrier, and no others."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.lowering.barriers import barriers_of, small_barriers_of
from tests.helpers import check_against_python

X = pt.dvector("x")


def chain(length: int) -> Any:
    value = X
    for _ in range(length):
        value = pt.tanh(value) * pt.cos(value)
    return value


def barriers(*outputs: Any) -> int:
    view = GraphView.of(FunctionGraph([X], list(outputs), clone=True))
    return len(barriers_of(view, range(len(view.nodes))))


def test_a_chain_has_barriers_where_it_has_become_dear() -> None:
    # A step costs two functions and a product, and reads the one before twice.
    assert barriers(chain(1)) == 0
    assert barriers(chain(12)) == 5  # each second step; nobody reads the last one twice


def test_what_is_read_once_or_is_cheap_is_not() -> None:
    once = pt.exp(pt.sin(pt.tanh(pt.log(pt.cos(pt.exp(pt.sin(X)))))))
    assert barriers(once) == 0
    cheap = X
    for _ in range(4):
        cheap = cheap * 2 + cheap
    assert barriers(cheap) == 0
    scalar = chain(12).sum()
    assert barriers(scalar * 2, scalar * 3) == 5


def test_what_is_compiled_has_them_and_what_the_user_traces_does_not() -> None:
    cost = chain(12).sum()
    f = check_against_python([X], [cost, pytensor.grad(cost, X)], (np.linspace(-1, 1, 7),))
    assert "optimization_barrier" not in str(jax.make_jaxpr(f.jax_fn)(np.ones(3)))
    assert "optimization_barrier" in f._fast.lower(np.ones(7)).as_text()


def test_small_functions_that_a_reduction_reads() -> None:
    out = pt.exp(X).sum() + (X * 2).sum() + pt.exp(X)[0]
    view = GraphView.of(FunctionGraph([X], [out], clone=True))
    [number] = small_barriers_of(view, range(len(view.nodes)))
    assert str(view.variables[number].owner.op) == "Exp"
