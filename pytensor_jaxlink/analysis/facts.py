"""The facts about each node, from which the partition decides where the node runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.analysis.binding import BindingTime, binding_times
from pytensor_jaxlink.catalogue import Code, ObstacleKind
from pytensor_jaxlink.graph import UNKNOWN, GraphNode, GraphView, user_location
from pytensor_jaxlink.ops import (
    NestedGraph,
    OutputShapes,
    UnknownShapes,
    can_be_static,
    data_inputs,
    output_shapes,
    remedies,
    remedies_of_size,
    shape_inputs,
    static_inputs,
)
from pytensor_jaxlink.remedies import Remedy, either


@dataclass(frozen=True)
class Obstacle:
    """One reason: its code, in words for people, and what would remove it."""

    code: Code
    reason: str
    remedy: str

    @property
    def kind(self) -> ObstacleKind:
        """The kind of reason."""
        kind = self.code.kind
        assert kind is not None, "the code of an error is no reason of a graph break"
        return kind


@dataclass(frozen=True, eq=False)
class Callback:
    """A node that JAX cannot run and calls.

    Attributes
    ----------
    obstacle
        Why JAX cannot run it.
    shapes
        What it will return.
    """

    obstacle: Obstacle
    shapes: OutputShapes


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Answers to all the questions about one node, as variable numbers.

    Attributes
    ----------
    sizes
        Static, and may select a specialisation.
    data
        Static, but only where they follow from shapes and sizes.
    shape_only
        Read for their shape, and at no place of the node for their value.
    obstacle
        Why JAX cannot run the node whatever is known, or None.
    callback
        How JAX calls the node, if it cannot run it.
    foldable
        Whether NumPy may compute the node while JAX traces (it has no state and no side effect).
    inner
        The analyses of the node's inner graphs, if the linker lowers these itself.
    """

    sizes: tuple[int, ...]
    data: tuple[int, ...]
    shape_only: tuple[int, ...]
    obstacle: Obstacle | None
    foldable: bool
    inner: tuple[InnerAnalysis, ...] = ()
    callback: Callback | None = None

    @property
    def static(self) -> frozenset[int]:
        """The inputs whose values JAX must have when it traces the node: sizes and data."""
        return frozenset((*self.sizes, *self.data))


# Almost every node: one object for all of them.
_PLAIN = NodeFacts((), (), (), obstacle=None, foldable=True)


@dataclass(frozen=True, eq=False)
class InnerAnalysis:
    """The facts of an inner graph that runs inside one JAX computation.

    Attributes
    ----------
    static
        Positions among the inner inputs whose values the inner nodes need as static values.
    obstacles
        What keeps the inner graph from being traced as a whole, with places.
    """

    view: GraphView
    facts: tuple[NodeFacts, ...]
    times: tuple[BindingTime, ...]
    static: tuple[int, ...]
    obstacles: tuple[Obstacle, ...]


def _nothing(node: GraphNode) -> tuple[int, ...]:
    return ()


def _never(node: GraphNode) -> bool:
    return False


@dataclass(frozen=True)
class Questions:
    """The questions about a node that need JAX's side for an answer.

    Attributes
    ----------
    obstacle
        What the JAX layer sees in the way of a node (no rule for it), or None.
    inner_graphs
        The inner graphs that the linker is to lower by itself: none where the Op is opaque or has a
        JAX rule of its own.
    recorded_sizes
        Positions of inputs that turned out to be sizes, though nobody had declared them.
    may_be_called
        Whether a node with an obstacle may stay in its region, as a callback.
    """

    obstacle: Callable[[GraphNode], Obstacle | None]
    inner_graphs: Callable[[GraphNode], tuple[NestedGraph, ...]]
    recorded_sizes: Callable[[GraphNode], tuple[int, ...]] = field(default=_nothing)
    may_be_called: Callable[[GraphNode], bool] = field(default=_never)


def facts_of(view: GraphView, questions: Questions) -> tuple[NodeFacts, ...]:
    """The facts of each node."""
    return tuple(_describe_node(view, node, questions) for node in range(len(view.nodes)))


def called(facts: Sequence[NodeFacts]) -> frozenset[int]:
    """The nodes that JAX calls."""
    return frozenset(node for node, fact in enumerate(facts) if fact.callback is not None)


def has_callbacks(facts: Sequence[NodeFacts]) -> bool:
    """Return True if JAX calls a node, or one in an inner graph."""
    return any(
        fact.callback is not None or any(has_callbacks(inner.facts) for inner in fact.inner)
        for fact in facts
    )


