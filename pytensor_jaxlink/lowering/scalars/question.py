"""The question that each family of scalar Ops answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import TypeVar

import jax
import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scalar import basic, math
from pytensor.scalar.basic import ScalarOp

from pytensor_jaxlink.ops import held_dtype

ScalarFunction = Callable[..., jax.Array]

Function = TypeVar("Function", bound=ScalarFunction)


@singledispatch
def scalar_function(op: ScalarOp, node: Apply) -> ScalarFunction | None:
    """The function of arrays for a scalar Op, or None (the default) to use PyTensor's."""
    return None


def function_of(name: str) -> Callable[[Function], Function]:
    """Register the function of a scalar Op that needs nothing of the node.

    By name: not each of the supported versions has all of these Ops.
    """

    def register(function: Function) -> Function:
        for module in (basic, math):
            if hasattr(module, name):
                scalar_function.register(getattr(module, name), lambda op, node: function)
        return function

    return register


def dtypes_of(node: Apply) -> list[np.dtype]:
    """The dtypes of the values that a node is given, which may be others than it declares."""
    return [np.dtype(held_dtype(each) or each.type.dtype) for each in node.inputs]


def common_dtype(node: Apply) -> np.dtype:
    """The dtype in which NumPy computes."""
    return np.result_type(*dtypes_of(node))


def integer_dtype(node: Apply) -> np.dtype:
    """The same for integers: booleans are computed in the type that the node declares."""
    return np.promote_types(common_dtype(node), node.outputs[0].type.dtype)


def constant_of(variable: Variable) -> np.ndarray | None:
    """The value of a constant of the graph."""
    return np.asarray(variable.data) if isinstance(variable, Constant) else None
