"""Rules for Ops that run graphs of their own once, or once for each element of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.pad import Pad

from pytensor_jaxlink.compat import core_node
from pytensor_jaxlink.errors import FAILED_NODE, JAXLinkError
from pytensor_jaxlink.graph import ArrayType
from pytensor_jaxlink.lowering.checks import (
    are_read,
    collect,
    collecting,
    is_differentiable,
    one_condition,
    require,
    unread,
)
from pytensor_jaxlink.lowering.coercion import check_broadcast, check_equal_lengths, given_to_graph
from pytensor_jaxlink.lowering.derivatives import Derivatives
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.ops import Branch, declares_gradient

Found = tuple[tuple[jax.Array, ...], jax.Array]
"""The outputs of a side of a branch, and whether its conditions hold."""


_OF_ARGUMENTS = (AssertionError, IndexError, ValueError)
"""The exceptions of rules while JAX traces, where PyTensor raises them when it runs."""


class SidesDifferError(ValueError):
    """JAX cannot trace a branch: PyTensor has no such exception, and may take either side."""


_OF_JAX = (JAXLinkError, jax.errors.JAXIndexError, SidesDifferError)
"""Of these the exceptions that PyTensor does not raise."""


@jax_rule.register(OpFromGraph)
@jax_rule.register(Pad)  # PyTensor's rule pads as NumPy does, which its graph does not
def _op_from_graph(op: OpFromGraph, node: Apply, context: Context) -> JaxFunction:
    [inner] = context.inner
    plain = context.lower_inner(inner)

    def function(*inputs: object) -> Sequence[jax.Array]:
        return plain(*given_to_graph(inputs, node.inputs))

    if not _has_gradient_of_its_own(op, node):
        return function
    derivatives = Derivatives(node, context.where(), context.static, context.lower_graph)

    def op_from_graph(*inputs: object) -> Sequence[jax.Array]:
        if not is_differentiable():  # the gradient of the Op is for JAX
            return function(*inputs)
        if are_read():
            function(*inputs)  # for its conditions; XLA computes it once
        with unread():
            return derivatives.apply(function, inputs)

    return op_from_graph


def _has_gradient_of_its_own(op: OpFromGraph, node: Apply) -> bool:
    """Return True if the Op declares its gradient, instead of leaving it to the inner graph."""
    variables = (*node.inputs, *node.outputs)
    return declares_gradient(op) and all(
        isinstance(v.type, ArrayType | ScalarType) for v in variables
    )


@jax_rule.register(Branch)
def _branch(op: Branch, node: Apply, context: Context) -> JaxFunction:
    """`jax.lax.cond`: only one side runs, and only its conditions count.

    A side that raises for the shapes of a call (the first entry of nothing) must not be taken.
    """
    functions = [*map(context.lower_inner, context.inner)]

    def branch(condition: jax.Array, *inputs: object) -> Sequence[jax.Array]:
        given = given_to_graph(inputs, node.inputs[1:])
        checked: list[bool] = []
        raised: list[int] = []
        first, second = (
            partial(_side, function, given, checked, partial(raised.append, place))
            for place, function in enumerate(functions)
        )
        is_first = jnp.asarray(condition) != 0
        try:
            outputs, holds = jax.lax.cond(is_first, first, second)
        except _OF_ARGUMENTS:
            if not raised or not context.checks or not are_read():
                raise
            [place] = raised
            outputs, holds = (second, first)[place]()
            require(holds & (is_first == bool(place)))
            return outputs
        except TypeError as error:
            if hasattr(error, FAILED_NODE) or _are_alike(first, second):
                raise
            raise SidesDifferError("its two sides give arrays of different shapes") from error
        if any(checked):
            collect(holds)
        return outputs

    return branch


def _are_alike(*sides: Callable[[], Found]) -> bool:
    """Return True if sides give arrays of the same shapes: then `jax.shard_map` told them apart."""
    one, other = ([kind.shape for kind in jax.eval_shape(side)[0]] for side in sides)
    return one == other


def _side(
    function: JaxFunction, inputs: Sequence[object], checked: list[bool], note: Callable[[], None]
) -> Found:
    """One side of a branch; ``note`` is called where it raises what PyTensor may raise."""
    with collecting() as conditions:
        try:
            outputs = tuple(map(jnp.asarray, function(*inputs)))
        except _OF_ARGUMENTS as error:
            if not isinstance(error, _OF_JAX):
                note()
            raise
    checked.append(bool(conditions))
    return outputs, one_condition(conditions)


def _check_core_lengths(
    op: Blockwise, shapes: Iterable[tuple[int, ...]], batched_ndim: list[int]
) -> None:
    """Raise `ValueError` where a name in the signature stands for lengths that differ."""
    lengths: dict[str, list[int]] = {}
    for names, shape, ndim in zip(op.inputs_sig, shapes, batched_ndim, strict=True):
        for name, length in zip(names, shape[ndim:], strict=True):
            lengths.setdefault(name, []).append(length)
    for equal in lengths.values():
        check_equal_lengths(*equal)


@jax_rule.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, context: Context) -> JaxFunction:
    """The rule of the core Op, batched by `jax.numpy.vectorize`."""
    core = core_node(node)
    function = context.core_rule(core, context)
    batched_ndim = [
        outer.type.ndim - inner.type.ndim
        for outer, inner in zip(node.inputs, core.inputs, strict=True)
    ]

    def blockwise(*inputs: jax.Array) -> list[jax.Array]:
        batches = [np.shape(v)[:n] for v, n in zip(inputs, batched_ndim, strict=True)]
        check_broadcast(node.inputs, batches)
        _check_core_lengths(op, map(np.shape, inputs), batched_ndim)
        checked: list[bool] = []

        def of_one(*values: jax.Array) -> tuple[jax.Array, ...]:
            arguments = list(unbatched)
            for position, value in zip(traced, values, strict=True):
                arguments[position] = value
            with collecting() as conditions:
                outputs = function(*arguments)
            outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
            checked.append(bool(conditions))
            return (*outputs, one_condition(conditions))

        # A static input has one value for the batch, and must not become a tracer.
        unbatched = [
            np.reshape(value, np.shape(value)[ndim:]) if position in context.static else value
            for position, (value, ndim) in enumerate(zip(inputs, batched_ndim, strict=True))
        ]
        traced = [position for position in range(len(inputs)) if position not in context.static]
        taken, given = (
            ",".join(f"({','.join(dims)})" for dims in signature)
            for signature in ([op.inputs_sig[p] for p in traced], (*op.outputs_sig, ()))
        )
        batched = jnp.vectorize(of_one, signature=f"{taken}->{given}")
        *outputs, holds = batched(*(jnp.asarray(inputs[position]) for position in traced))
        if any(checked):
            collect(holds)
        return outputs

    return blockwise
