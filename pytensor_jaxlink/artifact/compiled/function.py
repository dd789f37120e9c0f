"""The function that `load` returns from the compiled layer.  It needs no PyTensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex

import jax
import numpy as np

from pytensor_jaxlink.artifact.compiled.saved_regions import SavedRegion
from pytensor_jaxlink.artifact.compiled.saved_state import SavedState, keep_on_device
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import (
    FAILED_ON_HOST,
    ArtifactError,
    CheckFailedError,
    JAXLinkError,
    NotJittableError,
    NotSavedError,
)
from pytensor_jaxlink.frames import warn_at_user_line
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.plan import CutOff, HostBranch, HostLoop, HostStep, Plan
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import (
    Ending,
    Executor,
    FastCall,
    Interface,
    Stats,
    are_typed_late,
    fast_converter,
    pure_arguments,
    refuse_donated,
    refused,
    taken_by_regions,
)
from pytensor_jaxlink.trees import is_traced


class LoadedFunction(FastCall):
    """A saved function, run from its compiled layer.

    It is called as the function that was saved: positional and keyword arguments, defaults,
    conversions, outputs, updates of shared variables.

    A call raises `TypeError` if arguments are missing, given twice, unknown, or of another type,
    `NotSavedError` if there is no code for its sizes and no way to make it, and `ArtifactError` if
    JAX cannot read or compile the code of a region; the message names the file.

    Attributes
    ----------
    name
        The name of the function.
    signature
        What it takes, gives and keeps.
    state
        Its shared variables, with ``name``, ``get_value`` and ``set_value``.
    plan, stats
        The plan that is run, and counters.
    own_storages
        For each input with a default the list that holds it, else None.
    from_graph
        Makes the function of the graph layer, once, which serves sizes without code; None where
        there is no graph.
    without_graph
        The reason why the function has no graph layer, where that was wanted.
    """

    from_graph: Callable[[], Any] | None = None
    without_graph: str | None = None

    def __init__(
        self,
        signature: Signature,
        cells: Sequence[SavedState],
        own_storages: Sequence[list[object] | None],
        runners: tuple[Executor, Executor],
        ending: Ending,
        converters: Sequence[Callable[[object], object]],
        regions: Sequence[SavedRegion],
    ) -> None:
        self.name, self.signature = signature.name, signature
        self._executor, self._tracer = runners
        self.plan: Plan = self._executor.plan
        self.stats: Stats = self._executor.stats
        self._stats = self.stats
        self._converters, self._regions = converters, regions
        self._warned = self._waited = False
        self.own_storages = own_storages
        inputs = signature.inputs
        places = dict.fromkeys(spec.cell for spec in inputs)
        self.state = tuple(cells[cell] for cell in places if cell is not None)
        given = [k for k, spec in enumerate(inputs) if spec.cell is None]
        updated = [k for k, spec in enumerate(inputs) if spec.updated]
        self.interface = Interface(
            tuple(spec.name or spec.type.text for spec in inputs),
            tuple(spec.name or spec.type.text for spec in signature.outputs),
            tuple(spec.type for spec in inputs),
            lambda: [fast_converter(converters[place]) for place in given],
            signature.form,
            [
                (own or [None]) if spec.cell is None else cells[spec.cell].storage
                for spec, own in zip(inputs, own_storages, strict=True)
            ],
            given,
            updated,
            frozenset(k for k, spec in enumerate(inputs) if spec.mutable),
            str(signature.options.get("donate", "updates")),
            ending,
            {
                k: cells[spec.cell].data.moved
                for k, spec in enumerate(inputs)
                if spec.cell is not None
            },
        )
        taken = taken_by_regions(self.plan)
        read = {
            spec.cell
            for number, spec in zip(self.plan.inputs, inputs, strict=True)
            if not spec.updated and number in taken
        }
        if cells:
            keep_on_device(cells, read, self._executor.policy)
        self._required = [k for k in given if inputs[k].default is None]
        # As in PyTensor, a name that two inputs have, shared variables too, is no keyword.
        named = Counter(spec.name for spec in inputs)
        self._places = {
            name: k for k in given if (name := inputs[k].name) is not None and named[name] == 1
        }
        # What JAX traces does not show the class, which a strict matrix or scalar asks for; a
        # function of trees has looked at its leaves before.
        asks = signature.trees is None
        slow = [k for k in given if asks and inputs[k].strict and inputs[k].type.has_classes]
        slow += [k for k in given if k in updated]
        self._has_fast_path = given == self._required == [*range(len(given))] and not slow

    def _first_or_named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """A call before there is a fast path, or with keywords."""
        if self._waited:
            return self._first_or_later(args, kwargs)
        answer = self._first_or_later(args, kwargs)
        try:
            jax.block_until_ready(answer)
        except jax.errors.JaxRuntimeError as error:  # a kernel that XLA did not wait for
            self._explain(error, args)
            raise
        self._waited = True
        return answer

    def _first_or_later(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        values, found = self._values(args, kwargs), self.interface
        if self._path is None and self._has_fast_path:
            found.commit_states(values, self._executor.policy)
            self._find_fast()
        if self._fast is not None:
            arguments = [values[place] for place in found.given]
            values.clear()  # a state that is held is not donated
            return LoadedFunction.__call__(self, *arguments)
        return self._run(values)

    def _traced(self, args: tuple[object, ...]) -> object:
        values = [cell[0] for cell in self.interface.storage]
        for place, value in zip(self.interface.given, args, strict=True):
            is_typed = self.signature.trust_input or is_traced(value)
            values[place] = value if is_typed else self._converters[place](value)
        return self.interface.stored(self.jax_fn(*values))

    def _slow(self, args: tuple[object, ...]) -> object:
        return self._run(self._values(args, {}))

    def _run(self, values: list[object]) -> object:
        """The call with values of all inputs that have been converted."""
        self.interface.commit(values, self._executor.policy)
        try:
            outputs = self._executor(values)
        except (NotSavedError, CheckFailedError) as error:
            unfinished: Exception = error
        except JAXLinkError:
            raise
        except Exception as error:
            if hasattr(error, FAILED_ON_HOST) and self.from_graph is not None:
                return self._by_graph(values, error)
            try:
                self._explain(error, values)
            except NotSavedError as explained:
                unfinished = explained
            else:
                raise
        else:
            return self._left(values, outputs)
        return self._by_graph(values, unfinished)

    def _left(self, values: list[object], outputs: list[Any]) -> object:
        """The result of a call: outputs in their forms, and updates stored."""
        outputs = self.interface.ending.of(values, outputs, self.stats)
        for place in {*self.interface.given} - {*self._required}:
            # As PyTensor does: the default is the last.
            self.interface.storage[place][0] = values[place]
        return self.interface.stored(outputs)

    def _find_fast(self) -> None:
        self._path = self._fast = self.interface.fast(self._executor, repeatable=True)
        if are_typed_late(self.plan, len(self.interface.given)):
            self._convert_always()  # or an argument has another type when an Op has run

    def _runs(self) -> Executor:
        return self._executor

    def _without_jax(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if self.from_graph is None:
            raise refused("a saved function with no graph layer cannot run")
        values = self._values(args, kwargs)
        function = self._instead(refused("the code of a saved function cannot run"))
        return function(*(values[place] for place in self.interface.given))

    def _is_final(self, error: BaseException) -> bool:
        return super()._is_final(error) and self.from_graph is None

    def _by_graph(self, values: Sequence[object], error: Exception) -> object:
        """The call, finished by the function of the graph layer, which has the same state.

        Where a check was false, PyTensor raises the exception that it stands for, or has a value:
        checks are also of what the code can do.  Where a step on the host raised, a region before
        it may have a check that is false.
        """
        function = self._instead(error)
        self.stats.fallbacks += 1
        Topic.FALLBACKS.log(lambda: f"{self.name}: its graph finishes a call; {error}")
        return function(*(values[place] for place in self.interface.given))

    def _instead(self, error: Exception) -> Any:
        """The function compiled from the graph, for a call that the saved code cannot finish."""
        if self.from_graph is None:
            raise error
        # A false check, or an exception of the host, is no defect of the file.
        of_call = isinstance(error, CheckFailedError) or not isinstance(error, JAXLinkError)
        try:
            found = self.from_graph()
        except ArtifactError as other:
            # Without PyTensor there is no code and no way to make it.
            without = isinstance(other.__cause__, ImportError)
            if not (of_call or without):
                raise
            raise error from (None if without else error.__cause__ or other)
        if isinstance(error, JAXLinkError) and not (of_call or self._warned):
            self._warned = True
            text = f"{error.text} For now it is compiled from its graph."
            warn_at_user_line(text, Code.COMPILED_FROM_GRAPH)
        return found

    def _values(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[object]:
        given = dict(zip(self.interface.given, args, strict=False))
        if len(args) > len(self.interface.given) or kwargs.keys() - self._places.keys():
            raise self._wrong_call(args, kwargs)
        for name, value in kwargs.items():
            if self._places[name] in given:
                raise self._wrong_call(args, kwargs)
            given[self._places[name]] = value
        if any(place not in given for place in self._required):
            raise self._wrong_call(args, kwargs)
        trusted = self.signature.trust_input
        values = [cell[0] for cell in self.interface.storage]
        for place, value in given.items():
            values[place] = value if trusted else self._converters[place](value)
        return values

    def _explain(self, error: Exception, values: Sequence[object]) -> None:
        """Raise what is behind an error of a call: an array that was donated, or the file."""
        if isinstance(error, RuntimeError):
            refuse_donated(self.input_names, values)
        for region in self._regions:
            region.check()

    def _wrong_call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> TypeError:
        names = ", ".join(
            (spec.name or "(unnamed)") + ("" if spec.default is None else "=...")
            for spec in self.signature.inputs
            if spec.cell is None
        )
        given = ", ".join(kwargs) or "none"
        text = (
            f"{self.name or 'the function'} takes ({names}); found {len(args)} positional "
            f"arguments and the keywords: {given}"
        )
        return TypeError(Code.CALL_OF_LOADED.mark(text))

    # -- as JAX sees it ------------------------------------------------------------------------

    @property
    def jax_fn(self) -> Callable[..., list[Any]]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``, to be traced by JAX.

        It can be differentiated as often as ``vjp_order`` said when the function was saved.
        """
        results = len(self.output_names)

        def traced(*given: object) -> list[object]:
            values = self._pure_arguments(given)
            try:
                return self._tracer.trace(values)[:results]
            except NotSavedError as error:
                return self._instead(error).jax_fn(*values)

        return traced

    def _pure_arguments(self, values: Sequence[object]) -> Sequence[object]:
        """The arguments of `jax_fn`, those that are read of their types."""
        plan, given = self.plan, self.interface
        read = {*plan.outputs, *(number for step in plan.steps for number in step.reads)}
        kinds = zip(plan.inputs, given.kinds, strict=True)
        of_read = [kind if number in read else None for number, kind in kinds]
        found = pure_arguments(values, given.inputs, of_read)
        return [
            np.asarray(value)
            if isinstance(value, list | tuple) and kind is not None and kind.kind == "array"
            else value
            for value, kind in zip(found, of_read, strict=True)
        ]

    def _static_inputs(self) -> tuple[int, ...]:
        plan, needed = self._executor.plan, self._executor.static
        breaks = [
            step.operation
            for step in plan.steps
            if isinstance(step, CutOff | HostLoop | HostBranch)
            or (isinstance(step, HostStep) and not step.folded)
        ]
        computed = {number for region in plan.own_regions for number in region.results}
        breaks += [f"the copy of {plan.names[number]}" for number in sorted(needed & computed)]
        if breaks:
            raise NotJittableError(f"on the host run {', '.join(breaks)}: JAX cannot trace that")
        return tuple(k for k, number in enumerate(plan.inputs) if number in needed)

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

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be copied or pickled: a copy would share the state, or the code."""
        text = f"{self!r} cannot be copied or pickled. {Remedy.LOAD_AGAIN.text()}."
        raise TypeError(Code.COPY_OF_LOADED.mark(text))

    def __repr__(self) -> str:
        return f"<saved function {self.name or ''}: {len(self.plan.regions)} regions>"
