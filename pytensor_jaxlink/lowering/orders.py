"""In which order a loop goes through its arrays."""

from __future__ import annotations

from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.graph import leading_indices


def goes_backward(node: Apply) -> bool:
    """Return True if a loop goes through most of its arrays from the last entry to the first.

    So are those of PyTensor's gradients of loops.  XLA would copy each of them in that order, where
    `lax.scan` can begin at the end.
    """
    op = node.op
    arrays = [*op.outer_seqs(node.inputs), *op.outer_mitmot(node.inputs)]
    return 2 * sum(map(_is_reversed, arrays)) > len(arrays)


def _is_reversed(array: Variable) -> bool:
    """Return True if an array is computed entry by entry from a reversed one."""
    while array.owner is not None and array.type.ndim and not array.type.broadcastable[0]:
        op, inputs = array.owner.op, array.owner.inputs
        if isinstance(op, Subtensor):
            first, *_ = leading_indices(array.owner)
            if not isinstance(first, slice):
                return False
            if getattr(first.step, "data", first.step) == -1:
                return True
        elif isinstance(op, Elemwise):
            inputs = [v for v in inputs if not v.type.broadcastable[0]]
            if not inputs:  # one entry, which the type of the result does not tell
                return False
        elif not isinstance(op, DimShuffle) or op.new_order[0] != 0:
            return False
        array = inputs[0]
    return False
