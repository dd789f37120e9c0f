"""The derivatives of an Op for JAX, from the Op's own gradient in PyTensor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from pytensor.compile.ops import FromFunctionOp
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NotDifferentiableError
from pytensor_jaxlink.graph import op_name
from pytensor_jaxlink.linear_maps import LinearMap, Map
from pytensor_jaxlink.lowering.checks import is_differentiable
from pytensor_jaxlink.ops import is_foreign_module, standing_alone
from pytensor_jaxlink.remedies import Remedy

GraphFunction = Callable[..., Sequence[jax.Array]]
LowerGraph = Callable[[Sequence[Variable], Sequence[Variable], Sequence[Variable]], GraphFunction]


class Derivatives:
    """Gives a JAX function of a node the derivatives of the node's Op.

    Both modes of differentiation come from the gradient: the pullback is PyTensor's, lowered, and
    the pushforward is the pullback of each entry of the outputs.  So forward mode costs as many
    pullbacks as the outputs have entries: one for a log density.

    Parameters
    ----------
    node
        The node.
    where
        The user's line.
    static
        The positions of the inputs that are NumPy values while JAX traces.
    lower_graph
        Makes a JAX function of a PyTensor graph, given by its inputs, its outputs, and for each
        output an input that has its shape.
    entry_by_entry
        Whether each entry of the one output depends on that of the one input alone.  Then forward
        mode costs one pullback.
    """

    def __init__(
        self,
        node: Apply,
        where: str,
        static: Collection[int],
        lower_graph: LowerGraph,
        *,
        entry_by_entry: bool = False,
    ) -> None:
        self._forward = _entry_by_entry if entry_by_entry else _pushforward
        self._node, self._where, self._lower_graph = node, where, lower_graph
        self._traced = [
            position
            for position, variable in enumerate(node.inputs)
            if position not in static and not isinstance(variable, Constant)
        ]
        self._real_outputs = [k for k, output in enumerate(node.outputs) if _is_real(output)]
        self._pullbacks: dict[tuple[int, ...], GraphFunction] = {}

    def apply(self, function: GraphFunction, inputs: Sequence[object]) -> tuple[jax.Array, ...]:
        """The outputs of the function, which JAX can differentiate."""
        known = list(inputs)
        for position in self._traced:
            known[position] = None

        def all_inputs(traced: Sequence[object]) -> list[object]:
            values = list(known)
            for position, value in zip(self._traced, traced, strict=True):
                values[position] = value
            return values

        def outputs_of(*traced: object) -> tuple[jax.Array, ...]:
            return tuple(function(*all_inputs(traced)))

        def rule(
            primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
        ) -> tuple[tuple[jax.Array, ...], tuple[Any, ...]]:
            outputs = differentiable(*primals)
            return outputs, self._tangents(all_inputs, primals, tangents, outputs)

        differentiable = jax.custom_jvp(outputs_of)
        differentiable.defjvp(rule, symbolic_zeros=True)
        return differentiable(*(inputs[position] for position in self._traced))

    def _tangents(
        self,
        all_inputs: Callable[[Sequence[object]], list[object]],
        primals: Sequence[jax.Array],
        tangents: Sequence[jax.Array],
        outputs: Sequence[jax.Array],
    ) -> tuple[Any, ...]:
        """The tangents of the outputs; of the inputs only those count that move."""
        real, count = self._real_outputs, len(primals)
        found: list[object] = [
            None if k in real else np.zeros(np.shape(output), jax.dtypes.float0)
            for k, output in enumerate(outputs)
        ]
        all_moving = [k for k, each in enumerate(tangents) if not isinstance(each, SymbolicZero)]
        moving = [k for k in all_moving if _is_real(self._node.inputs[self._traced[k]])]
        concerned = [*(primals[k] for k in all_moving), *outputs]
        if any(map(np.iscomplexobj, concerned)):
            raise NotDifferentiableError(
                f"JAX differentiates {op_name(self._node.op)}, written at {self._where}, which "
                "computes with complex numbers. PyTensor and JAX do not mean the same by their "
                f"gradients: {Remedy.REAL.text()}.",
                code=Code.COMPLEX_GRADIENT,
            )
        dtypes = [primals[k].dtype for k in moving]
        lowered = self._pullback(tuple(self._traced[k] for k in moving))

        def pullback(residuals: list[jax.Array], cotangents: list[jax.Array]) -> list[jax.Array]:
            inputs = all_inputs(residuals[:count])
            given = [v for v, i in zip(inputs, self._node.inputs, strict=True) if _varies(i)]
            gradients = lowered(*given, *residuals[count:], *cotangents)
            return [jnp.asarray(g, dtype) for g, dtype in zip(gradients, dtypes, strict=True)]

        shapes = tuple(jax.ShapeDtypeStruct(outputs[k].shape, outputs[k].dtype) for k in real)
        linear_map = LinearMap(self._forward(pullback, shapes), pullback, shapes)
        moves = linear_map((*primals, *outputs), [tangents[k] for k in moving])
        for position, move in zip(real, moves, strict=True):
            found[position] = move
        return tuple(found)

    def _pullback(self, moving: tuple[int, ...]) -> GraphFunction:
        """From the inputs, the outputs and cotangents of the real outputs to gradients."""
        if moving not in self._pullbacks:
            self._pullbacks[moving] = self._lower_graph(*self._pullback_graph(moving))
        return self._pullbacks[moving]

    def _pullback_graph(
        self, moving: Sequence[int]
    ) -> tuple[list[Variable], list[Variable], list[Variable]]:
        node = self._node
        alone = standing_alone(node)
        copies = alone.inputs
        outputs = [output.type() for output in alone.outputs]
        cotangents = [outputs[k].type() for k in self._real_outputs]
        given = {
            alone.outputs[k]: cotangent
            for k, cotangent in zip(self._real_outputs, cotangents, strict=True)
        }
        try:
            gradients: Any = grad(
                None,
                [copies[k] for k in moving],
                known_grads=given,
                disconnected_inputs="ignore",
                return_disconnected="zero",
            )
        except (NotImplementedError, NullTypeGradError) as error:
            raise self._no_gradient(moving, error) from error
        # The outputs are there: what the gradient reads of them is not computed again.
        gradients = clone_replace(gradients, dict(zip(alone.outputs, outputs, strict=True)))
        inputs = [*filter(_varies, copies), *outputs, *cotangents]
        for other in filter(_varies, graph_inputs(gradients, inputs)):
            if other not in inputs:  # the Op holds a variable
                problem = ValueError(f"it depends on {other}, which is no input of the operation")
                raise self._no_gradient(moving, problem)
        return inputs, gradients, [copies[position] for position in moving]

    def _no_gradient(self, moving: Sequence[int], error: Exception) -> NotDifferentiableError:
        names = ", ".join(self._node.inputs[k].name or f"input {k}" for k in moving)
        op = self._node.op
        # Others are PyTensor's, and wrapped functions have one class.
        own = is_foreign_module(type(op).__module__) and not isinstance(op, FromFunctionOp)
        remedy = Remedy.PULLBACK_METHOD if own else Remedy.PULLBACK_AROUND
        return NotDifferentiableError(
            f"JAX differentiates {op_name(op)}, written at {self._where}, with respect to "
            f"{names}, and PyTensor has no such gradient: {error}. "
            f"{remedy.text(op=op_name(op))}."
        )


def refusing_derivatives(message: str) -> Callable[[jax.Array], jax.Array]:
    """The identity, of which a derivative raises `NotDifferentiableError`."""

    @jax.custom_jvp
    def identity(value: jax.Array) -> jax.Array:
        return value

    @partial(identity.defjvp, symbolic_zeros=True)
    def rule(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        if not isinstance(tangents[0], SymbolicZero):
            raise NotDifferentiableError(message)
        return primals[0], tangents[0]

    return lambda value: identity(value) if is_differentiable() else value


def _pushforward(pullback: Map, shapes: Sequence[jax.ShapeDtypeStruct]) -> Map:
    """The pushforward: row by row of the Jacobian, which is the pullback of a unit vector."""

    def pushforward(residuals: list[jax.Array], tangents: list[jax.Array]) -> list[jax.Array]:
        results = []
        for position, shape in enumerate(shapes):
            units = jnp.eye(shape.size, dtype=shape.dtype).reshape(shape.size, *shape.shape)

            def row(unit: jax.Array, position: int = position) -> list[jax.Array]:
                cotangents = [jnp.zeros(each.shape, each.dtype) for each in shapes]
                cotangents[position] = unit
                return pullback(residuals, cotangents)

            moves = sum(
                (rows.reshape(shape.size, tangent.size) @ tangent.ravel()).astype(shape.dtype)
                for rows, tangent in zip(jax.vmap(row)(units), tangents, strict=True)
            )
            results.append(jnp.reshape(moves, shape.shape))
        return results

    return pushforward


def _entry_by_entry(pullback: Map, shapes: Sequence[jax.ShapeDtypeStruct]) -> Map:
    """The pushforward of what is applied to each entry: its slope, which the pullback gives."""

    def pushforward(residuals: list[jax.Array], tangents: list[jax.Array]) -> list[jax.Array]:
        slopes = pullback(residuals, [jnp.ones(each.shape, each.dtype) for each in shapes])
        return [slope * tangent for slope, tangent in zip(slopes, tangents, strict=True)]

    return pushforward


def _varies(variable: Variable) -> bool:
    return not isinstance(variable, Constant)


def _is_real(variable: Variable) -> bool:
    return np.dtype(variable.type.dtype).kind == "f"
