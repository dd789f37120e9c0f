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
from pytensor.graph.op import Op
from pytensor.scalar.basic import Switch
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import Argmax, Max, NonZeroDimsCAReduce
from pytensor.tensor.special import LogSoftmax, Softmax

from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.lowering.values import canonical_dtype


@jax_rule.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node)
    first = int(isinstance(op.scalar_op, Switch))  # a condition is not part of the arithmetic
    dtypes = [variable.type.dtype for variable in node.inputs[first:]]
    common = np.result_type(*dtypes)
    result = np.dtype(node.outputs[0].type.dtype)
    if common.kind in "biu" and result.kind in "fc":
        common = result  # a function of integers with fractional values
    if set(dtypes) == {common.name}:
        return function

    def promoted(*values: Any) -> Any:
        dtype = canonical_dtype(common.name)
        operands = (jnp.asarray(value, dtype=dtype) for value in values[first:])
        return function(*values[:first], *operands)

    return promoted


@jax_rule.register(NonZeroDimsCAReduce)
@jax_rule.register(Argmax)
@jax_rule.register(Max)
@jax_rule.register(LogSoftmax)
@jax_rule.register(Softmax)
def _of_something(op: Op, node: Apply, context: Context) -> JaxFunction:
    """Reductions without an identity: PyTensor raises where there is nothing to reduce."""
    function = upstream_rule(node)
    axes = (op.axis,) if isinstance(op.axis, int) else op.axis

    def reduce(array: Any) -> Any:
        reduced = range(np.ndim(array)) if axes is None else axes
        empty = any(np.shape(array)[axis] == 0 for axis in reduced)
        if empty and not getattr(op, "initial", None):
            raise ValueError(f"{op} of an array of shape {np.shape(array)}, which has no entries")
        return function(array)

    return reduce


@jax_rule.register(CAReduce)
def _reduce(op: CAReduce, node: Apply, context: Context) -> JaxFunction:
    function = upstream_rule(node)
    accumulator = getattr(op, "acc_dtype", None)
    if accumulator is None or accumulator == node.inputs[0].type.dtype:
        return function
    return lambda array: function(array.astype(canonical_dtype(accumulator)))
