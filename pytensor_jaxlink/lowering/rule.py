"""The table of JAX implementations: our own rules, and PyTensor's where we have none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import singledispatch
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from jax.typing import ArrayLike
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch.basic import jax_funcify

from pytensor_jaxlink.analysis import InnerAnalysis
from pytensor_jaxlink.lowering.checks import require, unnamed_failure
from pytensor_jaxlink.lowering.coercion import as_dtype, as_inexact, as_jax
from pytensor_jaxlink.lowering.derivatives import LowerGraph
from pytensor_jaxlink.ops import held_type

JaxFunction = Callable[..., Any]
Rule = TypeVar("Rule", bound=Callable[..., JaxFunction])
Function = TypeVar("Function", bound=JaxFunction)


@dataclass(frozen=True)
class Context:
    """The things that a rule may need beyond the node.

    Attributes
    ----------
    static
        The positions of the inputs that come as NumPy values: JAX needs them when it traces.
    checks
        Whether conditions of the graph are computed and checked, or dropped.
    inner
        The analyses of the node's inner graphs, for the rules that lower them.
    core_rule
        The JAX function of another node that has the same inner graphs (the core of a batched one).
    lower_graph
        Makes a JAX function of a graph that is no part of this one (a gradient).
    where
        Finds the user's line.
    lower_inner
        Turns such an analysis into a function of the inner inputs; static
        ones must be given as NumPy values.
    """

    static: frozenset[int]
    checks: bool
    inner: tuple[InnerAnalysis, ...]
    lower_inner: Callable[[InnerAnalysis], JaxFunction]
    core_rule: Callable[[Apply, Context], JaxFunction]
    lower_graph: LowerGraph
    where: Callable[[], str]

    def check(self, condition: ArrayLike, error: Callable[[], Exception] = unnamed_failure) -> None:
        """State that a boolean array must be true everywhere, if conditions are checked."""
        if self.checks:
            require(condition, error)


@singledispatch
def jax_rule(op: Op, node: Apply, context: Context) -> JaxFunction:
    """A JAX function of the inputs of ``node``; static ones come as NumPy values.

    Our own rules are registered here, never in PyTensor's table, so that mode "JAX" behaves as
    before.  The default is PyTensor's rule (`jax_funcify`), where users register theirs.
    """
    return upstream_rule(node)


def jax_rule_for(*names: str, where: Sequence[ModuleType]) -> Callable[[Rule], Rule]:
    """Register a rule for Ops by name, for those that not every version of PyTensor has."""

    def register(rule: Rule) -> Rule:
        for name in names:
            for module in where:
                if isinstance(kind := getattr(module, name, None), type):
                    jax_rule.register(kind, rule)
        return rule

    return register


def functions_by(register: Callable[..., Callable]) -> Callable[..., Callable]:
    """A decorator for the functions of Ops whose rule looks at nothing but the values.

    Parameters
    ----------
    register
        A decorator for rules that takes the names of the Ops, as `jax_rule_for` does.
    """

    def function_of(*names: str) -> Callable[[Function], Function]:
        def register_function(function: Function) -> Function:
            register(*names)(lambda op, node, context: function)
            return function

        return register_function

    return function_of


def upstream_rule(
    node: Apply, static: Collection[int] = (), dtype: str | None = None
) -> JaxFunction:
    """PyTensor's rule for a node; all its inputs but the ``static`` ones come as JAX arrays.

    With ``dtype`` they come in that: JAX makes float32 of float32 and integers, PyTensor float64.
    """
    function = jax_funcify(node.op, node=node)
    of_reals = _is_of_real_matrices(node)

    def to_jax(value: ArrayLike) -> object:
        if dtype is not None:
            return as_dtype(value, dtype)
        return as_inexact(value) if of_reals and np.ndim(value) > 1 else as_jax(value)

    def with_arrays(*values: ArrayLike) -> object:
        return function(
            *(
                value if position in static else to_jax(value)
                for position, value in enumerate(values)
            )
        )

    return with_arrays


def _is_of_real_matrices(node: Apply) -> bool:
    """Return True for linear algebra that gives no integers alone."""
    core = getattr(node.op, "core_op", node.op)
    if "linalg" not in type(core).__module__:
        return False
    kinds = (held_type(output) for output in node.outputs)
    return any(np.dtype(getattr(kind, "dtype", "O")).kind in "fc" for kind in kinds)
