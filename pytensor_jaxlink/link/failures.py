"""When JAX fails: PyTensor finishes the call, and the plan is changed if JAX was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply

from pytensor_jaxlink.errors import FAILED_NODE, REFUTED
from pytensor_jaxlink.graph import op_name, operation_with_place
from pytensor_jaxlink.link.fallback import PythonFallback, Unpadded
from pytensor_jaxlink.lowering import Rules
from pytensor_jaxlink.plan import Plan

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph


class Failures:
    """The failures of one compiled graph.

    ``rules``, the JAX implementations of its nodes, keep what has failed.

    Attributes
    ----------
    fallback
        Evaluates a call by PyTensor's own implementation.
    """

    def __init__(self, compiled: CompiledGraph, rules: Rules) -> None:
        self._compiled, self._rules = compiled, rules
        self.fallback: PythonFallback | Unpadded = PythonFallback(compiled.source)

    def finish(
        self, inputs: Sequence[object], error: BaseException | None, plan: Plan
    ) -> Sequence[Any]:
        """Finish a call by PyTensor's own implementation, and record the failure.

        If that implementation raises, the failure was the user's to see: it raises what PyTensor's
        Python linker raises, and nothing is recorded.  If it succeeds, JAX was wrong about a node:
        the plan is changed so that the next call does not fail, and this call has its result.

        Parameters
        ----------
        inputs
            The values of the call.
        error
            The failure of a region, or of an Op on the host; None where a condition is false.
        plan
            The plan that failed.  A failure of an earlier plan than the present one has been
            recorded, by another thread.
        """
        compiled = self._compiled
        node: Apply | None = getattr(error, FAILED_NODE, None)
        if error is not None and node is None and compiled.has_effects:
            raise error
        compiled.stats.fallbacks += 1
        try:
            outputs = self.fallback(inputs, error, compiled.stats)
        except Exception as raised:
            self._note_static_values(raised, inputs)
            raise raised from None
        broken = self._rules.take_broken_promise()
        if error is None and broken is not None:
            raise broken
        if error is not None and node is not None and not hasattr(error, REFUTED):
            with compiled.lock:
                if compiled.changing.is_plan(plan):
                    self._record(node, error)
            if (refused := compiled.refusal()) is not None:
                raise refused from error
        return outputs

    def _note_static_values(self, error: BaseException, inputs: Sequence[object]) -> None:
        """Name the inputs whose values selected the specialisation that failed."""
        view = self._compiled.view
        values = dict(zip(view.inputs, inputs, strict=True))
        for position in self._compiled.form.static:
            number = view.inputs[position]
            is_shared = isinstance(self._compiled.source.inputs[position], SharedVariable)
            what = "the shared variable" if is_shared else f"argument {position},"
            value = np.array2string(np.asarray(values[number]), threshold=10, separator=", ")
            error.add_note(
                f"{what} {view.expression_of(number)!r}, a size or bound of "
                f"this function, was {value}"
            )

    def _record(self, node: Apply, error: BaseException) -> None:
        """Have the plan made anew, so that the failure of a node does not come again."""
        view = self._compiled.view
        change = self._rules.record(node, error)
        where = f"{op_name(node.op)} in an inner graph"
        if node in view.nodes:
            where = operation_with_place(view, view.nodes.index(node))
        self._compiled.record(f"{where}: {change}")
        self._compiled.build_again()
