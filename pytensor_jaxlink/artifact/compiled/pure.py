"""A loaded function as JAX sees it: pure, with named arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError, NotJittableError, NotSavedError
from pytensor_jaxlink.plan import HostBranch, HostLoop, HostStep
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import Donatable, Executor


class Pure:
    """The pure function of a loaded function, and its arguments.

    Attributes
    ----------
    signature
        What the function takes, gives and keeps.
    from_graph
        Makes the function of the graph layer, once; None where the file has none.
    without_graph
        The reason why the function has no graph layer, where that was wanted.
    """

    signature: Signature
    from_graph: Callable[[], Any] | None = None
    without_graph: str | None = None
    _executor: Executor
    _tracer: Executor
    _updated: Sequence[int]

    def _donatable(self) -> Donatable | None:
        raise NotImplementedError

    def _instead(self, error: Exception) -> Any:
        raise NotImplementedError

    @property
    def jax_fn(self) -> Callable[..., list[Any]]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``, to be traced by JAX.

        It can be differentiated as often as ``vjp_order`` said when the function was saved.
        """
        count = len(self.signature.inputs)
        results = len(self.signature.outputs) + len(self._updated)

        def traced(*values: object) -> list[object]:
            if len(values) != count:
                text = f"expected {count} arguments, found {len(values)}"
                raise TypeError(Code.CALL_OF_PURE.mark(text))
            try:
                return self._tracer.trace(values)[:results]
            except NotSavedError as error:
                return self._instead(error).jax_fn(*values)

        return traced

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the arguments of `jax_fn`; of one without a name, its type."""
        return tuple(spec.name or spec.type.text for spec in self.signature.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of what `jax_fn` gives: outputs, then the shared variables it updates."""
        outputs = [spec.name or spec.type.text for spec in self.signature.outputs]
        return (*outputs, *(self.input_names[place] for place in self._updated))

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If JAX cannot trace the function, because it has graph breaks.
        """
        plan, needed = self._executor.plan, self._executor.static
        breaks = [
            step.operation
            for step in plan.steps
            if isinstance(step, HostLoop | HostBranch)
            or (isinstance(step, HostStep) and not step.folded)
        ]
        computed = {number for region in plan.own_regions for number in region.results}
        breaks += [f"the copy of {plan.names[number]}" for number in sorted(needed & computed)]
        if breaks:
            raise NotJittableError(f"on the host run {', '.join(breaks)}: JAX cannot trace that")
        return tuple(k for k, number in enumerate(plan.inputs) if number in needed)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that may be donated to `jax.jit`, by the option ``donate``."""
        return tuple(sorted(self._donatable_inputs(self.static_argnums)))

    def _donatable_inputs(self, static: Sequence[int]) -> set[int]:
        found = self._donatable()
        if found is None:
            return set()
        arrays = {k for k, spec in enumerate(self.signature.inputs) if spec.type.kind == "array"}
        return arrays & {*found.updated, *found.given} - {*static}

    @property
    def updates(self) -> Mapping[int, int]:
        """For each place among the results of `jax_fn` that is an update, that of its argument."""
        return dict(enumerate(self._updated, start=len(self.signature.outputs)))

    def explain(self) -> Any:
        """The explanation of the graph layer's function: regions, and the reasons of the breaks.

        Raises
        ------
        ArtifactError
            If the file has no graph layer.
        """
        if self.without_graph is not None:
            text = f"the function has no graph layer, because {self.without_graph}"
            raise ArtifactError(text, code=Code.NO_GRAPH_LAYER)
        if self.from_graph is None:
            raise ArtifactError(
                f"the file has no graph to explain. {Remedy.SAVE_GRAPH_TOO.text()}.",
                code=Code.NO_GRAPH_LAYER,
            )
        return self.from_graph().explain()
