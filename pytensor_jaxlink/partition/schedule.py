"""The forward pass: the earliest stage of every node, hence the fewest regions.

Regions and host slots alternate: slot 0, region 0, slot 1, region 1, ...  Slot ``r`` runs on the
host before region ``r`` and sees what the regions below ``r`` computed.  Each node goes to the
earliest place that its inputs allow.  A region beyond ``r`` is opened only where a value of region
``r`` must visit the host (as the input of a host step, or as a size that JAX has to know), so the
number of regions is one more than the largest number of such visits on any path through the graph,
and no partition has fewer.  This is typed fusion with two types for a fixed order (Kennedy &
McKinley, "Typed Fusion with Applications to Parallel and Sequential Code Generation", 1993),
extended by values that both types can compute: arithmetic on sizes.  Linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pytensor.tensor.type import discrete_dtypes

from pytensor_jaxlink.analysis import (
    BindingTime,
    NodeFacts,
    Obstacle,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.graph import GraphNode, GraphView, dtype_of, ndim_of
from pytensor_jaxlink.ops import can_be_static, is_real_number, remedies
from pytensor_jaxlink.remedies import Remedy, either

NEVER = 1 << 30
_NONE: frozenset[int] = frozenset()


class Placement(Enum):
    """The place where a node runs."""

    REGION = "region"
    HOST = "host step"
    FOLD = "NumPy, while JAX traces"


class Source(Enum):
    """How a value comes to be known on the host."""

    NOWHERE = "it does not"
    GIVEN = "a constant or an input of the function"
    FOLDED = "computed by NumPy from values on the host"
    FETCHED = "computed by a region and copied"
    STEP = "the result of a host step"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """When one variable can be had, in stages (`NEVER`: it cannot).

    Attributes
    ----------
    in_region
        The first region in which the variable can be traced.
    on_host
        The first slot after which its value can be a Python value that selects a specialisation,
        or the input of arithmetic on such values.
    while_tracing
        The first region in which its value is known while JAX traces.
    as_data
        The same, from shapes and scalar sizes alone (what masks may be made of).
    source
        How it gets to the host.
    fetches
        The fetched variables that the value on the host needs.
    folding
        The first region in which NumPy can compute it from values known while JAX traces.
    shape_on_host
        The first slot after which the host knows its shape without asking a region.
    """

    in_region: int = NEVER
    on_host: int = NEVER
    while_tracing: int = NEVER
    as_data: int = NEVER
    source: Source = Source.NOWHERE
    fetches: frozenset[int] = frozenset()
    folding: int = NEVER
    shape_on_host: int = NEVER


@dataclass(frozen=True, eq=False)
class Schedule:
    """The place and stage of every node, and what is known when."""

    placement: tuple[Placement, ...]
    stage: tuple[int, ...]
    obstacles: tuple[Obstacle | None, ...]
    knowledge: tuple[Knowledge, ...]

    @property
    def is_one_region(self) -> bool:
        """Return True if all nodes run in the first region, or while JAX traces it."""
        return Placement.HOST not in self.placement and not any(self.stage)


def schedule(
    view: GraphView,
    facts: Sequence[NodeFacts],
    times: Sequence[BindingTime],
    *,
    vectors_are_sizes: bool = False,
) -> Schedule:
    """Give every node its place and its earliest stage.

    Parameters
    ----------
    view, facts, times
        The graph, and the results of the analyses.
    vectors_are_sizes
        Whether data may be made of the values of integer vectors among the inputs, and not of
        scalars alone.  That is right where the user holds the jit, and asks for the compilations.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> from pytensor.graph.fg import FunctionGraph
    >>> from pytensor_jaxlink.analysis import (
    ...     Questions, binding_times, facts_of, input_binding_times
    ... )
    >>> from pytensor_jaxlink.graph import GraphNode, GraphView, dtype_of, ndim_of
    >>> x = pt.vector("x")
    >>> view = GraphView.of(FunctionGraph([x], [pt.exp(x[: x.argmax()])]))
    >>> facts = facts_of(view, Questions(lambda node: None, lambda node: ()))
    >>> plan = schedule(view, facts, binding_times(view, input_binding_times(view)))
    >>> [(str(node.op), stage) for node, stage in zip(view.nodes, plan.stage)]  # doctest: +SKIP
    [('Argmax{axis=0}', 0), ('ScalarFromTensor', 0), ('Subtensor{:stop}', 1), ('Exp', 1)]
    """
    return _Scheduler(view, facts, times, vectors_are_sizes=vectors_are_sizes).run()


class _Scheduler:
    def __init__(
        self,
        view: GraphView,
        facts: Sequence[NodeFacts],
        times: Sequence[BindingTime],
        *,
        vectors_are_sizes: bool,
    ) -> None:
        self.view, self.facts, self.times = view, facts, times
        self._largest_rank = 1 if vectors_are_sizes else 0
        self.knowledge = [Knowledge()] * len(view.variables)
        self._arrays: dict[int, Knowledge] = {}
        self.placement: list[Placement] = []
        self.stage: list[int] = []
        self.obstacles: list[Obstacle | None] = []

    def run(self) -> Schedule:
        for number in self.view.constants:
            self.knowledge[number] = Knowledge(0, 0, 0, 0, Source.GIVEN, shape_on_host=0)
        for number in self.view.inputs:
            self.knowledge[number] = self._given(number)
        for node in range(len(self.view.nodes)):
            self._place(node)
        return Schedule(
            tuple(self.placement),
            tuple(self.stage),
            tuple(self.obstacles),
            tuple(self.knowledge),
        )

    def _given(self, number: int) -> Knowledge:
        if self.times[number] is not BindingTime.HOST:
            return Knowledge(in_region=0, shape_on_host=0)
        # A mask may be made of sizes; a real number would be compiled for again and again.
        variable = self.view.variables[number]
        selects = ndim_of(variable) <= self._largest_rank and dtype_of(variable) in discrete_dtypes
        as_data = 0 if selects else NEVER
        return Knowledge(0, 0, 0, as_data, Source.GIVEN, shape_on_host=0)

    def _place(self, node: int) -> None:
        facts = self.facts[node]
        obstacle = facts.obstacle or self._unmet_static(self.view.nodes[node], facts)
        fold_stage, fold_fetches = self._fold(node, on_host=False)
        if obstacle is None and not self._all_data(node):
            placement, stage = Placement.REGION, self._region_stage(node)
        elif facts.foldable and facts.obstacle is None and self._data_stage(node) < NEVER:
            placement, stage, obstacle = Placement.FOLD, self._data_stage(node), None
        else:
            placement, stage = Placement.HOST, self._slot(node)
        self.placement.append(placement)
        self.stage.append(stage)
        self.obstacles.append(obstacle)
        for number in self.view.node_outputs[node]:
            if placement is Placement.HOST:
                self.knowledge[number] = self._from_host_step(number, stage)
            else:
                self.knowledge[number] = self._computed(
                    node, number, stage, fold_stage, fold_fetches
                )

    def _unmet_static(self, apply: GraphNode, facts: NodeFacts) -> Obstacle | None:
        """The obstacle of a node with a static input that nobody will know."""
        for number in facts.sizes:
            if self.knowledge[number].while_tracing == NEVER:
                is_array = not can_be_static(self.view.variables[number])
                return Obstacle(
                    Code.NEVER_STATIC,
                    f"{self.view.expression_of(number)} must be known before JAX can compile this "
                    f"operation, and it is {'an array' if is_array else 'a real number'} computed "
                    "while the function runs",
                    Remedy.KNOWN_SIZE.text(),
                )
        for number in facts.data:
            if self.knowledge[number].as_data == NEVER:
                return Obstacle(
                    Code.DATA_DEPENDENT_SHAPE,
                    "the shape of its result depends on the values of "
                    f"{self.view.expression_of(number)}, and JAX compiles for fixed shapes",
                    either(*remedies(apply.op, apply)),
                )
        return None

    def _all_data(self, node: int) -> bool:
        """Return True if a node has nothing to trace: its every input is data it must see."""
        data = self.facts[node].data
        return bool(data) and set(self.view.node_inputs[node]) <= set(data)

    def _region_stage(self, node: int) -> int:
        facts = self.facts[node]
        stage = 0
        for number in self.view.node_inputs[node]:
            known = self.knowledge[number]
            if number in facts.sizes:
                stage = max(stage, known.while_tracing)
            elif number in facts.data:
                stage = max(stage, known.as_data)
            else:
                stage = max(stage, known.in_region)
        return stage

    def _data_stage(self, node: int) -> int:
        stages = [
            self.knowledge[number].in_region
            if number in self.facts[node].shape_only
            else self.knowledge[number].as_data
            for number in self.view.node_inputs[node]
        ]
        return max(stages, default=0)

    def _slot(self, node: int) -> int:
        """The first slot at which all inputs of a host step are there."""
        slot = 0
        for number in self.view.node_inputs[node]:
            producer = self.view.producer[number]
            if producer < 0:
                continue
            if self.placement[producer] is Placement.HOST:
                slot = max(slot, self.stage[producer])
            elif self.knowledge[number].source is Source.FOLDED and is_size(
                self.view, self.times, number
            ):
                slot = max(slot, self.knowledge[number].on_host)
            else:
                slot = max(slot, self.stage[producer] + 1)
        return slot

    def _fold(self, node: int, *, on_host: bool) -> tuple[int, frozenset[int]]:
        """When NumPy could compute the node, while JAX traces or on the host, and from what."""
        facts = self.facts[node]
        if not facts.foldable:
            return NEVER, _NONE
        stage, fetches = 0, _NONE
        for number in self.view.node_inputs[node]:
            known = self.knowledge[number]
            if number in facts.shape_only:
                earliest = known.shape_on_host if on_host else known.in_region
            else:
                earliest = known.on_host if on_host else known.while_tracing
                fetches = fetches | known.fetches if known.fetches else fetches
            if earliest == NEVER:
                return NEVER, _NONE
            stage = max(stage, earliest)
        return stage, fetches

    def _from_host_step(self, number: int, slot: int) -> Knowledge:
        while_tracing = slot if may_select(self.view, self.times, number) else NEVER
        return Knowledge(slot, slot, while_tracing, NEVER, Source.STEP, shape_on_host=slot)

    def _computed(
        self, node: int, number: int, stage: int, fold_stage: int, fold_fetches: frozenset[int]
    ) -> Knowledge:
        """The facts about a variable that a region (or NumPy, while tracing) computes."""
        as_data = self._data_stage(node) if self.facts[node].foldable else NEVER
        host_stage, host_fetches = self._fold(node, on_host=True)
        if not may_select(self.view, self.times, number):
            # Arrays are JAX's to compute; only what follows from sizes alone is NumPy's.  So may
            # real numbers be, on the way from one size to another.
            is_array = not can_be_static(self.view.variables[number])
            if is_array and self.times[number] is BindingTime.DEVICE:
                host_stage, host_fetches = NEVER, _NONE
            if host_stage == fold_stage == as_data == NEVER:
                # Almost every variable: one object for all of them, which the garbage collector
                # of a large graph notices.
                return self._arrays.setdefault(stage, Knowledge(stage))
            source = Source.FOLDED if host_stage < NEVER else Source.NOWHERE
            return Knowledge(
                stage,
                host_stage,
                fold_stage,
                as_data,
                source,
                host_fetches or fold_fetches,
                fold_stage,
            )
        # The earliest stage wins; then one copied value beats several; then arithmetic on what is
        # on the host already (the region then depends on the result alone) beats arithmetic while
        # JAX traces, and that beats copying the result.
        ways = [
            (host_stage, len(host_fetches) > 1, 0, host_fetches),
            (fold_stage, len(fold_fetches) > 1, 1, fold_fetches),
        ]
        if self.times[number] is BindingTime.DEVICE or host_stage == fold_stage == NEVER:
            ways.append((stage + 1, False, 2, frozenset({number})))
        when, _, way, fetches = min(ways, key=lambda option: option[:3])
        known = min(when, fold_stage)
        if way == 1:
            return Knowledge(stage, NEVER, known, as_data, Source.NOWHERE, fetches, fold_stage)
        source = Source.FOLDED if way == 0 else Source.FETCHED
        return Knowledge(stage, when, known, as_data, source, fetches, fold_stage)


def may_select(view: GraphView, times: Sequence[BindingTime], number: int) -> bool:
    """Return True if the value of a variable may select a specialisation.

    A real number that the function computes takes any value, and would be compiled for again and
    again.
    """
    variable = view.variables[number]
    if not can_be_static(variable):
        return False
    return times[number] is not BindingTime.DEVICE or not is_real_number(variable)


def is_size(view: GraphView, times: Sequence[BindingTime], number: int) -> bool:
    """Return True if a variable is a size that follows from shapes and integer inputs."""
    return times[number] < BindingTime.DEVICE and can_be_static(view.variables[number])
