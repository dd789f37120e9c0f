"""Variables of inner graphs that have the shape of an array outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.graph import GraphNode, GraphVariable, inputs_of, outputs_of


def shaped_as_outside(
    node: GraphNode, inner: FunctionGraph
) -> Iterator[tuple[tuple[GraphVariable, int], GraphVariable]]:
    """The variables of an inner graph, each with an array outside whose shape, or entries, it has.

    The number is 1 for entries.
    """
    op: Any = node.op
    given, made = list(inputs_of(inner)), list(outputs_of(inner))
    if isinstance(op, OpFromGraph):
        for one, other in zip([*given, *made], [*inputs_of(node), *outputs_of(node)], strict=True):
            yield (one, 0), other
        return
    info, outer = op.info, inputs_of(node)[1:]
    taken = [1] * info.n_seqs
    taken += map(len, (*info.mit_mot_in_slices, *info.mit_sot_in_slices, *info.sit_sot_in_slices))
    for count, array in zip(taken, outer, strict=False):
        for _ in range(count):
            yield (given.pop(0), 1), array
    fixed = op.inner_non_seqs(inputs_of(inner)), op.outer_non_seqs(inputs_of(node))
    for one, other in zip(*fixed, strict=True):
        yield (one, 0), other
    left = [*map(len, info.mit_mot_out_slices)]
    left += [1] * (info.n_mit_sot + info.n_sit_sot + info.n_nit_sot)
    for count, array in zip(left, outputs_of(node), strict=False):
        for _ in range(count):
            yield (made.pop(0), 1), array
