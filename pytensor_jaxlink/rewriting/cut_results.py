"""Results of a length that is computed: the last indexing becomes a cut.

Pattern, at an output::

    full[:k]        full[mask]        m[i, :k]

Replacement: ``CutResult(full, k)``, a step that runs when the value leaves.  A region indexes
``m[i]``.  The length is no size then: nothing is compiled for it, and the graph does not break.  A
host step that reads the value reads it cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph, Output
from pytensor.graph.rewriting.basic import copy_stack_trace
from pytensor.tensor.subtensor import Subtensor

from pytensor_jaxlink.analysis import BindingTime, input_binding_times
from pytensor_jaxlink.analysis.extents import tensor_behind
from pytensor_jaxlink.graph import GraphView, indices_of
from pytensor_jaxlink.ops import CutResult
from pytensor_jaxlink.rewriting.graph_masks import is_one_integer
from pytensor_jaxlink.rewriting.notes import late_values
from pytensor_jaxlink.rewriting.prepare import last_indexing
from pytensor_jaxlink.rewriting.selections import Tensor


def cut_results(
    graph: FunctionGraph, changing: Collection[int], on_host: Callable[[Apply], bool]
) -> None:
    """Have results cut, in place.

    Parameters
    ----------
    graph
        The graph.
    changing
        The positions of the inputs that are data whatever their type.
    on_host
        Whether a node runs on the host anyway, and so takes what has been cut.
    """
    late = _Late(graph, changing)
    # Copies first, which are taken from the end: nothing else reads their originals then.
    waiting: list[Tensor] = sorted(dict.fromkeys(graph.outputs), key=_is_copy)
    while waiting:
        result = waiting.pop()
        node = last_indexing(result)
        if node is None:
            continue
        readers = [reader for reader, _ in graph.clients[result]]
        if all(isinstance(each.op, CutResult | Output) or on_host(each) for each in readers):
            cut = late.cut(node)
            if cut is not None:
                copy_stack_trace(result, cut)
                cut.name = result.name
                graph.replace_all([(result, cut)], import_missing=True)
                waiting.append(cut.owner.inputs[0])


def _is_copy(result: Tensor) -> bool:
    return result.owner is not None and isinstance(result.owner.op, DeepCopyOp)


class _Late:
    """The values of a graph that are known only when a region has run."""

    def __init__(self, graph: FunctionGraph, changing: Collection[int]) -> None:
        view = GraphView.of(graph)
        times = input_binding_times(view, changing)
        self._bounds = late_values(view, times)
        # A mask may be made of sizes, but vectors of integers and real numbers are data to it.
        of_masks = [
            time if is_one_integer(view.variables[number]) else BindingTime.DEVICE
            for time, number in zip(times, view.inputs, strict=True)
        ]
        self._masks = late_values(view, of_masks)

    def cut(self, node: Apply) -> Tensor:
        """The part that a node takes, cut by the host; None where other values index too."""
        indices = indices_of(node)
        if isinstance(node.op, Subtensor):
            return self._sliced(node, indices)
        variables = [index for index in indices if isinstance(index, Variable)]
        whole = all(index == slice(None) for index in indices if isinstance(index, slice))
        if not whole or len(variables) != 1 or variables[0] not in self._masks:
            return None
        [mask] = variables
        return CutResult(node.op)(*node.inputs) if mask.type.dtype == "bool" else None

    def _sliced(self, node: Apply, indices: Sequence[Tensor]) -> Tensor:
        """The same for slices, of which a region takes those to bounds that are known before."""
        last = [index if self._is_late(index) else slice(None) for index in indices]
        if all(index == slice(None) for index in last):
            return None
        first = tuple(slice(None) if self._is_late(index) else index for index in indices)
        left = [k for k, index in zip(last, indices, strict=True) if isinstance(index, slice)]
        array: Tensor = node.inputs[0]
        if any(index != slice(None) for index in first):
            array = array[first]
        indexed = array[tuple(left)]
        return CutResult(indexed.owner.op)(*indexed.owner.inputs)

    def _is_late(self, index: Tensor) -> bool:
        bounds = (index.start, index.stop, index.step) if isinstance(index, slice) else ()
        return any(
            isinstance(bound, Variable) and tensor_behind(bound) in self._bounds for bound in bounds
        )
