"""The rules of one function: which node has one, why another has none, and which have failed."""

from __future__ import annotations

from pytensor.graph.basic import Apply, Constant

from pytensor_jaxlink.analysis import Obstacle
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import BrokenShapeError
from pytensor_jaxlink.graph import op_name
from pytensor_jaxlink.lowering.callbacks import HostCall
from pytensor_jaxlink.lowering.derivatives import LowerGraph
from pytensor_jaxlink.lowering.obstacles import Obstacles, has_entry
from pytensor_jaxlink.lowering.probing import concrete_inputs
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule, upstream_rule
from pytensor_jaxlink.lowering.rule_errors import first_line
from pytensor_jaxlink.ops import (
    Branch,
    NestedGraph,
    can_be_static,
    data_inputs,
    inner_graphs,
    is_real_number,
    static_inputs,
)
from pytensor_jaxlink.remedies import Remedy, either


class Rules:
    """Finds the rules of the nodes of one function, and remembers which have failed.

    Methods may be passed as the questions that the analyses ask.

    Parameters
    ----------
    lower_graph
        Makes a JAX function of a PyTensor graph.
    callbacks
        Whether nodes without a working JAX implementation may be called from regions.
    """

    def __init__(self, lower_graph: LowerGraph, *, callbacks: bool) -> None:
        self.lower_graph, self._callbacks = lower_graph, callbacks
        self.host_calls: list[HostCall] = []
        self._not_called: set[object] = set()
        self._obstacles = Obstacles()
        self._failed: dict[object, Obstacle] = {}
        self._opaque: set[object] = set()
        self._sizes: dict[object, tuple[int, ...]] = {}
        self._probed: set[object] = set()

    def function(self, node: Apply, context: Context) -> JaxFunction:
        """The JAX function that runs ``node``, which has been found transpilable."""
        if self._obstacles.has_own(node.op):
            return jax_rule(node.op, node, context)
        return upstream_rule(node, context.static)

    def inner_graphs(self, node: Apply) -> tuple[NestedGraph, ...]:
        """The inner graphs of a node that one of our rules lowers."""
        if not (has_entry(inner_graphs, node.op) and self._obstacles.has_own(node.op)):
            return ()
        if self._opaque and _kind(node) in self._opaque:
            return ()
        return inner_graphs(node.op, node)

    def obstacle(self, node: Apply) -> Obstacle | None:
        """The obstacle that a node without a working JAX implementation meets, or None."""
        if self._failed and (failed := self._failed.get(_kind(node))) is not None:
            return failed
        return self._obstacles.of(node)

    def may_be_called(self, node: Apply) -> bool:
        """Return True if a region may call a node that has an obstacle."""
        return self._callbacks and not (self._not_called and _kind(node) in self._not_called)

    def take_broken_promise(self) -> BrokenShapeError | None:
        """That an Op did not return what was promised, where nobody could raise; told once."""
        broken = None
        for call in self.host_calls:
            broken, call.broken = broken or call.broken, None
        return broken

    def recorded_sizes(self, node: Apply) -> tuple[int, ...]:
        """The inputs that turned out to be sizes, or that the rule of another author takes so."""
        if self._obstacles.is_foreign(node) and (kind := _kind(node)) not in self._probed:
            self._probed.add(kind)
            if needed := concrete_inputs(node, _undeclared(node)):
                self._sizes[kind] = needed
        return self._sizes.get(_kind(node), ()) if self._sizes else ()

    def is_foreign(self, node: Apply) -> bool:
        """Return True if the JAX rule of a node is neither ours nor PyTensor's."""
        return self._obstacles.is_foreign(node)

    def failure(self, node: Apply, error: BaseException) -> Obstacle:
        """The obstacle where the JAX implementation of a node has failed."""
        reason = f"its JAX implementation failed: {first_line(error)}"
        if isinstance(node.op, Branch):
            return Obstacle(Code.SIDES_DIFFER, reason, Remedy.SAME_SHAPES.text())
        remedy = either(Remedy.CORRECT_RULE.text(op=op_name(node.op)), Remedy.STATIC_INPUTS.text())
        return Obstacle(Code.RULE_FAILED, reason, remedy)

    def record(self, node: Apply, error: BaseException) -> str:
        """Make more inputs static of nodes like ``node``, which failed, or keep them from JAX.

        Returns the change, in words.
        """
        kind = _kind(node)
        reason, known = first_line(error), self._sizes.get(kind, ())
        more = [position for position in _undeclared(node) if position not in known]
        if any(call.node is node for call in self.host_calls):
            self._not_called.add(kind)
            return f"runs on the host ({reason})"
        has_graphs = bool(self.inner_graphs(node))
        retry = isinstance(error, TypeError | IndexError) and not has_graphs
        if retry and more:
            self._sizes[kind] = (*known, *more)
            names = ", ".join(node.inputs[p].name or f"input {p}" for p in more)
            return f"needs {names} to be concrete ({reason})"
        if kind in self._failed or not has_graphs:
            self._opaque.add(kind)
        self._failed[kind] = self.failure(node, error)
        return f"runs on the host ({reason})"


def _undeclared(node: Apply) -> tuple[int, ...]:
    """The inputs that could be concrete, and that nobody has said to be: constants come last.

    A real number comes before the sizes, because it may take any value.
    """
    declared = {*static_inputs(node.op, node), *data_inputs(node.op, node)}

    def rank(position: int) -> tuple[bool, bool]:
        variable = node.inputs[position]
        return isinstance(variable, Constant), not is_real_number(variable)

    found = (
        position
        for position, variable in enumerate(node.inputs)
        if (isinstance(variable, Constant) or can_be_static(variable)) and position not in declared
    )
    return tuple(sorted(found, key=rank))


def _kind(node: Apply) -> tuple[object, ...]:
    """The key of the nodes that share a rule: a failure of one is a failure of all.

    A rule may take a constant where it takes no variable.
    """
    inputs = tuple((variable.type, isinstance(variable, Constant)) for variable in node.inputs)
    return node.op, inputs
