"""On the values of which inputs does the shape of an Op's output depend?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.basic import Nonzero
from pytensor.tensor.extra_ops import Repeat, Unique
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor


@singledispatch
def data_inputs(op: Op, node: Apply) -> Sequence[int]:
    """Positions of the array inputs whose *contents* JAX would have to know to trace the node.

    Unlike the sizes of `static_inputs` these are data: nobody wants one compilation for each mask.
    Where their values follow from shapes (the mask of a triangle) they are computed by NumPy while
    JAX traces; otherwise the node runs on the host.  The default is none.
    """
    return ()


@data_inputs.register(Nonzero)
@data_inputs.register(Unique)
def _data_inputs_all(op: Op, node: Apply) -> tuple[int, ...]:
    return tuple(range(len(node.inputs)))


@data_inputs.register(Repeat)
def _data_inputs_repeat(op: Repeat, node: Apply) -> tuple[int, ...]:
    return (1,) if node.inputs[1].type.ndim > 0 else ()


def _masks(node: Apply, first: int) -> tuple[int, ...]:
    masks = {
        first + entry
        for entry in node.op.idx_list
        if not isinstance(entry, slice)
        and getattr(node.inputs[first + entry].type, "dtype", None) == "bool"
    }
    return tuple(sorted(masks))


@data_inputs.register(AdvancedSubtensor)
def _data_inputs_subtensor(op: AdvancedSubtensor, node: Apply) -> tuple[int, ...]:
    return _masks(node, first=1)


@data_inputs.register(AdvancedIncSubtensor)
def _data_inputs_inc_subtensor(op: AdvancedIncSubtensor, node: Apply) -> tuple[int, ...]:
    return _masks(node, first=2)
