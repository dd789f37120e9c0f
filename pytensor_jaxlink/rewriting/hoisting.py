"""Computations of a loop on its sequences alone are made for all steps at once, before it.

Pattern: a step of `Scan` that reduces, or takes functions of, entries of its sequences.
Replacement: a `Scan` over the results, which are computed by the batched operations outside.

PyTensor moves elementwise operations out of loops, but neither reductions nor what it wraps up as
`OpFromGraph`, as it does with the gradient of `logsumexp`.  In the gradient of a hidden Markov
model all exponentials depend on sequences only: a few operations on large arrays take the place of
a few on small ones in each step.

It must not fire where only cheap arithmetic would move, nor for operations that could fail or whose
batched form is another Op.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise

from pytensor_jaxlink.ops.costs import cost_of
from pytensor_jaxlink.rewriting.loops import going_through, is_wrapped, unwrapped

_MOVABLE = (CAReduce, DimShuffle, Elemwise)
_WORTH_IT = 20
"""In additions for each entry: one function."""


def hoist_from_loops(graph: FunctionGraph) -> None:
    """Rewrite the loops of a graph in place."""
    for node in graph.toposort():
        if isinstance(node.op, Scan) and node.op.info.n_seqs and not node.op.info.as_while:
            new = _hoisted(node)
            if new is not None:
                pairs = list(zip(node.outputs, new, strict=True))
                graph.replace_all(pairs, import_missing=True)


def _hoisted(node: Apply) -> Sequence[Variable] | None:
    """The outputs of a loop that finds more of its work done, or None."""
    op = node.op
    if not _may_move(op.fgraph):
        return None
    inner = unwrapped(op.fgraph)
    inputs: list[Any] = list(inner.inputs)
    count = op.info.n_seqs
    sequences, states = inputs[:count], inputs[count : len(inputs) - op.info.n_non_seqs]
    moved = _movable(inner, sequences, states)
    if not any(_is_costly(n) for n in moved):
        return None
    made = {output for n in moved for output in n.outputs}
    needed = [
        output
        for n in moved
        for output in n.outputs
        if any(client not in moved for client, _ in inner.clients[output])
    ]
    if not needed or any(v in made for v in inner.outputs):
        return None
    outer: list[Any] = list(node.inputs)
    fixed = inputs[len(inputs) - op.info.n_non_seqs :]
    given = dict(zip(sequences, outer[1 : 1 + count], strict=True))
    given |= dict(zip(fixed, outer[len(outer) - op.info.n_non_seqs :], strict=True))
    batched = vectorize_graph(needed, replace=given)
    if any(b.type.ndim != v.type.ndim + 1 for b, v in zip(batched, needed, strict=True)):
        return None
    entries = [v.type() for v in needed]
    inner.replace_all(list(zip(needed, entries, strict=True)), import_missing=True)
    arrays = zip([*sequences, *entries], [*outer[1 : 1 + count], *batched], strict=True)
    return going_through(node, inner, dict(arrays))


def _may_move(fgraph: object) -> bool:
    """Return True if a loop's graph holds what PyTensor leaves in it, wrapped graphs too."""
    return is_wrapped(fgraph) or any(isinstance(n.op, CAReduce) for n in fgraph.apply_nodes)


def _movable(
    inner: FunctionGraph, sequences: Collection[object], states: Collection[object]
) -> dict[Apply, None]:
    """The nodes that depend on sequences, and on nothing that the loop computes."""
    late: set[Any] = set(states)
    per_step: set[Any] = set(sequences)
    found: dict[Apply, None] = {}
    for node in inner.toposort():
        fits = isinstance(node.op, _MOVABLE) and not any(v in late for v in node.inputs)
        if fits and any(v in per_step for v in node.inputs):
            found[node] = None
            per_step.update(node.outputs)
        elif any(v in late or v in per_step for v in node.inputs) or not _is_fixed(node):
            late.update(node.outputs)
    return found


def _is_fixed(node: Apply) -> bool:
    """Return True if a node that depends on no sequence can be computed outside as it is."""
    return isinstance(node.op, _MOVABLE) or all(isinstance(v, Constant) for v in node.inputs)


def _is_costly(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and cost_of(node.op.scalar_op) >= _WORTH_IT
