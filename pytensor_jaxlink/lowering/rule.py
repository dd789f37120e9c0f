"""The JAX implementation of one node: our own rule, or PyTensor's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pytensor.graph.basic import Apply, Constant
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.link.jax.dispatch.random import jax_sample_fn
from pytensor.scalar.basic import ScalarType
from pytensor.scalar.basic import constant as scalar_constant
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.analysis import InnerAnalysis, Obstacle, ObstacleKind
from pytensor_jaxlink.compat import core_node
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
    lower_inner: Callable[[InnerAnalysis], JaxFunction]


@singledispatch
def jax_rule(op: Op, node: Apply, context: Context) -> JaxFunction:
    """A JAX function of the inputs of ``node``; what is demanded early comes as NumPy values.

    Our own rules are registered here, never in PyTensor's table, so that mode "JAX" behaves as
    before.  The default is PyTensor's rule (`jax_funcify`), where users register theirs.
    """
    return upstream_rule(node)


def upstream_rule(node: Apply) -> JaxFunction:
    """PyTensor's rule for a node."""
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


class Rules:
    """Looks up the rules of the nodes of one function, each once.

    Methods may be passed as the questions that the analyses ask.
    """

    def __init__(self) -> None:
        self._own: dict[type[Op], bool] = {}
        self._upstream: dict[Apply, JaxFunction] = {}
        self._obstacles: dict[Apply, Obstacle | None] = {}

    def has_own(self, op: Op) -> bool:
        """Whether our rule is at least as specific to the class of ``op`` as PyTensor's."""
        kind = type(op)
        if kind not in self._own:
            own, upstream = (
                next(
                    (k for k, c in enumerate(kind.__mro__[:-1]) if c in registry), len(kind.__mro__)
                )
                for registry in (jax_rule.registry, jax_funcify.registry)
            )
            self._own[kind] = own < len(kind.__mro__) and own <= upstream
        return self._own[kind]

    def function(self, node: Apply, context: Context) -> JaxFunction:
        """The JAX function that runs ``node``, which has been found transpilable."""
        if self.has_own(node.op):
            return jax_rule(node.op, node, context)
        return self._upstream[node]

    def inner_graph(self, node: Apply) -> InnerGraph | None:
        """The inner graph of a node that one of our rules lowers."""
        return inner_graph(node.op, node) if self.has_own(node.op) else None

    def obstacle(self, node: Apply) -> Obstacle | None:
        """The obstacle that a node without a JAX implementation meets, or None."""
        if node not in self._obstacles:
            self._obstacles[node] = self._find_obstacle(node)
        return self._obstacles[node]

    def _find_obstacle(self, node: Apply) -> Obstacle | None:
        for variable in (*node.inputs, *node.outputs):
            if not has_jax_values(variable.type):
                return _untranspilable(node, f"values of {variable.type} have no JAX counterpart")
        if isinstance(node.op, Blockwise):
            core = core_node(node)
            if static_inputs(core.op, core) or data_inputs(core.op, core):
                return _untranspilable(node, f"{core.op} needs sizes for each batch element")
        if self.has_own(node.op):
            return None if _can_run(node) else _untranspilable(node, "JAX has no such operation")
        try:
            self._upstream[node] = upstream_rule(node)
        except Exception as error:  # rules say in many ways that they do not apply
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            return _untranspilable(node, first_line)
        return None


def _can_run(node: Apply) -> bool:
    """Whether our rule for the node applies: not to every sampler, and not to every loop."""
    if isinstance(node.op, Scan):
        return not node.op.info.as_while
    if not isinstance(node.op, RandomVariable):
        return True
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
