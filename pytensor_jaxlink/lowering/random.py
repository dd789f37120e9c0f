"""Draws: PyTensor's samplers, on a JAX key in place of a NumPy generator.

A value of PyTensor's ``RandomType`` is, inside a region, the key of two 32-bit words that
`pytensor_jaxlink.generators` takes from the state of the generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.random.basic import ChoiceWithoutReplacement
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, rule_with_literals


@jax_rule.register(RandomVariable)
def _random_variable(op: RandomVariable, node: Apply, context: Context) -> JaxFunction:
    literals = [1]
    if isinstance(op, ChoiceWithoutReplacement):
        literals.append(len(node.inputs) - 1)

    def draw(key: Any, size: Any, *parameters: Any) -> Any:
        shape = _batch_shape(op, parameters) if size is None else size
        sized = node
        if size is None:
            sized = op.make_node(node.inputs[0], shape, *node.inputs[2:])
        state, sample = rule_with_literals(sized, literals)(
            {"jax_state": key}, np.asarray(shape, dtype="int64"), *parameters
        )
        return state["jax_state"], sample

    return draw


def _batch_shape(op: RandomVariable, parameters: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of the draws, without what one draw has itself, where no size is given."""
    shapes = [
        np.shape(parameter)[: np.ndim(parameter) - core]
        for parameter, core in zip(parameters, op.ndims_params, strict=True)
    ]
    return tuple(int(length) for length in np.broadcast_shapes(*shapes))
