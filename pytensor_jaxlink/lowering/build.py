"""From a partition to a plan, and to the functions that its steps run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pytensor.graph.type import Type
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType
from scipy.sparse import issparse

from pytensor_jaxlink import plan
from pytensor_jaxlink.analysis import (
    InnerAnalysis,
    NodeFacts,
    binding_times,
    called,
    input_binding_times,
)
from pytensor_jaxlink.analysis.facts import static_variables
from pytensor_jaxlink.graph import UNKNOWN, GraphView, indices_of, user_location
from pytensor_jaxlink.lowering.barriers import SMALL
from pytensor_jaxlink.lowering.callbacks import HostCall
from pytensor_jaxlink.lowering.checks import count
from pytensor_jaxlink.lowering.coercion import as_static
from pytensor_jaxlink.lowering.derivatives import Derivatives
from pytensor_jaxlink.lowering.host_functions import HostFunction, host_function
from pytensor_jaxlink.lowering.loop_rules import layout_of
from pytensor_jaxlink.lowering.program import Instruction, Program
from pytensor_jaxlink.lowering.rule import Context, JaxFunction
from pytensor_jaxlink.lowering.rules import Rules
from pytensor_jaxlink.ops import Branch, CutResult, WhileLoop
from pytensor_jaxlink.partition import Partition, RegionDraft, SlotDraft, schedule, select, sink
from pytensor_jaxlink.plan import (
    Executable,
    Fetch,
    HostBranch,
    HostExecuted,
    HostLoop,
    HostStep,
    Plan,
    Region,
    Step,
    check_plan,
)
from pytensor_jaxlink.size_functions import is_open

INLINE_BYTES = 4096
"""Constants above this size are arguments: XLA folds what is inlined, and takes seconds for it."""

StepFunction: TypeAlias = "Program | HostExecuted[Lowered] | HostFunction | None"


@dataclass(frozen=True, eq=False)
class Lowered(Executable):
    """A plan that is ready to run; its numbers are those of ``view``."""

    view: GraphView


def lower(
    view: GraphView,
    facts: Sequence[NodeFacts],
    partition: Partition,
    rules: Rules,
    *,
    checks: bool,
) -> Lowered:
    """Lay the slots and regions out as steps."""
    lowered = _Lowering(rules, checks=checks).graph(view, facts, partition)
    check_plan(lowered.plan)
    return lowered


class _Lowering:
    """Lowers a graph and, inside it, the graphs of host-executed loops and branches."""

    def __init__(self, rules: Rules, *, checks: bool) -> None:
        self.rules, self.checks = rules, checks
        self.regions = 0  # regions are numbered in the order in which the plan lists them

    def graph(self, view: GraphView, facts: Sequence[NodeFacts], partition: Partition) -> Lowered:
        builder = ProgramBuilder(view, facts, self.rules, checks=self.checks)
        steps: list[Step] = []
        functions: list[StepFunction] = []
        for slot, region in zip(partition.slots, partition.regions, strict=True):
            for step, function in self._host_steps(view, facts, slot):
                steps.append(step)
                functions.append(function)
            if region.results:
                step, program = _region(view, facts, region, self.regions, builder)
                self.regions += 1
                steps.append(step)
                functions.append(program)
        used = {number for step in steps for number in step.reads} | set(view.outputs)
        constants = {number: data for number, data in view.constants.items() if number in used}
        found = Plan(
            view.inputs,
            view.outputs,
            tuple(constants),
            tuple(steps),
            _names(view, steps),
            _numbers_of(view, RandomType),
            _numbers_of(view, SparseTensorType),
            _lines(view, steps),
        )
        return Lowered(found, tuple(functions), constants, view)

    def _host_steps(
        self, view: GraphView, facts: Sequence[NodeFacts], slot: SlotDraft
    ) -> list[tuple[Step, StepFunction]]:
        """Fetches, then nodes in topological order."""
        steps: list[tuple[Step, StepFunction]] = [(Fetch(n), None) for n in sorted(slot.fetched)]
        for node in sorted({*slot.steps, *slot.folded}):
            if node in slot.steps and facts[node].inner:
                executed = self._host_executed(view, node, facts[node].inner)
                if executed is not None:
                    steps.append(executed)
                    continue
            apply = view.nodes[node]
            if isinstance(apply.op, CutResult):
                steps.append((_cut_off(view, node), None))
                continue
            step = HostStep(
                str(apply.op),
                view.node_inputs[node],
                view.node_outputs[node],
                folded=node not in slot.steps,
            )
            where = user_location(view, node)
            steps.append((step, host_function(apply, where)))
        return steps

    def _host_executed(
        self, view: GraphView, node: int, inner: Sequence[InnerAnalysis]
    ) -> tuple[Step, HostExecuted[Lowered]] | None:
        """A loop or a branch as a step around the plans of its inner graphs."""
        apply, layout = view.nodes[node], layout_of(view.nodes[node].op)
        if layout is None and not isinstance(apply.op, Branch):
            return None
        parts = tuple(self._inner(analysis) for analysis in inner)
        plans = [part.plan for part in parts]
        parties = str(apply.op), view.node_inputs[node], view.node_outputs[node]
        if layout is None:
            step: Step = HostBranch(*parties, (plans[0], plans[1]))
        else:
            measured = apply.op.measured if isinstance(apply.op, WhileLoop) else ()
            first = len(layout.scattered_reads) + len(layout.taps)
            emitted = [output.type for output in apply.outputs[first : first + layout.emitted]]
            types = tuple((kind.dtype, kind.ndim) for kind in emitted)
            step = HostLoop(*parties, (plans[0],), layout, measured, types)
        return step, HostExecuted(apply, parts)

    def _inner(self, inner: InnerAnalysis) -> Lowered:
        """An inner graph with its own partition; its inputs are known when it starts."""
        view, facts = inner.view, inner.facts
        times = binding_times(view, input_binding_times(view, computed=True), called(facts))
        stages = sink(view, facts, schedule(view, facts, times))
        return self.graph(view, facts, select(view, facts, times, stages))


def _numbers_of(view: GraphView, kind: type[Type]) -> frozenset[int]:
    """The variables of a type."""
    return frozenset(
        n for n, variable in enumerate(view.variables) if isinstance(variable.type, kind)
    )


def _cut_off(view: GraphView, node: int) -> plan.CutOff:
    """A result that is cut when it leaves."""
    apply, op = view.nodes[node], cast(CutResult, view.nodes[node].op)
    form = tuple(map(_index, indices_of(apply)))
    return plan.CutOff(str(op), view.node_inputs[node], view.node_outputs[node], form)


def _index(index: object) -> str:
    """The index of one dimension, as a plan has it."""
    if not isinstance(index, slice):
        return plan.MASK
    return " ".join(name for name in plan.BOUNDS if getattr(index, name) is not None)


def _names(view: GraphView, steps: Sequence[Step]) -> tuple[str, ...]:
    """The names of the values that the steps exchange; nobody asks for those of others."""
    exchanged = {*view.inputs, *view.outputs}
    for step in steps:
        exchanged.update(step.reads, step.writes)
    return tuple(
        view.expression_of(number) if number in exchanged else ""
        for number in range(len(view.variables))
    )


def _lines(view: GraphView, steps: Sequence[Step]) -> dict[int, str]:
    """The user's lines of the values that select a specialisation and are computed, or are cut."""
    regions = [step for step in steps if isinstance(step, Region)]
    computed = {n for region in regions for n in region.reads if view.producer[n] >= 0}
    computed.update(n for step in steps if isinstance(step, plan.CutOff) for n in step.results)
    found = {number: user_location(view, view.producer[number]) for number in sorted(computed)}
    return {number: line for number, line in found.items() if line != UNKNOWN}


