"""The facts of single nodes, and which values they make static."""

from __future__ import annotations

from typing import Any

import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink import ops
from pytensor_jaxlink.analysis import (
    BindingTime,
    NodeFacts,
    Obstacle,
    Questions,
    called,
    facts_of,
    has_callbacks,
)
from pytensor_jaxlink.analysis.facts import static_variables
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.graph import GraphNode, GraphView
from tests.helpers import analysed, sort_down
from tests.link.test_callbacks import as_op, shape_of_first

X, N, K = pt.dvector("x"), pt.lscalar("n"), pt.lscalar("k")


def facts_and_view(output: Any, questions: Questions) -> tuple[NodeFacts, GraphView]:
    """The facts of the node that makes an output."""
    view = GraphView.of(FunctionGraph(outputs=[output], clone=True))
    return facts_of(view, questions)[view.producer[view.outputs[0]]], view


def names(view: GraphView, numbers: Any) -> list[str | None]:
    return [view.variables[number].name for number in numbers]


@pytest.mark.parametrize(
    ("output", "sizes", "data"),
    [
        (pt.zeros(N), [1], []),
        (pt.arange(N, K), [0, 1, 2], []),
        (X.reshape((N, K), ndim=2), [1], []),
        (X[N], [], []),
        (X[N:K], [1, 2], []),
        (X[pt.vector("m", dtype="bool")], [], [1]),
        (pt.exp(X), [], []),
    ],
    ids=["zeros", "arange", "reshape", "an entry", "a slice", "a mask", "exp"],
)
def test_sizes_and_data(output: Any, sizes: list[int], data: list[int]) -> None:
    facts, view = facts_and_view(output, Questions(lambda node: None, lambda node: ()))
    inputs = view.node_inputs[view.producer[view.outputs[0]]]
    assert {*facts.sizes} == {inputs[place] for place in sizes}
    assert facts.data == tuple(inputs[place] for place in data)
    assert facts.static == {*facts.sizes, *facts.data}
    assert facts.foldable


def test_most_nodes_share_one_object() -> None:
    _, facts, _ = analysed([X], [pt.exp(X) + 1, pt.sin(X)])
    assert len({*map(id, facts)}) == 1


def test_draws_and_untranspilable_nodes_are_not_folded() -> None:
    missing = Obstacle(Code.NO_RULE, "no rule", "a rule")
    for output, obstacle in ((pt.random.normal(X), None), (pt.exp(X), missing)):
        questions = Questions(lambda node, obstacle=obstacle: obstacle, lambda node: ())
        facts, _ = facts_and_view(output, questions)
        assert not facts.foldable
        assert facts.obstacle == obstacle


def test_a_recorded_size_is_one() -> None:
    facts, view = facts_and_view(X * N, Questions(lambda n: None, lambda n: (), lambda n: (0,)))
    [size] = facts.sizes
    assert names(view, [size]) == ["x"]


@pytest.mark.parametrize("may", [False, True])
def test_a_callback_has_no_obstacle(may: bool) -> None:
    missing = Obstacle(Code.NO_RULE, "no rule", "a rule")
    op = as_op(sort_down, [X.type], [X.type], shape_of_first)
    questions = Questions(
        lambda node: missing if node.op is op else None,
        lambda node: (),
        may_be_called=lambda node: may,
    )
    view = GraphView.of(FunctionGraph(outputs=[op(X) + 1], clone=True))
    facts = facts_of(view, questions)
    [place] = [node for node, apply in enumerate(view.nodes) if apply.op is op]
    if may:
        assert facts[place].obstacle is None
        assert facts[place].callback is not None
        assert facts[place].callback.obstacle is missing
    else:
        assert facts[place].obstacle is missing
    assert called(facts) == ({place} if may else set())
    assert has_callbacks(facts) is may


def test_the_causes_of_a_size_are_static_but_for_those_read_by_shape() -> None:
    view, facts, times = analysed([X, N], [pt.zeros(N * 2 + X.shape[0])])
    found = static_variables(view, facts, times)
    assert {"n"} == {view.variables[number].name for number in found} - {None}


def test_a_computed_size_is_not_static_and_neither_are_its_causes() -> None:
    view, facts, times = analysed([X, N], [pt.zeros(N + X.argmax())])
    [size] = [number for each in facts for number in each.sizes]
    assert times[size] is BindingTime.DEVICE
    assert not static_variables(view, facts, times)


def loop(step: Any) -> Any:
    return pytensor.scan(step, sequences=[X], non_sequences=[N], return_updates=False)


def inner_graphs(node: GraphNode) -> Any:
    return ops.inner_graphs(node.op, node)


def test_a_loop_needs_the_sizes_of_its_steps() -> None:
    facts, view = facts_and_view(
        loop(lambda x, n: pt.zeros(n).sum() + x), Questions(lambda node: None, inner_graphs)
    )
    [inner] = facts.inner
    assert facts.obstacle is None
    assert "n" in names(view, facts.sizes)
    assert len(inner.static) == 1
    assert not inner.obstacles


def test_a_size_that_a_step_computes_is_in_the_way() -> None:
    facts, _ = facts_and_view(
        loop(lambda x, n: pt.zeros(pt.cast(x, "int64")).sum() + n),
        Questions(lambda node: None, inner_graphs),
    )
    [inner] = facts.inner
    [found] = {each.code for each in inner.obstacles}
    assert found is Code.FETCHED_SIZE
    assert facts.obstacle is not None
    assert facts.obstacle.code is Code.INNER_BREAK
    assert inner.obstacles[0].reason in facts.obstacle.reason
