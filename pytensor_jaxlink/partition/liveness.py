"""The backward pass: which nodes really run, where, and what crosses between the stages.

It starts at the outputs of the function and asks for values; each request is answered in the place
that the schedule gave.  A value may be asked for in three ways: traced inside a region, known while
a region is traced, or as a host value.  Nodes nobody asks for (size arithmetic that NumPy does
elsewhere) run nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar

from pytensor_jaxlink.analysis import BindingTime, NodeFacts, Obstacle
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.graph import GraphView, ndim_of
from pytensor_jaxlink.ops import CutResult, remedies_of_size
from pytensor_jaxlink.partition.schedule import (
    Placement,
    Schedule,
    Source,
    is_size,
    may_select,
)
from pytensor_jaxlink.remedies import either

# Ops that change the type of a value and nothing else: the value they are given selects the
# specialisation, under the name that the user gave it.
_RENAMING = (ScalarFromTensor, TensorFromScalar)


@dataclass(frozen=True)
class Cut:
    """One place where the graph is cut, as node and variable numbers.

    Attributes
    ----------
    node
        The node that cannot be traced, or that needs the value.
    obstacle
        Kind, reason and remedy.
    fetched
        The variable whose value is copied to the host for JAX to know it, or None for a host step.
    """

    node: int
    obstacle: Obstacle
    fetched: int | None = None


@dataclass
class RegionDraft:
    """The nodes, arguments and results of one region, as numbers."""

    traced: set[int] = field(default_factory=set)
    folded: set[int] = field(default_factory=set)
    static: set[int] = field(default_factory=set)
    arguments: set[int] = field(default_factory=set)
    results: set[int] = field(default_factory=set)


@dataclass
class SlotDraft:
    """The nodes that run on the host between two regions."""

    fetched: set[int] = field(default_factory=set)
    steps: set[int] = field(default_factory=set)
    folded: set[int] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Partition:
    """The slots and regions of a graph, in the order in which they run.

    Results that are cut when they leave (`ops.CutResult`) are no breaks.
    """

    slots: tuple[SlotDraft, ...]
    regions: tuple[RegionDraft, ...]
    breaks: tuple[Cut, ...]
    cuts: tuple[Cut, ...]
    static_inputs: tuple[int, ...]


def select(
    view: GraphView,
    facts: Sequence[NodeFacts],
    times: Sequence[BindingTime],
    plan: Schedule,
) -> Partition:
    """Collect what the outputs of the graph need.  Linear in the size of the graph."""
    return _Selector(view, facts, times, plan).run()


class _Selector:
    def __init__(
        self,
        view: GraphView,
        facts: Sequence[NodeFacts],
        times: Sequence[BindingTime],
        plan: Schedule,
    ) -> None:
        self.view, self.facts, self.times, self.plan = view, facts, times, plan
        last = max(plan.stage, default=0) + 1
        self.slots = [SlotDraft() for _ in range(last + 1)]
        self.regions = [RegionDraft() for _ in range(last + 1)]
        self.seen: set[tuple[str, int, int]] = set()
        self.tasks: list[tuple[str, int, int]] = []

    def run(self) -> Partition:
        for number in self.view.outputs:
            self.give(number)
        answers = {"traced": self._trace, "known": self._know, "host": self._bring}
        while self.tasks:
            request, number, stage = self.tasks.pop()
            answers[request](number, stage)
        breaks, cuts = self._breaks()
        return Partition(
            tuple(self.slots), tuple(self.regions), breaks, cuts, self._static_inputs()
        )

    # -- requests ------------------------------------------------------------------------------

    def ask(self, request: str, number: int, stage: int) -> None:
        """Ask for a variable, once."""
        if (request, number, stage) not in self.seen and number not in self.view.constants:
            self.seen.add((request, number, stage))
            self.tasks.append((request, number, stage))

    def give(self, number: int) -> None:
        """The variable has to leave whatever computes it."""
        producer = self.view.producer[number]
        if producer < 0:
            return
        if self.plan.placement[producer] is Placement.HOST:
            self._run_step(producer)
            return
        stage = self.plan.stage[producer]
        self.regions[stage].results.add(number)
        self.ask("traced", number, stage)

    def _trace(self, number: int, stage: int) -> None:
        """Make the variable usable inside the region ``stage``."""
        producer, region = self.view.producer[number], self.regions[stage]
        if producer < 0 or self.plan.placement[producer] is Placement.HOST:
            region.arguments.add(number)
            self.give(number)
        elif self.plan.placement[producer] is Placement.FOLD:
            self._fold_in_region(producer, stage)
        elif self.plan.stage[producer] != stage:
            region.arguments.add(number)
            self.give(number)
        elif producer not in region.traced:
            region.traced.add(producer)
            self._ask_for_inputs(producer, stage)

    def _ask_for_inputs(self, node: int, stage: int) -> None:
        static = self.facts[node].static
        for number in self.view.node_inputs[node]:
            self.ask("known" if number in static else "traced", number, stage)

    def _know(self, number: int, stage: int) -> None:
        """Make the variable known while the region ``stage`` is traced."""
        known = self.plan.knowledge[number]
        if self._is_static_argument(number, stage):
            self.regions[stage].static.add(number)
            self.ask("host", number, known.on_host)
        else:
            self._fold_in_region(self.view.producer[number], stage)

    def _is_static_argument(self, number: int, stage: int) -> bool:
        """Return True if the value comes to the region from outside, and is not folded inside.

        Vectors that are computed from sizes (most often the sizes put side by side), and sizes
        under another type, are folded inside: the region then depends on the sizes alone.
        """
        known = self.plan.knowledge[number]
        if self.times[number] <= BindingTime.SHAPE or known.on_host > stage:
            return False
        variable = self.view.variables[number]
        if not may_select(self.view, self.times, number):
            return False
        if known.source is not Source.FOLDED or known.folding > stage:
            return True
        op = self.view.nodes[self.view.producer[number]].op
        return ndim_of(variable) == 0 and not isinstance(op, _RENAMING)

    def _fold_in_region(self, node: int, stage: int) -> None:
        region = self.regions[stage]
        if node in region.folded:
            return
        region.folded.add(node)
        by_shape = self.facts[node].shape_only
        for number in self.view.node_inputs[node]:
            self.ask("traced" if number in by_shape else "known", number, stage)

    def _bring(self, number: int, slot: int) -> None:
        """Make the variable a value on the host, in slot ``slot``."""
        known, producer = self.plan.knowledge[number], self.view.producer[number]
        if producer < 0:
            return
        if known.source is Source.STEP:
            self._run_step(producer)
        elif known.source is Source.FETCHED:
            self.slots[slot].fetched.add(number)
            self.give(number)
        else:
            self.slots[slot].folded.add(producer)
            by_shape = self.facts[producer].shape_only
            for cause in self.view.node_inputs[producer]:
                if cause in by_shape:
                    self.give(cause)
                else:
                    self.ask("host", cause, self.plan.knowledge[cause].on_host)

    def _run_step(self, node: int) -> None:
        slot = self.slots[self.plan.stage[node]]
        if node in slot.steps:
            return
        slot.steps.add(node)
        for number in self.view.node_inputs[node]:
            known = self.plan.knowledge[number]
            if known.source is Source.FOLDED and is_size(self.view, self.times, number):
                self.ask("host", number, known.on_host)
            else:
                self.give(number)

    # -- results -------------------------------------------------------------------------------

    def _breaks(self) -> tuple[tuple[Cut, ...], tuple[Cut, ...]]:
        """The breaks, and the results that are cut."""
        found: list[Cut] = []
        for slot in self.slots:
            for node in slot.steps:
                obstacle = self.plan.obstacles[node]
                assert obstacle is not None
                found.append(Cut(node, obstacle))
            for number in slot.fetched:
                node = self._static_reader(number)
                found.append(Cut(node, self._fetch_obstacle(number, node), number))
        found.sort(key=lambda cut: (cut.node, cut.fetched or -1))
        cuts = tuple(each for each in found if isinstance(self.view.nodes[each.node].op, CutResult))
        return tuple(each for each in found if each not in cuts), cuts

    def _fetch_obstacle(self, number: int, node: int) -> Obstacle:
        apply = self.view.nodes[node]
        return Obstacle(
            Code.FETCHED_SIZE,
            f"JAX must know a size of {self.view.operation_of(node)} before it compiles, and that "
            f"size depends on {self.view.expression_of(number)}, which a region computes from data",
            either(*remedies_of_size(apply.op, apply)),
        )

    def _static_reader(self, fetched: int) -> int:
        """The node that a fetch serves: a loop if there is one, else the first in the graph.

        A number of steps is also the length of buffers, and people look for the loop.
        """
        traced = set[int]().union(*(region.traced for region in self.regions))
        seen, stack = {fetched}, [fetched]
        found: list[int] = []
        while stack:
            number = stack.pop()
            for node in self.view.consumers[number]:
                if node in traced and number in self.facts[node].sizes:
                    found.append(node)
                for output in self.view.node_outputs[node]:
                    if output not in seen and self.times[output] >= self.times[fetched]:
                        seen.add(output)
                        stack.append(output)
        return min(found, key=lambda node: (not self.facts[node].inner, node))

    def _static_inputs(self) -> tuple[int, ...]:
        """The inputs of the function whose values reach a specialisation."""
        used = set[int]().union(*(region.static for region in self.regions))
        for slot in self.slots:
            for node in slot.folded:
                by_shape = self.facts[node].shape_only
                used.update(set(self.view.node_inputs[node]).difference(by_shape))
        return tuple(number for number in self.view.inputs if number in used)
