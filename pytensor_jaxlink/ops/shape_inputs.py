"""Which inputs does an Op read only the shape of?"""

from __future__ import annotations

from functools import singledispatch

from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.shape import Shape, Shape_i


@singledispatch
def shape_inputs(op: Op, node: Apply) -> tuple[int, ...]:
    """Positions of the inputs of which ``op`` reads the shape and not the values.

    The default, none, is the safe side: the output then counts as known only where every input is.
    """
    return ()


@shape_inputs.register(Shape)
@shape_inputs.register(Shape_i)
def _shape_inputs_shape(op: Op, node: Apply) -> tuple[int, ...]:
    return (0,)
