"""The inputs and outputs of a function, whoever made it, and the last steps of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pytensor_jaxlink.plan import ARRAYS, Kind, Plan
from pytensor_jaxlink.runtime.arguments import Convert
from pytensor_jaxlink.runtime.boundary import Boundary
from pytensor_jaxlink.runtime.cells import CellReader, Move
from pytensor_jaxlink.runtime.devices import (
    accepts,
    commit,
    copying_to_host,
    ready_as,
    to_numpy,
)
from pytensor_jaxlink.runtime.forks import replace_in_forked_child
from pytensor_jaxlink.runtime.interrupts import store
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.reuse import Donatable
from pytensor_jaxlink.runtime.runnable import taken_by_regions
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, Tracer, device_put

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.executor import Executor
    from pytensor_jaxlink.runtime.fast_path import FastPath

Form = Callable[[Any], object]
"""Changes the form of an output when it leaves."""


_NUMPY_ARRAY: type[Any] = np.ndarray
"""Also its subclasses, such as memory maps."""


@dataclass(frozen=True)
class Ending:
    """The last steps of a call.

    Attributes
    ----------
    copied
        The positions of outputs that are neither arrays nor numbers, and that no step computes: the
        caller gets a copy.
    overwritten
        The inputs that operations in place change: the further outputs are written into them.
    as_numpy
        Whether arrays leave as those of NumPy, not as those of JAX.
    kinds
        The types of the outputs.  Files have them elsewhere.
    cells
        The cells of overwritten inputs that no caller gives.
    """

    copied: tuple[int, ...] = ()
    overwritten: tuple[int, ...] = ()
    as_numpy: bool = False
    kinds: tuple[Kind, ...] = field(default=(), compare=False)
    cells: Mapping[int, list[object]] | None = field(default=None, compare=False)

    def of(self, values: Sequence[Any], outputs: list[Any], stats: Stats) -> list[Any]:
        """The outputs of a plan for values of its inputs, as they leave."""
        outputs = self.overwrite(values, outputs, stats)
        for position, form in self.forms(stats).items():
            outputs[position] = form(outputs[position])
        return outputs

    def forms(self, stats: Stats, plan: Plan | None = None) -> dict[int, Form]:
        """For each output that changes its form, the function that does it.

        ``plan`` is given where the outputs come from its regions as JAX made them.
        """
        return self._forms(stats, plan)

    def _forms(self, stats: Stats, plan: Plan | None) -> dict[int, Form]:
        of_kinds: dict[str, Form] = {"array": as_jax_array, "number": as_jax_array}
        if self.as_numpy:
            of_kinds["array"] = copying_to_host(stats)
            of_kinds["number"] = lambda value: to_numpy(value, stats)[()]
        kinds = enumerate(each.kind for each in self.kinds)
        forms = {place: of_kinds[kind] for place, kind in kinds if kind in of_kinds}
        if plan is not None and not self.as_numpy:
            made = {number for region in plan.own_regions for number in region.results}
            forms = {k: form for k, form in forms.items() if plan.outputs[k] not in made}
        for position in self.copied:
            forms[position] = deepcopy
        return forms

    def forms_in_child(self, stats: Stats, plan: Plan | None = None) -> dict[int, Form]:
        """The same in a forked process, where outputs are NumPy's."""
        return replace(self, as_numpy=True)._forms(stats, plan)

    def overwrite(self, values: Sequence[Any], outputs: list[object], stats: Stats) -> list[object]:
        """Leave in the user's arrays what operations in place leave there; gives the outputs."""
        if not self.overwritten:
            return outputs
        count = len(outputs) - len(self.overwritten)
        for position, value in zip(self.overwritten, outputs[count:], strict=True):
            cell = self.cells.get(position) if self.cells else None
            if cell is not None and type(cell[0]) is ARRAY:  # which nobody writes into
                [cell[0]] = ready_as([cell[0]], [as_jax_array(value)])
                continue
            given, before = values[position], values[:position]
            if not isinstance(given, _NUMPY_ARRAY) or not given.flags.writeable:
                continue
            # PyTensor copies an argument that shares memory with one before it.
            arrays = [other for other in before if isinstance(other, _NUMPY_ARRAY)]
            if not any(np.may_share_memory(given, other) for other in arrays):
                np.copyto(given, to_numpy(value, stats))
        return outputs[:count]


replace_in_forked_child(Ending, forms=Ending.forms_in_child)


def as_jax_array(value: Any) -> object:
    """An output as a `jax.Array`."""
    if type(value) is ARRAY:
        return value
    # A copy: the value may be a view of what the user gave or what a shared variable holds.  By
    # NumPy: `jax.numpy.array` would compile a program for each new shape.
    found = value
    if isinstance(value, np.ndarray | np.generic):
        found = np.array(found)
    return device_put(found)


def as_jax_gives(value: object) -> object:
    """A NumPy array as one of JAX's, unless somebody traces: there the value would be lost."""
    is_numpy = isinstance(value, np.ndarray | np.generic)
    array = as_jax_array(value) if is_numpy else value
    return value if isinstance(array, Tracer) else array


