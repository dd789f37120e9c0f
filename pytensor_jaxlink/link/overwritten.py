"""Inputs that operations in place overwrite.

JAX has no operations in place.  Where a graph holds some that end in an input of the function (the
user declared it mutable), what they leave there is computed as one more output and written into the
user's array after the call, so that the effect is PyTensor's.
"""

from __future__ import annotations

from typing import Any

from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.rewriting import given_of, hand_on, keep_given


def with_overwritten(fgraph: FunctionGraph) -> tuple[FunctionGraph, tuple[int, ...]]:
    """The graph with what overwrites inputs as further outputs, and the positions of these inputs.

    The graph itself is returned where no input is overwritten, a changed copy otherwise.
    """
    final = _final_contents(fgraph)
    if not final:
        return fgraph, ()
    copy, copies = fgraph.clone_get_equiv()
    added: list[Any] = [copies[variable] for variable in final.values()]
    hand_on(fgraph, copy)
    if given := given_of(fgraph):
        keep_given(copy, given)
    for variable in added:
        copy.add_output(variable)
    return copy, tuple(final)


def _final_contents(fgraph: FunctionGraph) -> dict[int, Variable]:
    """For each input that is overwritten as a whole, what it holds in the end."""
    place: dict[Variable, int] = {v: position for position, v in enumerate(fgraph.inputs)}
    final: dict[int, Variable] = {}
    for node in fgraph.toposort():
        for output, destroyed in node.op.destroy_map.items():
            for position in destroyed:
                found = place.get(node.inputs[position])
                if found is not None:
                    place[node.outputs[output]] = found
                    final[found] = node.outputs[output]
    return final
