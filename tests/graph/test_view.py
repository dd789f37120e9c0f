"""The numbered view, and the user's line of a node."""

from __future__ import annotations

from pathlib import Path

import pytensor
import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.graph import GraphView, user_location


def view_of(x: pt.TensorVariable, output: pt.TensorVariable) -> GraphView:
    return GraphView.of(FunctionGraph([x], [output], clone=False))


def test_variables_are_numbered_in_topological_order() -> None:
    x = pt.dvector("x")
    view = view_of(x, pt.exp(x) + 2.0)
    assert view.inputs == (0,)
    for node, inputs in enumerate(view.node_inputs):
        assert all(view.producer[number] < node for number in inputs)
    assert [view.expression_of(number) for number in view.outputs] == ["(exp(x) + 2)"]


def test_consumers_are_listed_once() -> None:
    x = pt.dvector("x")
    view = view_of(x, x * x)
    assert view.consumers[0] == (0,)


def test_sizes_are_shown_as_expressions() -> None:
    n = pt.lscalar("n")
    view = view_of(n, n // 2)
    assert view.expression_of(view.outputs[0]) == "(n // 2)"


def test_large_expressions_are_cut() -> None:
    x = pt.dvector("x")
    value = x
    for _ in range(3_000):
        value = value + value  # as text, longer than the universe
    view = view_of(x, value.argmax())
    assert view.expression_of(view.outputs[0]) == "argmax((... + ...) + (... + ...))"


def here() -> int:
    import inspect

    return inspect.currentframe().f_back.f_lineno


def test_a_node_has_the_line_that_wrote_it() -> None:
    x = pt.dvector("x")
    y, line = pt.exp(x), here()
    assert user_location(view_of(x, y), 0) == f"{Path(__file__)}:{line}"


def test_a_node_without_a_trace_takes_its_readers_line() -> None:
    x = pt.dvector("x")
    with pytensor.config.change_flags(traceback__limit=0):
        inner = pt.exp(x)
    y, line = pt.tanh(inner), here()
    inner.tag.trace = None
    assert user_location(view_of(x, y), 0) == f"{Path(__file__)}:{line}"


def test_no_trace_at_all() -> None:
    x = pt.dvector("x")
    y = pt.exp(x)
    y.tag.trace = None
    assert user_location(view_of(x, y), 0) == "<unknown>"


def test_of_a_deep_expression_the_outside_is_shown() -> None:
    x = pt.dvector("x")
    far = pt.exp(pt.sin(pt.cos(pt.tanh(pt.exp(pt.sin(pt.cos(x + 1) + 2) + 3)))))
    view = view_of(x, far.argmax() + 1)
    assert view.expression_of(view.outputs[0]) == "(argmax(exp(sin(cos(tanh(exp(...)))))) + 1)"