@dataclass(eq=False)
class Interface:
    """The inputs and outputs of a function, whether it was compiled here or loaded.

    Attributes
    ----------
    inputs, outputs
        Their names; of one without a name, its type.
    kinds
        The types of the inputs.
    make_converters
        Makes `converters`, when they are needed.
    form
        The form of the answer: one output, a list of all, or None.
    storage
        For each input, the list that holds its value between calls.
    given
        The inputs that the caller gives; the others keep their values.
    updated
        The inputs of which a call leaves new values, which follow the outputs in this order.
    mutable
        The inputs whose memory the caller gives away.
    donate
        The option of this name.
    ending
        The last steps of a call.
    movers
        How the values of inputs are moved to the device that calls read again and again.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kinds: tuple[Kind, ...]
    make_converters: Callable[[], Sequence[Convert]]
    form: Literal["one", "list", "none"]
    storage: Sequence[list[Any]]
    given: Sequence[int]
    updated: Sequence[int]
    mutable: frozenset[int]
    donate: str
    ending: Ending
    movers: Mapping[int, Move]

    def __post_init__(self) -> None:
        kept = {*self.ending.overwritten} - {*self.given}
        if kept:
            self.ending = replace(self.ending, cells={k: self.storage[k] for k in kept})

    @property
    def arrays(self) -> frozenset[int]:
        """The inputs that are arrays."""
        return frozenset(k for k, kind in enumerate(self.kinds) if kind.kind in ARRAYS)

    @property
    def updates(self) -> dict[int, int]:
        """For each place among the results that is an update, that of its input."""
        return dict(enumerate(self.updated, start=len(self.outputs)))

    # -- the way in ----------------------------------------------------------------------------

    @cached_property
    def converters(self) -> Sequence[Convert]:
        """The conversion of each argument that JAX does not take as it is; see `fast_converter`."""
        return self.make_converters()

    def boundary(self, executor: Executor) -> Boundary:
        """How the plan of an executor takes the arguments of a call and gives its outputs."""
        x64 = executor.policy.x64
        return Boundary(
            lambda place, value: accepts(value, self.kinds[place], x64=x64),
            lambda place, value: self.converters[place](value),
            self._kept(executor.plan),
            self.ending.forms(executor.stats, executor.plan),
        )

    def _kept(self, plan: Plan) -> dict[int, CellReader]:
        """The inputs that the caller does not give, and how those move that regions alone read."""
        regions = {plan.inputs.index(n) for n in taken_by_regions(plan)} - {*self.updated}
        return {
            k: CellReader(cell, self.movers.get(k) if k in regions else None)
            for k, cell in enumerate(self.storage)
            if k not in self.given
        }

    def donatable(self) -> Donatable | None:
        """The values that a call may overwrite; None where there are none."""
        if self.donate == "none":
            return None
        updated = {place: (result, self.storage[place]) for result, place in self.updates.items()}
        given = frozenset(self.given)
        if self.donate == "updates":
            given &= self.mutable
        if not (updated or given):
            return None
        return Donatable(self.inputs, updated, given, self.donate == "warn")

    def fast(self, executor: Executor, *, repeatable: bool) -> FastPath | None:
        """The plan of an executor as a function; see `Executor.fast`."""
        # NumPy's memory is not JAX's to reuse.
        donatable = None if self.ending.as_numpy else self.donatable()
        boundary = self.boundary(executor)
        return executor.fast(boundary, self.pack(), donatable, repeatable=repeatable)

    def commit(self, values: list[object], policy: Policy) -> None:
        """Put states among the values of all inputs where exported code leaves them.

        So JAX compiles once.
        """
        if not self.ending.as_numpy:
            with policy.here():
                commit(values, [k for k in self.updated if k in self.arrays])

    def commit_states(self, values: list[object], policy: Policy) -> None:
        """The same, and leave the states there."""
        self.commit(values, policy)
        for place in self.updated:
            if place not in self.given:
                self.storage[place][0] = values[place]

    # -- the way out ---------------------------------------------------------------------------

    def answer(self, result: Result, args: Sequence[object], stats: Stats) -> Any:
        """The answer of a call for a result that holds, after its updates are stored."""
        outputs = result.outputs
        if self.ending.overwritten:
            values = [*args, *(cell[0] for cell in self.storage[len(args) :])]
            outputs = self.ending.overwrite(values, outputs, stats)
        return self.packed(outputs) if result.stored else self.stored(outputs)

    def pack(self) -> Callable[[list[object]], object] | None:
        """A function that makes the answer of the outputs, where nothing else is left to do."""
        return None if self.updated or self.ending.overwritten else self.packed

    def stored(self, outputs: list[Any]) -> Any:
        """The answer, when the updates are stored.

        An error of the device shows when they are waited for, and then nothing has been stored.
        """
        if self.updated:
            cells = self._updated_cells
            new = outputs[len(self.outputs) :]
            store(cells, ready_as([cell[0] for cell in cells], new))
        return self.packed(outputs)

    @cached_property
    def _updated_cells(self) -> Sequence[list[object]]:
        return [self.storage[place] for place in self.updated]

    def packed(self, outputs: list[Any]) -> Any:
        """The outputs in the form of the answer."""
        if self.form == "one":
            return outputs[0]
        return None if self.form == "none" else outputs[: len(self.outputs)]
