"""The parts of a `Scan`, and how it is made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.scan.op import Scan

from pytensor_jaxlink.compat import inlined, mutable


@dataclass(frozen=True)
class State:
    """An array that a loop computes from earlier entries of it, and keeps.

    Attributes
    ----------
    taps
        How far a step looks back: -1 is the step before.
    seen
        The variables of the loop's graph for these values.
    made
        The variable of the loop's graph that is the next value.
    trace
        The array that the loop leaves: the first values, and then the others.
    """

    taps: tuple[int, ...]
    seen: tuple[Variable, ...]
    made: Variable
    trace: Variable

    @property
    def reach(self) -> int:
        """How many values there must be before the first step."""
        return -min(self.taps)


def states_of(node: Apply, inner: FunctionGraph) -> list[State]:
    """The states of a loop, whose graph is the inner one."""
    op: Any = node.op
    info = op.info
    seen = info.n_seqs + sum(map(len, info.mit_mot_in_slices))
    made = sum(map(len, info.mit_mot_out_slices))
    found = []
    for place, taps in enumerate(chain(info.mit_sot_in_slices, info.sit_sot_in_slices)):
        variables = tuple(inner.inputs[seen : seen + len(taps)])
        trace = node.outputs[info.n_mit_mot + place]
        found.append(State(tuple(taps), variables, inner.outputs[made + place], trace))
        seen += len(taps)
    return found


def is_wrapped(fgraph: Any) -> bool:
    """Return True if a part of a graph is wrapped up as `OpFromGraph`."""
    return any(type(node.op) is OpFromGraph for node in fgraph.apply_nodes)


def unwrapped(fgraph: Any) -> FunctionGraph:
    """A copy of a loop's graph with what is wrapped up unwrapped, rewritten like any other.

    Graphs that are not frozen come as they were written (`compat.prepared_inner_graph`).
    """
    inner = mutable(fgraph)
    rewrite = is_wrapped(inner) or isinstance(fgraph, FunctionGraph)
    while found := [node for node in inner.apply_nodes if type(node.op) is OpFromGraph]:
        pairs = list(zip(found[0].outputs, inlined(found[0]), strict=True))
        inner.replace_all(pairs, import_missing=True)
    if rewrite:
        names = ("canonicalize", "stabilize", "specialize")
        optdb.query(RewriteDatabaseQuery(include=names)).rewrite(inner)
    return inner


def with_graph(op: Any, inputs: Sequence[Any], outputs: Sequence[Any], **info: int) -> Scan:
    """A loop like another one, with another graph.

    Parameters
    ----------
    info
        How many parts there are now of those whose number changes.
    """
    return Scan(
        list(inputs),
        list(outputs),
        replace(op.info, **info),
        mode=op.mode,
        truncate_gradient=op.truncate_gradient,
        name=op.name,
        profile=op.profile,
        allow_gc=op.allow_gc,
        strict=op.strict,
    )


def emitting(
    node: Apply, inner: FunctionGraph, more: Sequence[Variable]
) -> tuple[list[Variable], list[Variable]]:
    """The outputs of a loop that also keeps what it computes as some variables of its graph.

    Returns
    -------
    The outputs that there were, and the new ones: an array of all values for each variable.
    """
    op: Any = node.op
    info = op.info
    states = info.n_mit_mot + info.n_mit_sot + info.n_sit_sot
    made, given = list(inner.outputs), list(node.inputs)
    place = sum(map(len, info.mit_mot_out_slices)) + states - info.n_mit_mot + info.n_nit_sot
    made[place:place] = more
    place = 1 + info.n_seqs + states + info.n_untraced_sit_sot + info.n_nit_sot
    given[place:place] = [node.inputs[0]] * len(more)
    scan = with_graph(op, inner.inputs, made, n_nit_sot=info.n_nit_sot + len(more))
    outputs = scan.make_node(*given).outputs
    first, last = states + info.n_nit_sot, states + info.n_nit_sot + len(more)
    return [*outputs[:first], *outputs[last:]], outputs[first:last]


def going_through(
    node: Apply, inner: FunctionGraph, sequences: Mapping[Variable, Variable]
) -> list[Variable]:
    """The outputs of a loop that goes through other arrays.

    Parameters
    ----------
    inner
        The graph of the loop; variables that it has got since come after its inputs.
    sequences
        The variable of each array; those that the graph does not read are left out.
    """
    op: Any = node.op
    count = op.info.n_seqs
    read = {v: array for v, array in sequences.items() if inner.clients.get(v)}
    inputs = [*read, *inner.inputs[count : len(op.fgraph.inputs)]]
    scan = with_graph(op, inputs, inner.outputs, n_seqs=len(read))
    return scan.make_node(node.inputs[0], *read.values(), *node.inputs[1 + count :]).outputs
