"""What a loop computes from its sequences alone is computed for all steps at once, before it.

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
from dataclasses import replace
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise

from pytensor_jaxlink.compat import inlined, mutable
from pytensor_jaxlink.ops.costs import cost_of

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
    op: Any = node.op
    inner = _unwrapped(op.fgraph)
    if inner is None:
        return None
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
    batched: Any = vectorize_graph(needed, replace=given)
    if any(b.type.ndim != v.type.ndim + 1 for b, v in zip(batched, needed, strict=True)):
        return None
    entries = [v.type() for v in needed]
    inner.replace_all(list(zip(needed, entries, strict=True)), import_missing=True)
    scan = Scan(
        [*sequences, *entries, *inputs[count:]],
        list(inner.outputs),
        replace(op.info, n_seqs=count + len(entries)),
        mode=op.mode,
        truncate_gradient=op.truncate_gradient,
        name=op.name,
        profile=op.profile,
        allow_gc=op.allow_gc,
        strict=op.strict,
    )
    return scan.make_node(*outer[: 1 + count], *batched, *outer[1 + count :]).outputs


def _unwrapped(fgraph: Any) -> FunctionGraph | None:
    """A copy of a loop's graph with what is wrapped up unwrapped, or None: nothing to gain."""
    wrapped = any(type(node.op) is OpFromGraph for node in fgraph.apply_nodes)
    if not wrapped and not any(isinstance(node.op, CAReduce) for node in fgraph.apply_nodes):
        return None
    inner = mutable(fgraph)
    while found := [node for node in inner.apply_nodes if type(node.op) is OpFromGraph]:
        pairs = list(zip(found[0].outputs, inlined(found[0]), strict=True))
        inner.replace_all(pairs, import_missing=True)
    if wrapped:
        names = ("canonicalize", "stabilize", "specialize")
        optdb.query(RewriteDatabaseQuery(include=names)).rewrite(inner)
    return inner


def _movable(
    inner: FunctionGraph, sequences: Collection[Any], states: Collection[Any]
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
    """Whether a node that depends on no sequence can be computed outside as it is."""
    return isinstance(node.op, _MOVABLE) or all(isinstance(v, Constant) for v in node.inputs)


def _is_costly(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and cost_of(node.op.scalar_op) >= _WORTH_IT
