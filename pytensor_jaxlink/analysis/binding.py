"""The forward analysis: the earliest time at which each value is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum

from pytensor_jaxlink.graph import GraphVariable, GraphView
from pytensor_jaxlink.ops import can_be_static, is_real_number, shape_inputs


class BindingTime(IntEnum):
    """When a value is known; a chain, earliest first, joined by ``max``."""

    CONSTANT = 0
    """When the function is built."""
    SHAPE = 1
    """When JAX traces: it follows from the shapes of arguments."""
    HOST = 2
    """When the function is called, before a region starts: integer inputs and what follows."""
    DEVICE = 3
    """Only when a region has run."""


def input_binding_times(
    view: GraphView, changing: Collection[int] = (), *, computed: bool = False
) -> tuple[BindingTime, ...]:
    """The binding time of each input of a function: HOST where it may select a specialisation.

    Parameters
    ----------
    changing
        The positions of inputs that are data whatever their type: dynamic sizes, and what changes
        from run to run of an inner graph.
    computed
        Whether the inputs are what a surrounding function computes, as in the graph of a loop: then
        no real number among them selects anything.
    """

    def time(position: int, variable: GraphVariable) -> BindingTime:
        if position in changing or not can_be_static(variable):
            return BindingTime.DEVICE
        if computed and is_real_number(variable):
            return BindingTime.DEVICE
        return BindingTime.HOST

    return tuple(time(k, view.variables[number]) for k, number in enumerate(view.inputs))


def binding_times(
    view: GraphView, input_times: Sequence[BindingTime], called: Collection[int] = ()
) -> tuple[BindingTime, ...]:
    """The binding time of every variable of ``view``.

    One pass in topological order: a node's outputs are known when all that it reads is known, and
    of some inputs it reads only the shape (`shape_inputs`), which JAX knows when it traces.  A
    graph has no cycles (the states of a `Scan` are DEVICE from the start, because `jax.lax.scan`
    traces them), so this pass is already the fixpoint.  Linear in the size of the graph.

    Parameters
    ----------
    view, input_times
        The graph, and the times of its inputs.
    called
        The nodes that a region calls: their outputs are DEVICE, whatever they read.
    """
    times = [BindingTime.DEVICE] * len(view.variables)
    for number in view.constants:
        times[number] = BindingTime.CONSTANT
    for number, time in zip(view.inputs, input_times, strict=True):
        times[number] = time
    for node, outputs in enumerate(view.node_outputs):
        time = BindingTime.DEVICE
        if node not in called:
            time = node_binding_time(view, node, times)
        for number in outputs:
            times[number] = time
    return tuple(times)


def node_binding_time(view: GraphView, node: int, times: Sequence[BindingTime]) -> BindingTime:
    """The join over what one node reads."""
    apply = view.nodes[node]
    by_shape = shape_inputs(apply.op, apply)
    return _join(
        min(times[number], BindingTime.SHAPE) if position in by_shape else times[number]
        for position, number in enumerate(view.node_inputs[node])
    )


def _join(times: Iterable[BindingTime]) -> BindingTime:
    return max(times, default=BindingTime.CONSTANT)
