"""Products whose factors hold those of another product take that one's value.

Pattern: ``a * b`` and ``-2 * a * b * a``.  Replacement: ``p = a * b`` and ``-2 * p * a``.

PyTensor flattens products, and forgets that the gradient of ``(a * b) ** 2`` had ``a * b`` in it:
XLA then reads one array more.  It must not fire where the shorter product is computed in another
type, or is a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph, FunctionGraph
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import Elemwise


def shares_products(fgraph: AbstractFunctionGraph) -> bool:
    """Return True if one of the products of a graph could take another one's value."""
    products = _products(fgraph.apply_nodes)
    return any(len(node.inputs) > 2 for node in products) and len(products) > 1


def share_products(graph: FunctionGraph) -> None:
    """Rewrite the products of a graph in place, the longest ones first."""
    products = sorted(_products(graph.toposort()), key=lambda node: -len(node.inputs))
    for place, node in enumerate(products):
        factors = Counter(node.inputs)
        for shorter in products[place + 1 :]:
            part = Counter(shorter.inputs)
            if _is_worth_it(shorter, node) and part < factors:
                rest = (factors - part).elements()
                new: Any = node.op(shorter.outputs[0], *rest)
                graph.replace_all([(node.outputs[0], new)], import_missing=True)
                break


def _products(nodes: Iterable[Apply]) -> list[Apply]:
    return [
        node
        for node in nodes
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Mul)
    ]


def _is_worth_it(shorter: Apply, node: Apply) -> bool:
    """Return True if the value of the shorter product is an array of the same type and rank."""
    one, other = shorter.outputs[0].type, node.outputs[0].type
    return one.ndim > 0 and one.dtype == other.dtype and not all(one.broadcastable)
