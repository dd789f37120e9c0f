"""A graph in the form in which it is partitioned, and what was made to run that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytensor.scan.op import Scan

from pytensor_jaxlink.analysis import BindingTime, NodeFacts
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.lowering import Lowered
from pytensor_jaxlink.ops import DynamicSlice, WhileLoop, is_real_number
from pytensor_jaxlink.partition import Partition
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.rewriting import Avoided
from pytensor_jaxlink.runtime import Executor, Stats


@dataclass(frozen=True, eq=False)
class Form:
    """A graph, analysed and partitioned, with some of its sizes as data.

    Attributes
    ----------
    dynamic
        The positions of the inputs that are data whatever their type.
    avoided
        The breaks that rewrites have avoided, beyond those that the graph came with.
    view, facts, times, partition
        The results of the stages.
    """

    dynamic: frozenset[int]
    avoided: tuple[Avoided, ...]
    view: GraphView
    facts: tuple[NodeFacts, ...]
    times: tuple[BindingTime, ...]
    partition: Partition

    @property
    def static(self) -> tuple[int, ...]:
        """The positions of the inputs that select specialisations."""
        used = set(self.partition.static_inputs)
        return tuple(k for k, number in enumerate(self.view.inputs) if number in used)

    @property
    def sizes(self) -> frozenset[int]:
        """The values that select specialisations, those of loops and branches not counted."""
        found = frozenset[int]().union(*(region.static for region in self.partition.regions))
        return found - self.extents

    @property
    def extents(self) -> frozenset[int]:
        """The lengths that are left of slices at places known on the host (`ops.DynamicSlice`)."""
        view = self.view
        return frozenset(
            numbers[-1]
            for node, numbers in zip(view.nodes, view.node_inputs, strict=True)
            if isinstance(node.op, DynamicSlice) and node.op.exact
        )

    @property
    def numbers_in_loops(self) -> set[int]:
        """The positions of the real numbers that loops make sizes of: how many steps they make.

        NumPy would make these steps one by one, in each call.
        """
        view = self.view
        numbers = {k for k in self.static if is_real_number(view.variables[view.inputs[k]])}
        loops = [
            read
            for node, read in zip(view.nodes, view.node_inputs, strict=True)
            if numbers and isinstance(node.op, Scan | WhileLoop)
        ]
        return numbers & self.inputs_behind(number for read in loops for number in read)

    def inputs_behind(self, numbers: Iterable[int]) -> set[int]:
        """The positions of the inputs from whose values some values follow."""
        waiting = [*numbers]
        seen = {*waiting}
        while waiting:
            node = self.view.producer[waiting.pop()]
            if node < 0:
                continue
            read = set(self.view.node_inputs[node]) - set(self.facts[node].shape_only) - seen
            seen |= read
            waiting += read
        return {k for k, number in enumerate(self.view.inputs) if number in seen}


@dataclass(frozen=True, eq=False)
class Way:
    """A way of running a graph: its form, what was lowered, what runs that, and its counters."""

    form: Form
    lowered: Lowered
    executor: Executor
    stats: Stats

    @property
    def plan(self) -> Plan:
        """The plan that is run."""
        return self.lowered.plan
