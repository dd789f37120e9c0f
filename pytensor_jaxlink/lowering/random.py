"""Draws: samplers on a JAX key in place of a NumPy generator.

A value of PyTensor's ``RandomType`` is, inside a region, the key of two 32-bit words that
`pytensor_jaxlink.generators` takes from the state of the generator.  Distributions without a
sampler, ours or PyTensor's, are drawn on the host by their own NumPy sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.random.basic import ChoiceWithoutReplacement, MvNormalRV
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.lowering.checks import require
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, rule_with_literals
from pytensor_jaxlink.lowering.samplers import domain_of, sampler_of


@jax_rule.register(RandomVariable)
def _random_variable(op: RandomVariable, node: Apply, context: Context) -> JaxFunction:
    sampler, domain = sampler_of(op), domain_of(op)

    def draw(key: Any, size: Any, *parameters: Any) -> Any:
        if domain is not None and context.checks:
            _require_domain(domain, parameters)
        shape = _batch_shape(op, parameters) if size is None else tuple(map(int, size))
        if sampler is None:
            after, draws = _upstream(op, node, key, size is None, shape, parameters)
            if isinstance(op, MvNormalRV) and op.method == "cholesky" and context.checks:
                # No factor: NumPy raises `LinAlgError`.
                given = jnp.stack([jnp.isfinite(value).all() for value in parameters]).all()
                require(jnp.isfinite(draws).all() | ~given)
            return after, draws
        after, now = jax.random.split(key)
        return after, sampler(now, shape, node.outputs[1].type.dtype, *parameters)

    return draw


def _require_domain(domain: Callable[..., Any], parameters: tuple[Any, ...]) -> None:
    """Look at constants while JAX traces: only what is computed costs a condition of the region."""
    if all(isinstance(value, np.ndarray | np.generic) for value in parameters):
        with jax.ensure_compile_time_eval():
            require(np.asarray(domain(*parameters)))
    else:
        require(domain(*parameters))


def _upstream(
    op: RandomVariable,
    node: Apply,
    key: Any,
    unsized: bool,
    shape: tuple[int, ...],
    parameters: tuple[Any, ...],
) -> tuple[Any, Any]:
    """PyTensor's own JAX sampler."""
    literals = [1]
    if isinstance(op, ChoiceWithoutReplacement):
        literals.append(len(node.inputs) - 1)
    sized = op.make_node(node.inputs[0], shape, *node.inputs[2:]) if unsized else node
    state, draws = rule_with_literals(sized, literals)(
        {"jax_state": key}, np.asarray(shape, dtype="int64"), *parameters
    )
    return state["jax_state"], draws


def _batch_shape(op: RandomVariable, parameters: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of the draws, without what one draw has itself, where no size is given."""
    shapes = [
        np.shape(parameter)[: np.ndim(parameter) - core]
        for parameter, core in zip(parameters, op.ndims_params, strict=True)
    ]
    return tuple(int(length) for length in np.broadcast_shapes(*shapes))
