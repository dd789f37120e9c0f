"""Operations that pass their input on, none of which PyTensor takes for another one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import ViewOp
from pytensor.gradient import DisconnectedGrad, GradClip, GradScale, UndefinedGrad, ZeroGrad
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.scan.op import Scan

from pytensor_jaxlink.compat import with_inner_graph
from pytensor_jaxlink.ops.effects import has_op
from pytensor_jaxlink.ops.inner_graph import changes_gradient


class Unmerged(ViewOp):
    """One operation of a graph that passes its input on.

    PyTensor compares these Ops without their bounds and multipliers, because values do not depend
    on them, and so it would merge two of the same input.  The gradient of each is another one, and
    that of two equal ones is not that of one either: each clips what reaches it.

    Parameters
    ----------
    op
        The Op.
    number
        Its place in the graph.
    """

    __props__ = ("op", "number")

    def __init__(self, op: Op, number: int) -> None:
        self.op, self.number = op, number

    def of(self, node: Apply) -> Apply:
        """The node of the Op that it stands for."""
        return self.op.make_node(*node.inputs)


def is_kept_apart(op: Op) -> bool:
    """Return True for an Op of one input that changes gradients, and that may be merged."""
    return changes_gradient(op) and not isinstance(op, Unmerged)


def is_entry_by_entry(op: Op) -> bool:
    """Return True for an Op that passes its input on, and whose gradient at an entry is its own."""
    kind = op.op if isinstance(op, Unmerged) else op
    if isinstance(kind, GradScale):
        return np.ndim(kind.multiplier) == 0
    return type(kind) in (DisconnectedGrad, GradClip, UndefinedGrad, ViewOp, ZeroGrad)


def keep_apart(graph: FunctionGraph, numbers: Iterator[int] | None = None) -> None:
    """Replace the operations that change gradients in a graph, so that none are merged.

    In graphs inside of it too, each of which is another one then.  What has no derivative (a size)
    is passed on without them.
    """
    numbers = count() if numbers is None else numbers
    for node in graph.toposort():
        if is_kept_apart(node.op) and len(node.inputs) == 1:
            [given], [result] = node.inputs, node.outputs
            if getattr(given.type, "dtype", "float").startswith(("float", "complex")):
                [given] = Unmerged(node.op, next(numbers)).make_node(given).outputs
            graph.replace(result, given, import_missing=True)
        elif isinstance(node.op, OpFromGraph | Scan) and has_op(node.op.fgraph, is_kept_apart):
            inner = with_inner_graph(node.op, lambda inside: keep_apart(inside, numbers))
            pairs = zip(node.outputs, inner.make_node(*node.inputs).outputs, strict=True)
            graph.replace_all(list(pairs), import_missing=True)
