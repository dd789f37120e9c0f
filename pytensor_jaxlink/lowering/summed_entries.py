"""Buffers of a loop to whose entries its steps only add, as a gradient does."""

from __future__ import annotations

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.scalar.basic import Add
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pytensor_jaxlink.graph import indices_of
from pytensor_jaxlink.ops import is_zero
from pytensor_jaxlink.plan import LoopLayout


def summed_buffers(node: Apply, layout: LoopLayout) -> tuple[bool, ...]:
    """For each buffer that steps read and write in several places, how it is best carried.

    Returns
    -------
    tuple of bool
        True where steps only add to an entry until one has it at the first place, and most entries
        are computed.  Such an entry is added when it is at the first place, as in JAX's gradient
        of a scan: no step waits for entries that come before the first one, and XLA shifts no
        array.  Where most entries are zeros (only the last state of the loop counts), they would
        be an array in memory that nothing needs.
    """
    inner = node.op.fgraph
    reads = iter(node.op.inner_mitmot(inner.inputs))
    writes = iter(node.op.inner_mitmot_outs(inner.outputs))
    summed = []
    for buffer, read_places, written_places in zip(
        node.op.outer_mitmot(node.inputs),
        layout.scattered_reads,
        layout.scattered_writes,
        strict=True,
    ):
        read = dict(zip(read_places, reads, strict=False))
        written = dict(zip(written_places, writes, strict=False))
        places = {*read, *written}
        later = places - {min(places)}
        summed.append(
            buffer.type.numpy_dtype.kind in "fc"
            and bool(later)
            and read.keys() >= later <= written.keys()
            and all(_only_adds(inner, read[place], written[place]) for place in later)
            and not _is_mostly_zeros(buffer)
        )
    return tuple(summed)


def _only_adds(graph: FunctionGraph, entry: Variable, after: Variable) -> bool:
    """Return True if a step adds to an entry, and reads neither it nor the sum elsewhere."""
    if len(graph.clients[entry]) != 1 or len(graph.clients[after]) != 1:
        return False
    node = after.owner
    if node is None or not isinstance(node.op, Elemwise):
        return entry is after
    return isinstance(node.op.scalar_op, Add) and entry in node.inputs


def _is_mostly_zeros(array: Variable) -> bool:
    """Return True for zeros with single entries that are not.  Cost: a step for each update."""
    waiting, seen = [array], set[Variable]()
    while waiting:
        array = waiting.pop()
        if array in seen or is_zero(array):
            continue
        seen.add(array)
        node = array.owner
        if node is None or not isinstance(node.op, IncSubtensor | Subtensor):
            return False
        waiting.append(node.inputs[0])
        is_part = any(isinstance(entry, slice) for entry in indices_of(node)[:1])
        if is_part and isinstance(node.op, IncSubtensor):
            waiting.append(node.inputs[1])
    return True
