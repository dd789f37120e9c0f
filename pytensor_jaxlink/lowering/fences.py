"""Where XLA is told not to compute a value again.

XLA's CPU compiler fuses elementwise operations into each operation that reads them, and so computes
a value once for each reader, with all that it was computed from: in a chain of steps whose values
the gradient reads again, the cost grows with the square of its length.  A fence
(`jax.lax.optimization_barrier`) makes it store the value.  That costs a pass over memory, so only
values are fenced that several operations read and that would cost more to compute again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytensor.graph.basic import Apply
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pytensor_jaxlink.graph import GraphView

THRESHOLD = 100
"""In additions.  Measured on the workloads of `tests.benchmarks` (docs/design.md, section 6)."""

_CHEAP, _DIVISION, _FUNCTION = 1, 5, 20

_ARITHMETIC = (
    scalar.Add, scalar.Sub, scalar.Mul, scalar.Neg, scalar.Abs, scalar.Sqr, scalar.Switch,
    scalar.Cast, scalar.Maximum, scalar.Minimum, scalar.Clip, scalar.Second, scalar.Identity,
    scalar.LogicalComparison, scalar.BinaryBitOp, scalar.UnaryBitOp, scalar.Sign,
)  # fmt: skip
_DIVISIONS = (scalar.TrueDiv, scalar.Reciprocal, scalar.Sqrt, scalar.IntDiv, scalar.Mod)


def fenced(view: GraphView, nodes: Iterable[int]) -> frozenset[int]:
    """The variables to fence among what a region computes.

    Parameters
    ----------
    nodes
        The nodes that the region traces, in topological order.
    """
    nodes = list(nodes)
    readers = Counter(number for node in nodes for number in dict.fromkeys(view.node_inputs[node]))
    again: dict[int, int] = {}  # what it costs to compute an unfenced value again
    found = []
    for node in nodes:
        apply = view.nodes[node]
        if not isinstance(apply.op, Elemwise | DimShuffle):
            continue
        cost = _cost(apply) + sum(again.get(number, 0) for number in view.node_inputs[node])
        for number in view.node_outputs[node]:
            repeated = readers[number] > 1 and not all(view.variables[number].type.broadcastable)
            if repeated and isinstance(apply.op, Elemwise) and cost >= THRESHOLD:
                found.append(number)
            else:
                again[number] = cost
    return frozenset(found)


def _cost(apply: Apply) -> int:
    op = getattr(apply.op, "scalar_op", None)
    if op is None or all(apply.outputs[0].type.broadcastable):
        return 0
    if isinstance(op, _ARITHMETIC):
        return _CHEAP
    return _DIVISION if isinstance(op, _DIVISIONS) else _FUNCTION