def _region(
    view: GraphView,
    facts: Sequence[NodeFacts],
    draft: RegionDraft,
    index: int,
    builder: ProgramBuilder,
) -> tuple[Region, Program]:
    arguments = {*draft.arguments, *_large_constants(view, facts, draft)}
    static, arguments, results = (
        tuple(sorted(numbers)) for numbers in (draft.static, arguments, draft.results)
    )
    operations = tuple(str(view.nodes[node].op) for node in sorted(draft.traced))
    region = Region(index, static, arguments, results, operations)
    return region, builder.region(draft, static, arguments, results)


def _large_constants(view: GraphView, facts: Sequence[NodeFacts], draft: RegionDraft) -> set[int]:
    """The constants of a region that are passed, not inlined."""
    return {
        number
        for node in draft.traced
        for number in view.node_inputs[node]
        if number in view.constants
        and number not in facts[node].sizes
        and number not in facts[node].data
        and _bytes(view.constants[number]) > INLINE_BYTES
    }


def _bytes(data: Any) -> int:
    """The size of a constant that can be an argument of a region."""
    return data.data.nbytes if issparse(data) else getattr(data, "nbytes", 0)


class ProgramBuilder:
    """Makes programs for one graph; the rules of its nodes are looked up once."""

    def __init__(
        self, view: GraphView, facts: Sequence[NodeFacts], rules: Rules, *, checks: bool
    ) -> None:
        self.view, self.facts, self.rules, self.checks = view, facts, rules, checks
        self._functions: dict[int, JaxFunction] = {}

    def region(
        self,
        draft: RegionDraft,
        static: Sequence[int],
        arguments: Sequence[int],
        results: Sequence[int],
    ) -> Program:
        """The program of one region of the partition."""
        return Program(
            self.view,
            lambda: self._instructions(draft.traced, draft.folded),
            self.rule,
            static,
            arguments,
            results,
        )

    def _instructions(self, traced: Collection[int], folded: Collection[int]) -> list[Instruction]:
        instructions = []
        for node in sorted({*traced, *folded}):
            if node in folded:
                instructions.append(self._folded(node))
            if node in traced:
                instructions.append(self._traced(node))
        return instructions

    def _folded(self, node: int) -> Instruction:
        by_shape = self.facts[node].shape_only
        return Instruction(
            node,
            True,
            host_function(self.view.nodes[node]),
            tuple((number, number not in by_shape) for number in self.view.node_inputs[node]),
            self.view.node_outputs[node],
        )

    def _traced(self, node: int) -> Instruction:
        facts = self.facts[node]
        return Instruction(
            node,
            False,
            self.rule(node),
            tuple((number, number in facts.static) for number in self.view.node_inputs[node]),
            self.view.node_outputs[node],
        )

    def rule(self, node: int) -> JaxFunction:
        """The JAX function of a node."""
        if node not in self._functions and self.facts[node].callback is not None:
            self._functions[node] = self._host_call(node)
        if node not in self._functions:
            facts = self.facts[node]
            static = frozenset(
                position
                for position, number in enumerate(self.view.node_inputs[node])
                if number in facts.static
            )
            context = Context(
                static,
                self.checks,
                facts.inner,
                self.lower_inner,
                self.rules.function,
                self.rules.lower_graph,
                lambda: user_location(self.view, node),
            )
            self._functions[node] = self.rules.function(self.view.nodes[node], context)
        return self._functions[node]

    def _host_call(self, node: int) -> JaxFunction:
        apply, callback = self.view.nodes[node], self.facts[node].callback
        assert callback is not None
        where = user_location(self.view, node)
        function, static = host_function(apply, where), callback.shapes.by_value
        derivatives = Derivatives(apply, where, static, self.rules.lower_graph)
        call = HostCall(apply, callback.shapes, function, where, derivatives)
        self.rules.host_calls.append(call)
        return call

    def lower_inner(self, inner: InnerAnalysis) -> JaxFunction:
        """An inner graph as a function of its inputs; it returns the list of its outputs.

        Static inputs of the inner graph must be NumPy values.  Conditions of the inner
        graph are added to those of the surrounding program.
        """
        builder = ProgramBuilder(inner.view, inner.facts, self.rules, checks=self.checks)
        return builder.whole_graph(inner)

    def whole_graph(self, inner: InnerAnalysis) -> JaxFunction:
        """All of the builder's graph as a function of its inputs."""
        view, facts = self.view, self.facts
        static = static_variables(view, facts, inner.times)
        folded = {view.producer[number] for number in static} - {-1}
        live = _live_nodes(view, facts)
        program = Program(view, lambda: self._instructions(live, folded), self.rule, (), (), ())
        return _inner_function(program, inner)


