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

ScalarFunction = Callable[..., jax.Array]

Rule = TypeVar("Rule", bound=Callable[..., ScalarFunction | None])


@singledispatch
def scalar_function(op: ScalarOp, node: Apply) -> ScalarFunction | None:
    """The function of arrays for a scalar Op, or None (the default) to use PyTensor's."""
    return None


def scalar_function_for(name: str) -> Callable[[Rule], Rule]:
    """Register a function for a scalar Op that one of the supported versions does not have."""

    def register(rule: Rule) -> Rule:
        for module in (basic, math):
            if hasattr(module, name):
                scalar_function.register(getattr(module, name), rule)
        return rule

    return register


def common_dtype(node: Apply) -> np.dtype:
    """The dtype in which NumPy computes."""
    return np.result_type(*(variable.type.dtype for variable in node.inputs))


def literal(variable: Variable) -> np.ndarray | None:
    """The value of a constant of the graph."""
    return np.asarray(variable.data) if isinstance(variable, Constant) else None
