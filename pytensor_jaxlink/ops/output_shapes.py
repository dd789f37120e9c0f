"""Are the shapes of an Op's outputs known before it runs?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.rewriting.shape import ShapeFeature

from pytensor_jaxlink.graph import ArrayType, op_name
from pytensor_jaxlink.ops.control_flow import Branch, WhileLoop
from pytensor_jaxlink.ops.effects import makes_thunk
from pytensor_jaxlink.ops.input_roles import can_be_static, shape_inputs


@dataclass(frozen=True, eq=False)
class OutputShapes:
    """How the shapes of a node's outputs follow from its inputs.

    Attributes
    ----------
    fgraph
        From copies of the node's inputs to the lengths of all dimensions of all outputs.
    by_value
        Positions of the inputs whose values are read, not only their shapes; these are sizes.
    """

    fgraph: FunctionGraph
    by_value: tuple[int, ...]


@dataclass(frozen=True)
class UnknownShapes:
    """Why they do not follow.

    Attributes
    ----------
    reason
        Why, in words.
    mendable
        Whether a (better) ``infer_shape`` would tell them.
    """

    reason: str
    mendable: bool = False


@singledispatch
def output_shapes(op: Op, node: Apply) -> OutputShapes | UnknownShapes:
    """The shapes of the outputs of ``node``, by the Op's ``infer_shape`` and the types.

    A node of which they are known can be called from inside a region; of one that JAX has a rule
    for nobody asks.
    """
    if makes_thunk(op):
        return _unknown_of_functions(op, node)
    for variable in (*node.inputs, *node.outputs):
        if not isinstance(variable, Constant) and not _is_dense(variable):
            return UnknownShapes(f"it takes or gives values of {variable.type}")
    alone = standing_alone(node)
    copies = alone.inputs
    lengths = _lengths(alone)
    if alone in {variable.owner for variable in ancestors(lengths)}:
        return _unknown_without_running(op)
    read = _read_by_value(lengths)
    by_value = tuple(position for position, copy in enumerate(copies) if copy in read)
    data = [position for position in by_value if not can_be_static(node.inputs[position])]
    if data:
        names = ", ".join(node.inputs[k].name or f"input {k}" for k in data)
        return UnknownShapes(f"its output shape depends on the values of {names}")
    by_value = tuple(k for k in by_value if not isinstance(node.inputs[k], Constant))
    # Constants are kept as they are, and so are no inputs.
    return OutputShapes(FunctionGraph(_variables(copies), lengths, clone=True), by_value)


def standing_alone(node: Apply) -> Apply:
    """A copy of a node in a graph of its own; its constants are the same."""
    inputs = [v if isinstance(v, Constant) else v.type() for v in node.inputs]
    return Apply(node.op, inputs, [output.type() for output in node.outputs])


@output_shapes.register(Branch)
@output_shapes.register(WhileLoop)
def _unknown_of_functions(op: Op, node: Apply) -> UnknownShapes:
    return UnknownShapes("it runs functions of its own, which may call JAX")


@output_shapes.register(RandomVariable)
def _unknown_of_draws(op: RandomVariable, node: Apply) -> UnknownShapes:
    return UnknownShapes("it draws from the generator of NumPy")


def _is_dense(variable: Variable) -> bool:
    return isinstance(variable.type, ArrayType | ScalarType)


def _variables(copies: Sequence[Variable]) -> list[Variable]:
    return [copy for copy in copies if not isinstance(copy, Constant)]


def _lengths(alone: Apply) -> list[Variable]:
    feature = ShapeFeature()
    FunctionGraph(_variables(alone.inputs), alone.outputs, clone=False, features=[feature])
    return [
        feature.get_shape(output, axis)
        for output in alone.outputs
        for axis in range(getattr(output.type, "ndim", 0))
    ]


def _read_by_value(lengths: Sequence[Variable]) -> set[Variable]:
    """The variables of which the lengths need more than the shapes."""
    read: set[Variable] = set()
    stack = list(lengths)
    while stack:
        variable = stack.pop()
        if variable in read:
            continue
        read.add(variable)
        if variable.owner is not None:
            by_shape = shape_inputs(variable.owner.op, variable.owner)
            stack += [v for k, v in enumerate(variable.owner.inputs) if k not in by_shape]
    return read


def _unknown_without_running(op: Op) -> UnknownShapes:
    name = op_name(op)
    if not hasattr(op, "infer_shape"):
        return UnknownShapes(f"{name} has no infer_shape", mendable=True)
    return UnknownShapes(
        f"the infer_shape of {name} does not tell the shape of its output", mendable=True
    )
