"""Products that take the value of another product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import Elemwise

from pytensor_jaxlink.rewriting.products import share_products, shares_products
from tests.helpers import check_against_python

A, B, C = pt.dmatrices("a", "b", "c")
S = pt.dscalar("s")


def factors(outputs: list[Any]) -> list[int]:
    """The number of factors of each product, after the rewrite."""
    fgraph = FunctionGraph([A, B, C, S], outputs, clone=False)
    share_products(fgraph)
    nodes = [node for node in fgraph.toposort() if isinstance(node.op, Elemwise)]
    return sorted(len(node.inputs) for node in nodes if isinstance(node.op.scalar_op, Mul))


def product(*arrays: Any) -> Any:
    return pt.mul(*[pt.as_tensor(array).astype("float64") for array in arrays])


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([product(A, B), product(A, A, B, C)], [2, 3]),
        ([product(A, B), product(B, A, C), product(A, B, C, C)], [2, 2, 2]),
        ([product(A, B), product(A, C, C)], [2, 3]),  # not all factors
        ([product(A, A), product(A, B, C)], [2, 3]),  # one factor too often
        ([product(S, S), product(S, S, S)], [2, 3]),  # numbers
        ([A.astype("float32") * B.astype("float32"), product(A, B, C)], [2, 3]),
    ],
)
def test_which_are_shared(outputs: list[Any], expected: list[int]) -> None:
    assert factors(outputs) == expected


def test_nothing_to_share() -> None:
    assert not shares_products(FunctionGraph([A, B], [product(A, B)], clone=False))


def test_the_gradient_of_a_weighted_square() -> None:
    loss = ((A * (B - C)) ** 2).sum()
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(4, 3)) for _ in range(3)]
    f = check_against_python([A, B, C], [loss, *pytensor.grad(loss, [A, B, C])], values)
    assert f.plan.regions[0].operations.count("Mul") == 4
