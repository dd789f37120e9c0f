"""Where XLA is told not to compute a value again.

XLA's CPU compiler fuses elementwise operations into each operation that reads them, and so computes
a value once for each reader, with all that it was computed from: in a chain of steps whose values
the gradient reads again, the cost grows with the square of its length.  A barrier
(`jax.lax.optimization_barrier`) makes it store the value.  That costs a pass over memory, so only
values get a barrier that several operations read and that would cost more to compute again.  Draws
cost more than that always, and it is their code above all that takes XLA long to compile: a
hierarchical model of four normal draws compiles in half the time when they are stored.
"""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import jax
from pytensor.graph.basic import Apply
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.ops.costs import FUNCTION, cost_of

_Value = TypeVar("_Value")

THRESHOLD = 100
"""In additions.  docs/decisions/optimization_barriers.md has the measurements."""


def barriers_of(view: GraphView, nodes: Iterable[int]) -> frozenset[int]:
    """The variables of a region to put behind a barrier.

    Parameters
    ----------
    nodes
        The nodes that the region traces, in topological order.
    """
    nodes = list(nodes)
    readers = Counter(number for node in nodes for number in dict.fromkeys(view.node_inputs[node]))
    again: dict[int, int] = {}  # what it costs to compute a value without a barrier again
    found = []
    for node in nodes:
        apply = view.nodes[node]
        if isinstance(apply.op, RandomVariable):
            found += [number for number in view.node_outputs[node][1:] if readers[number]]
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


def stored(value: _Value) -> _Value:
    """The value behind a barrier, where JAX traces for a CPU.

    Other compilers fuse by other rules: on a GPU a barrier makes a chain 1.6 times slower.
    """
    traced = isinstance(value, jax.core.Tracer) and jax.default_backend() == "cpu"
    return jax.lax.optimization_barrier(value) if traced else value


SMALL = 64
"""Entries.  Measured: a step of a hidden Markov model with 4 states takes 46 us for 83."""


def small_barriers_of(view: GraphView, nodes: Iterable[int]) -> frozenset[int]:
    """The functions that a reduction reads, in the graph of a loop.

    XLA computes what it fuses into a reduction entry by entry, without vector instructions.  Of
    large arrays that costs less than another pass over memory, so it depends on the size.
    """
    nodes = list(nodes)
    reduced = {
        number
        for node in nodes
        if isinstance(view.nodes[node].op, CAReduce)
        for number in view.node_inputs[node]
    }
    return frozenset(
        number
        for node in nodes
        if isinstance(view.nodes[node].op, Elemwise)
        and cost_of(view.nodes[node].op.scalar_op) >= FUNCTION
        for number in view.node_outputs[node]
        if number in reduced
    )


def _cost(apply: Apply) -> int:
    op = getattr(apply.op, "scalar_op", None)
    return 0 if op is None or all(apply.outputs[0].type.broadcastable) else cost_of(op)
