"""The remedies for a break at an Op."""

from __future__ import annotations

from functools import partial, singledispatch

from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Nonzero
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import Repeat, Unique
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, Subtensor

from pytensor_jaxlink.compat import core_node
from pytensor_jaxlink.graph import op_name
from pytensor_jaxlink.ops.input_roles import reads_values_of_elements
from pytensor_jaxlink.ops.output_shapes import OutputShapes, UnknownShapes, output_shapes
from pytensor_jaxlink.remedies import Remedy


@singledispatch
def remedies(op: Op, node: Apply) -> tuple[str, ...]:
    """Remedies for a node without a JAX implementation; each is enough.

    This table is open.  The default is right for every class of Ops of which all do the same.
    """
    if any(isinstance(v.type, SparseTensorType) for v in (*node.inputs, *node.outputs)):
        return (*callback(node), Remedy.DENSE.text())
    return (*callback(node), Remedy.REGISTER.text(op=type(op).__name__))


def callback(node: Apply) -> tuple[str, ...]:
    """How JAX could call a node, and what is missing for that."""
    op = node.op
    match output_shapes(op, node):
        case OutputShapes():
            return (Remedy.CALLBACK.text(),)
        case UnknownShapes(mendable=True) if isinstance(op, FromFunctionOp):
            return (Remedy.INFER_SHAPE_OF_FUNCTION.text(), Remedy.SHAPES_IN_OTYPES.text())
        case UnknownShapes(mendable=True):
            return (Remedy.INFER_SHAPE_OF_OP.text(op=op_name(op)),)
    return ()


@remedies.register(FromFunctionOp)
def _of_function(op: FromFunctionOp, node: Apply) -> tuple[str, ...]:
    # A JAX implementation of this class would be one of every function that was ever wrapped.
    name = op_name(op)
    return (*callback(node), Remedy.WRAP_JAX.text(op=name), Remedy.OWN_OP.text(op=name))


@remedies.register(Elemwise)
def _of_elementwise(op: Elemwise, node: Apply) -> tuple[str, ...]:
    return (*callback(node), Remedy.REGISTER.text(op=type(op.scalar_op).__name__))


@remedies.register(Blockwise)
def _of_batch(op: Blockwise, node: Apply) -> tuple[str, ...]:
    if reads_values_of_elements(node):
        return callback(node)  # no implementation would do
    core = core_node(node)
    if isinstance(core.op, FromFunctionOp):
        return _of_function(core.op, node)
    return (*callback(node), Remedy.REGISTER.text(op=type(core.op).__name__))


@remedies.register(RandomVariable)
def _of_draws(op: RandomVariable, node: Apply) -> tuple[str, ...]:
    return (Remedy.REGISTER_SAMPLER.text(op=type(op).__name__),)


def _texts(advice: tuple[Remedy, ...], op: Op, node: Apply) -> tuple[str, ...]:
    return tuple(remedy.text() for remedy in advice)


for _kind, _advice in (
    (Unique, (Remedy.COUNT_ONLY, Remedy.UNIQUE_OUTSIDE)),
    (Nonzero, (Remedy.MASK, Remedy.INDICES_OUTSIDE)),
    (AdvancedSubtensor, (Remedy.MASK, Remedy.INDICES_OUTSIDE)),
    (AdvancedIncSubtensor, (Remedy.MASKED_UPDATE, Remedy.INDICES_OUTSIDE)),
):
    remedies.register(_kind, partial(_texts, _advice))


@remedies.register(Repeat)
def _of_repeat(op: Repeat, node: Apply) -> tuple[str, ...]:
    length = "x.size" if op.axis is None else f"x.shape[{op.axis}]"
    taken = f"pt.take(x, positions, axis={op.axis})"
    return (Remedy.POSITIONS.text(length=length, taken=taken), Remedy.EQUALLY_OFTEN.text())


@singledispatch
def remedies_of_size(op: Op, node: Apply) -> tuple[str, ...]:
    """Remedies for a node of which a size is computed from data."""
    return (Remedy.SIZE_INPUT.text(),)


@remedies_of_size.register(Subtensor)
def _of_slice(op: Subtensor, node: Apply) -> tuple[str, ...]:
    return (Remedy.SIZE_INPUT.text(), Remedy.MASK_THE_REST.text())
