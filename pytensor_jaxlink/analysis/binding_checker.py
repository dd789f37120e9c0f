"""An independent check of the binding times: no order of evaluation, only local conditions."""

from __future__ import annotations

from collections.abc import Sequence

from pytensor_jaxlink.analysis.binding import BindingTime
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.ops import shape_inputs


def check_binding_times(view: GraphView, times: Sequence[BindingTime]) -> None:
    """Raise `AssertionError` where the times are not the least solution of the local conditions.

    No value may be known before what it is computed from (soundness), and none may be later than
    the latest of its causes (precision).
    """
    for number, data in view.constants.items():
        assert times[number] is BindingTime.CONSTANT, (
            f"the constant {data} is said to be known at {times[number].name}"
        )
    for node, outputs in enumerate(view.node_outputs):
        apply = view.nodes[node]
        by_shape = set(shape_inputs(apply.op, apply))
        inputs = list(enumerate(view.node_inputs[node]))
        causes = {times[number] for position, number in inputs if position not in by_shape}
        if any(times[number] > BindingTime.CONSTANT for p, number in inputs if p in by_shape):
            causes.add(BindingTime.SHAPE)
        for number in outputs:
            for cause in causes:
                assert times[number] >= cause, (
                    f"{view.expression_of(number)} is said to be known at {times[number].name}, "
                    f"before an input of {apply.op}, known at {cause.name}"
                )
            assert times[number] is BindingTime.CONSTANT or times[number] in causes, (
                f"{view.expression_of(number)} is said to be known as late as {times[number].name} "
                f"without a cause among the inputs of {apply.op}"
            )