def _inner_function(program: Program, inner: InnerAnalysis) -> JaxFunction:
    view = program.view

    def function(*inputs: object) -> list[Any]:
        static = {
            number: as_static(inputs[position], view.variables[number].type)
            for position, number in enumerate(view.inputs)
            if position in inner.static or is_open(inputs[position])
        }
        traced = {
            number: value
            for number, value in zip(view.inputs, inputs, strict=True)
            if not is_open(value)
        }
        program.evaluate(static, traced, program.small_barriers, SMALL)
        count(value for number, value in traced.items() if number not in view.inputs)
        types = [view.variables[number].type for number in view.outputs]  # a loop's states stay so
        return [
            program.result(number, static, traced, kind)
            for number, kind in zip(view.outputs, types, strict=True)
        ]

    return function


def _live_nodes(view: GraphView, facts: Sequence[NodeFacts]) -> set[int]:
    """The nodes whose outputs are used as traced values."""
    live: set[int] = set()
    stack = list(view.outputs)
    # What is folded may read the shape of a traced value.
    stack += [number for fact in facts for number in fact.shape_only]
    while stack:
        node = view.producer[stack.pop()]
        if node < 0 or node in live:
            continue
        live.add(node)
        static = facts[node].static
        stack += [number for number in view.node_inputs[node] if number not in static]
    return live
