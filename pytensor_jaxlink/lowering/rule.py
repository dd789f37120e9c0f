"""The JAX implementation of one node: our own rule, or PyTensor's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pytensor.graph.basic import Apply, Constant
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.scalar.basic import ScalarType, constant as scalar_constant
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.analysis import InnerAnalysis, Obstacle, ObstacleKind
from pytensor_jaxlink.lowering.values import has_jax_values
from pytensor_jaxlink.ops import InnerGraph, data_inputs, inner_graph, static_inputs

JaxFunction = Callable[..., Any]


@dataclass(frozen=True)
class Context:
    """What a rule may need beyond the node.

    Attributes
    ----------
    checks
        Whether conditions of the graph are computed and looked at, or dropped.
    inner
        The analysis of the node's inner graph, for the rules that lower one.
    lower_inner
        Turns that analysis into a function of the inner inputs; those that are demanded early
        must be given as NumPy values.
    """

    checks: bool
    inner: InnerAnalysis | None
    lower_inner: Callable[[InnerAnalysis, Context], JaxFunction]


@singledispatch
def jax_rule(op: Op, node: Apply, context: Context) -> JaxFunction:
    """A JAX function of the inputs of ``node``; what is demanded early comes as NumPy values.

    Our own rules are registered here, never in PyTensor's table, so that mode "JAX" behaves as
    before.  The default is PyTensor's rule (`jax_funcify`), where users register theirs.
    """
    return upstream_rule(node)


def upstream_rule(node: Apply) -> JaxFunction:
    """PyTensor's rule, without the warnings that it shows when it is looked up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jax_funcify(node.op, node=node)


def rule_with_literals(node: Apply, positions: Sequence[int]) -> JaxFunction:
    """PyTensor's rule for ``node``, looked up while JAX traces, with known inputs as constants.

    Some rules look for constants among a node's inputs to find the concrete values they need.
    When a value is known, the node is rebuilt as if the user had written it as a literal.
    """

    def function(*values: Any) -> Any:
        inputs = list(node.inputs)
        for position in positions:
            inputs[position] = _literal(inputs[position], values[position])
        literal_node = node.op.make_node(*inputs)
        return upstream_rule(literal_node)(*values)

    return function


def _literal(variable: Any, value: Any) -> Constant:
    if isinstance(variable, Constant):
        return variable
    if isinstance(variable.type, ScalarType):
        return scalar_constant(value, dtype=variable.type.dtype)
    return variable.type.make_constant(value)


def has_own_rule(op: Op) -> bool:
    """Whether our rule is at least as specific to the class of ``op`` as PyTensor's."""
    classes = type(op).__mro__
    own = next((k for k, c in enumerate(classes) if c in jax_rule.registry and c is not object), -1)
    upstream = next(
        (k for k, c in enumerate(classes) if c in jax_funcify.registry and c is not object),
        len(classes),
    )
    return 0 <= own <= upstream


def rule_of(node: Apply, context: Context) -> JaxFunction:
    """The rule that runs ``node``; raises what the rule raises where there is none."""
    if has_own_rule(node.op):
        return jax_rule(node.op, node, context)
    return upstream_rule(node)


def inner_graph_of(node: Apply) -> InnerGraph | None:
    """The inner graph of a node that one of our rules lowers."""
    return inner_graph(node.op, node) if has_own_rule(node.op) else None


def transpilable(node: Apply) -> Obstacle | None:
    """The obstacle that a node without a JAX implementation meets, or None."""
    for variable in (*node.inputs, *node.outputs):
        if not has_jax_values(variable.type):
            return _untranspilable(node, f"values of {variable.type} have no JAX counterpart")
    if isinstance(node.op, Blockwise):
        core = node.op._create_dummy_core_node(node.inputs)
        if static_inputs(core.op, core) or data_inputs(core.op, core):
            return _untranspilable(node, f"{core.op} needs concrete sizes for each batch element")
    if has_own_rule(node.op):
        return None if _can_draw(node) else _untranspilable(node, "JAX has no such sampler")
    try:
        upstream_rule(node)
    except Exception as error:  # noqa: BLE001 -- rules say in many ways that they do not apply
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return _untranspilable(node, first_line)
    return None


def _can_draw(node: Apply) -> bool:
    if not isinstance(node.op, RandomVariable):
        return True
    from pytensor.link.jax.dispatch.random import jax_sample_fn

    try:
        jax_sample_fn(node.op, node=node)
    except NotImplementedError:
        return False
    return True


def _untranspilable(node: Apply, reason: str) -> Obstacle:
    return Obstacle(
        ObstacleKind.UNTRANSPILABLE,
        reason,
        f"register a JAX implementation of {type(node.op).__name__} with "
        "pytensor.link.jax.dispatch.jax_funcify",
    )
