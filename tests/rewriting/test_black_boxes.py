"""Shapes of black boxes, from what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.ops import Shaped
from pytensor_jaxlink.rewriting import with_shapes
from tests.helpers import black_box, sort_down


def shaped_in(inputs: Sequence[Any], output: Any, like: Any) -> list[Apply]:
    graph = FunctionGraph(inputs, [output], clone=False)

    def is_unknown(node: Apply) -> bool:
        return type(node.op).__name__ == "FromFunctionOp"

    with_shapes(graph, [like], is_unknown)
    found = [node for node in graph.toposort() if isinstance(node.op, Shaped)]
    with_shapes(graph, [like], is_unknown)
    assert [node for node in graph.toposort() if isinstance(node.op, Shaped)] == found
    return found


def test_through_elementwise_operations() -> None:
    x, scale = pt.dvector("x"), pt.dscalar("scale")
    [node] = shaped_in([x, scale], scale * black_box(sort_down)(x * 2) + 1, x)
    assert node.inputs[1] is x


def test_from_a_neighbour() -> None:
    x, y = pt.dvector("x"), pt.dvector("y")
    [node] = shaped_in([x, y], (y * black_box(sort_down)(x)).sum() * x, x)
    assert node.inputs[1] is y


def test_not_where_nothing_tells_it() -> None:
    x = pt.dvector("x")
    box = black_box(sort_down)
    assert not shaped_in([x], box(x).sum() * x, x)
    assert not shaped_in([x], pt.concatenate([box(x), x])[: x.shape[0]], x)


def test_not_what_is_stretched() -> None:
    x, row = pt.dmatrix("x"), pt.drow("row")
    box = black_box(sort_down)(row[0])
    assert not shaped_in([x, row], x + box[None, :], x)
