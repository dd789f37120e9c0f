"""Elementwise Ops and reductions in the dtypes that NumPy would compute in.

JAX promotes by its own lattice: a float32 divided by an int64 is a float32 there and a float64 in
PyTensor, and a sum is accumulated in the dtype of its input.  PyTensor's rules cast the result; by
then the digits are gone.  These rules cast the inputs.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.scalar.basic import Switch
from pytensor.tensor.elemwise import CAReduce, Elemwise

from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.lowering.values import canonical_dtype


@jax_rule.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node)
    first = int(isinstance(op.scalar_op, Switch))  # a condition is not part of the arithmetic
    dtypes = [variable.type.dtype for variable in node.inputs[first:]]
    if len(set(dtypes)) < 2:
        return function
    common = np.result_type(*dtypes).name

    def promoted(*values: Any) -> Any:
        dtype = canonical_dtype(common)
        operands = (jnp.asarray(value, dtype=dtype) for value in values[first:])
        return function(*values[:first], *operands)

    return promoted


@jax_rule.register(CAReduce)
def _reduce(op: CAReduce, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node)
    accumulator = getattr(op, "acc_dtype", None)
    if accumulator is None or accumulator == node.inputs[0].type.dtype:
        return function
    return lambda array: function(array.astype(canonical_dtype(accumulator)))