def _describe_node(view: GraphView, node: int, questions: Questions) -> NodeFacts:
    apply, inputs = view.nodes[node], view.node_inputs[node]
    obstacle = questions.obstacle(apply)
    if obstacle is not None and questions.may_be_called(apply):
        shapes = output_shapes(apply.op, apply)
        if isinstance(shapes, OutputShapes):
            sizes = tuple(sorted({inputs[position] for position in shapes.by_value}))
            callback = Callback(obstacle, shapes)
            return NodeFacts(sizes, (), (), None, foldable=False, callback=callback)
        obstacle = _not_called(obstacle, shapes)
    sizes = {inputs[position] for position in static_inputs(apply.op, apply)}
    sizes.update(inputs[position] for position in questions.recorded_sizes(apply))
    inner_graphs = questions.inner_graphs(apply)
    within = user_location(view, node) if inner_graphs else None
    inner = tuple(_analyse_inner(graph, questions, within) for graph in inner_graphs)
    if inner:
        obstacle = obstacle or _inner_obstacle(inner)
        sizes.update(
            inputs[position]
            for graph, analysis in zip(inner_graphs, inner, strict=True)
            for number in analysis.static
            if (position := graph.outer_position[number]) is not None
        )
    data = tuple(inputs[position] for position in data_inputs(apply.op, apply))
    by_shape = _only_by_shape(apply, inputs)
    foldable = not isinstance(apply.op, RandomVariable) and (
        obstacle is None or obstacle.kind is not ObstacleKind.UNTRANSPILABLE
    )
    if foldable and not (sizes or data or by_shape or obstacle or inner):
        return _PLAIN
    return NodeFacts(tuple(sorted(sizes)), data, by_shape, obstacle, foldable, inner)


def _only_by_shape(apply: GraphNode, inputs: Sequence[int]) -> tuple[int, ...]:
    """The variables that a node reads by shape alone: it may read one at several places."""
    places = shape_inputs(apply.op, apply)
    by_value = {number for place, number in enumerate(inputs) if place not in places}
    return tuple(sorted({inputs[place] for place in places} - by_value))


def _not_called(obstacle: Obstacle, shapes: UnknownShapes) -> Obstacle:
    """The obstacle of a node that may be called, and cannot."""
    is_missing = obstacle.kind is ObstacleKind.UNTRANSPILABLE
    return replace(
        obstacle,
        code=Code.NO_CALLBACK if is_missing else obstacle.code,
        reason=f"{obstacle.reason}; and it cannot be a callback: {shapes.reason}",
    )


def _analyse_inner(
    inner_graph: NestedGraph, questions: Questions, within: str | None
) -> InnerAnalysis:
    view = GraphView.of(inner_graph.fgraph, within)
    facts = facts_of(view, questions)
    input_times = [
        BindingTime.HOST
        if position is not None and can_be_static(view.variables[number])
        else BindingTime.DEVICE
        for number, position in zip(view.inputs, inner_graph.outer_position, strict=True)
    ]
    times = binding_times(view, input_times, called(facts))
    obstacles = [
        replace(
            found,
            reason=found.code.mark(
                f"{view.operation_of(node)}{_place(view, node)}: {found.reason}"
            ),
        )
        for node in range(len(view.nodes))
        if (found := _not_traceable(view, node, facts[node], times)) is not None
    ]
    needed = static_variables(view, facts, times)
    static = tuple(position for position, number in enumerate(view.inputs) if number in needed)
    return InnerAnalysis(view, facts, times, static, tuple(obstacles))


def _place(view: GraphView, node: int) -> str:
    """The user's line of an inner node, where it is another one than that of the outer node."""
    location = user_location(view, node)
    return "" if location in (UNKNOWN, view.within) else f" at {location}"


def _not_traceable(
    view: GraphView, node: int, facts: NodeFacts, times: Sequence[BindingTime]
) -> Obstacle | None:
    if facts.obstacle is not None:
        return facts.obstacle
    apply = view.nodes[node]
    for numbers, code, verb, question in (
        (facts.sizes, Code.FETCHED_SIZE, "needs the value of", remedies_of_size),
        (facts.data, Code.DATA_DEPENDENT_SHAPE, "selects by", remedies),
    ):
        for number in numbers:
            if times[number] is BindingTime.DEVICE:
                reason = f"it {verb} {view.expression_of(number)}, which is computed while it runs"
                return Obstacle(code, reason, either(*question(apply.op, apply)))
    return None


def _inner_obstacle(inner: Sequence[InnerAnalysis]) -> Obstacle | None:
    found = list(dict.fromkeys(each for analysis in inner for each in analysis.obstacles))
    if not found:
        return None
    reasons = "; ".join(dict.fromkeys(obstacle.reason for obstacle in found))
    return Obstacle(
        Code.INNER_BREAK,
        f"its inner graph cannot be traced as a whole ({reasons})",
        either(*(obstacle.remedy for obstacle in found), Remedy.MOVE_OUT.text()),
    )


def static_variables(
    view: GraphView, facts: Sequence[NodeFacts], times: Sequence[BindingTime]
) -> frozenset[int]:
    """The backward analysis: every variable whose value some node needs while JAX traces.

    The causes of a static value are static, except through Ops that read only a shape.  At DEVICE
    values the pass ends: the graph is cut.
    """
    needed: set[int] = set()
    stack = [number for fact in facts for number in fact.static]
    while stack:
        number = stack.pop()
        if number in needed or times[number] is BindingTime.DEVICE:
            continue
        needed.add(number)
        producer = view.producer[number]
        if producer >= 0:
            by_shape = facts[producer].shape_only
            stack += [cause for cause in view.node_inputs[producer] if cause not in by_shape]
    return frozenset(needed)
