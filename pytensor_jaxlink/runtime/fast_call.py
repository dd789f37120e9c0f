"""Calls of functions that go straight to compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pytensor_jaxlink.errors import FAILED_NODE, FAILED_ON_HOST, NotAcceptedError
from pytensor_jaxlink.frames import running_line
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime.bindings import Boundary
from pytensor_jaxlink.runtime.clocks import Recorder
from pytensor_jaxlink.runtime.devices import commit
from pytensor_jaxlink.runtime.dispatch import Dispatch
from pytensor_jaxlink.runtime.ending import Ending
from pytensor_jaxlink.runtime.executor import Executor, FastPath, donatable
from pytensor_jaxlink.runtime.interrupts import store
from pytensor_jaxlink.runtime.last_region import ready_as
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.reuse import Donatable
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of, device_put
from pytensor_jaxlink.runtime.waiting import all_hold

_NUMPY_ARRAY = np.ndarray  # looked up once, not in each call

_SMALL = 4096
"""Bytes; moving less twice is faster than looking for arrays that are given twice."""

_MOST_REJECTIONS = 4
"""Fast-path type misses that are tolerated before every call takes the slow path."""


@dataclass(frozen=True, eq=False)
class Interface:
    """The inputs and outputs of a function, whether it was compiled here or loaded.

    Attributes
    ----------
    inputs, outputs
        Their names; of one without a name, its type.
    form
        The form of the answer: one output, a list of all, or None.
    storage
        For each input, the list that holds its value between calls.
    given
        The inputs that the caller gives; the others keep their values.
    updated
        The inputs of which a call leaves new values, which follow the outputs in this order.
    arrays
        The inputs that are arrays.
    mutable
        The inputs whose memory the caller gives away.
    donate
        The option of this name.
    ending
        The last steps of a call.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    form: Literal["one", "list", "none"]
    storage: Sequence[list[Any]]
    given: Sequence[int]
    updated: Sequence[int]
    arrays: frozenset[int]
    mutable: frozenset[int]
    donate: str
    ending: Ending


class FastCall:
    """A function whose calls go to compiled code, past conversions and storage.

    JAX tells arguments of other types apart, and finds those that are not accepted while it traces.
    Another type, a false condition or an error starts the call again on the slow path.

    Attributes
    ----------
    interface : Interface
        What it takes and gives.
    _fast : callable or None
        The fast path, None where a call has to take the slow one.
    _path : FastPath or None
        The same with its other parts.
    _fast_converters : sequence of callables
        For each argument, the function that gives it in its declared type, or None.
    """

    interface: Interface
    _fast: Any = None
    _path: FastPath | None = None
    _fast_converters: Sequence[Callable[[object], object]]
    _rejections = 0
    _stats: Any

    def __call__(self, *args: Any, **kwargs: object) -> Any:  # noqa: C901 -- one frame a call
        """Evaluate the function.  A `jax.Array` never visits the host."""
        fast = self._fast
        if fast is None or kwargs:
            return self._first_or_named(args, kwargs)
        moved, numbers = 0, False
        for value in args:
            kind = class_of(value)
            if kind is _NUMPY_ARRAY:
                moved += value.nbytes
                if not value.dtype.isnative:  # once JAX has compiled, it reads the bytes as native
                    return self._slow(args)
            elif kind is not ARRAY:
                numbers = True
        if numbers:
            args = self._with_numbers(args)
        if moved:
            self._stats.bytes_to_device += moved
            if len(args) > 1 and (moved > _SMALL or args[0] is args[1]):
                args = self._moved_once(args)
        try:
            found = fast(*args)
        except Exception as error:
            if hasattr(error, FAILED_ON_HOST) and self._is_final(error):
                raise
            return self._again(args, error)
        self._stats.direct += 1
        if type(found) is ARRAY:
            return found
        return self._finished(found, args)

    def _finished(self, found: Any, args: tuple[object, ...]) -> object:
        """The answer of a call, when its conditions hold and its updates are stored."""
        path = self._path
        if path is None:  # another thread has changed the plan, and there is none any more
            return self._slow(args)
        kind = class_of(found)
        if kind is tuple and path.result is not None:
            found = path.result(found, args)
        elif kind is not Result:
            if path.packed:
                return found
            found = Result(found)
        if found.conditions and not all_hold(*found.conditions):
            self._stats.direct -= 1
            del found  # what it holds could not be donated
            return self._slow(args)
        return found.outputs if path.packed else self._answer(found, args)

    def _with_numbers(self, args: tuple[object, ...]) -> tuple[Any, ...]:
        """The arguments with Python's numbers as arrays of the declared types.

        JAX would compile once more for a number than for an array.
        """
        found = list(args)
        for position, value in enumerate(args[: len(self._fast_converters)]):
            if type(value) is float or type(value) is int:
                array = self._fast_converters[position](value)
                found[position] = value if array is None else array
        return tuple(found)

    def _moved_once(self, args: tuple[object, ...]) -> tuple[Any, ...]:
        """The arguments; an array that is given several times goes to the device once."""
        if len({*map(id, args)}) == len(args):
            return args
        moved: dict[int, object] = {}
        for value in args:
            if type(value) is not _NUMPY_ARRAY:
                continue
            if id(value) in moved:
                self._stats.bytes_to_device -= value.nbytes
            else:
                moved[id(value)] = device_put(value)
        return tuple(moved.get(id(value), value) for value in args)

    def _first_or_named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """A call before there is a fast path, or with keywords."""
        raise NotImplementedError

    def _again(self, args: tuple[object, ...], error: Exception) -> object:
        """The call after the fast path has failed."""
        accepted = not isinstance(error, NotAcceptedError)
        self._rejections += not accepted
        if self._rejections > _MOST_REJECTIONS:
            self._fast = None  # the slow path is faster than failing
        answer = self._slow(args)
        if accepted and not hasattr(error, FAILED_NODE) and not hasattr(error, FAILED_ON_HOST):
            text = f"{type(error).__name__}: {error}"
            self._stats.note_slow_calls(1, text)
            Topic.SLOW_CALLS.log(lambda: f"the fast path of a call at {running_line()}: {text}")
        return answer

    def _is_final(self, error: Exception) -> bool:
        """Return True for an exception of an Op on the host that is the user's to see."""
        return not hasattr(error, FAILED_NODE)

    def _slow(self, args: tuple[object, ...]) -> object:
        """The call on the slow path, from the start."""
        raise NotImplementedError

    def _find_fast(self) -> object:
        """Find the fast path, if there is one."""
        raise NotImplementedError

    def use_clocks(self, recorder: Recorder | None) -> None:
        """Run the plan as it is now with clocks, or without; what happens in a call changes it."""
        runs, path = self._runs(), self._path
        if isinstance(runs, Executor | Dispatch):  # and no refusal to run
            runs.record(recorder)
        if path is not None and self._fast is not None:
            if recorder is None:
                self._fast = path.call
            elif self._fast is path.call:
                self._fast = path.timed(recorder)

    def _runs(self) -> object:
        """The `Executor` or `Dispatch` that runs the function now."""
        raise NotImplementedError

    # -- the way in ----------------------------------------------------------------------------

    def _boundary(self, plan: Plan) -> Boundary:
        """How the fast path takes its arguments and gives its outputs."""
        found = self.interface
        kept = {k: cell for k, cell in enumerate(found.storage) if k not in found.given}
        leave = found.ending.forms(self._stats, plan)
        return Boundary(self._accepts, lambda k, v: self._fast_converters[k](v), kept, leave)

    def _accepts(self, position: int, value: object) -> bool:
        """Return True if a value that JAX traces has the type of an input."""
        raise NotImplementedError

    def _donatable(self) -> Donatable | None:
        """The values that a call may overwrite; None where there are none."""
        found = self.interface
        updated = {place: (result, found.storage[place]) for result, place in self.updates.items()}
        mutable = {place: place in found.mutable for place in found.given}
        return donatable(found.donate, lambda: self.input_names, updated, mutable)

    def _commit(self, values: list[Any], policy: Policy) -> None:
        """Put states among the values of all inputs where exported code leaves them.

        So JAX compiles once.
        """
        found = self.interface
        if not found.ending.as_numpy:
            with policy.here():
                commit(values, [k for k in found.updated if k in found.arrays])

    # -- the way out ---------------------------------------------------------------------------

    def _answer(self, result: Result, args: Sequence[object]) -> Any:
        """The answer of the function for a result that holds, after its updates are stored."""
        outputs, found = result.outputs, self.interface
        if found.ending.overwritten:
            values = [*args, *(cell[0] for cell in found.storage[len(args) :])]
            outputs = found.ending.overwrite(values, outputs, self._stats)
        return self._packed(outputs) if result.stored else self._stored(outputs)

    def _pack(self) -> Callable[[list[Any]], Any] | None:
        """A function that makes the answer of the outputs, where nothing else is left to do."""
        found = self.interface
        return None if found.updated or found.ending.overwritten else self._packed

    def _stored(self, outputs: list[Any]) -> Any:
        """The answer, when the updates are stored.

        An error of the device shows when they are waited for, and then nothing has been stored.
        """
        found = self.interface
        if found.updated:
            cells = [found.storage[place] for place in found.updated]
            pairs = zip(cells, outputs[len(found.outputs) :], strict=True)
            store(cells, [ready_as(cell[0], value) for cell, value in pairs])
        return self._packed(outputs)

    def _packed(self, outputs: list[Any]) -> Any:
        found = self.interface
        if found.form == "one":
            return outputs[0]
        return None if found.form == "none" else outputs[: len(found.outputs)]

    # -- as JAX sees it ------------------------------------------------------------------------

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the arguments of `jax_fn`; of one without a name, its type."""
        return self.interface.inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of what `jax_fn` gives: outputs, then the shared variables it updates."""
        found = self.interface
        return (*found.outputs, *(found.inputs[place] for place in found.updated))

    @property
    def updates(self) -> Mapping[int, int]:
        """For each place among the results of `jax_fn` that is an update, that of its argument."""
        return dict(enumerate(self.interface.updated, start=len(self.interface.outputs)))

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If no choice of static arguments lets JAX trace the function; all reasons are given.
        """
        return self._static_inputs()

    def _static_inputs(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that may be donated to `jax.jit`, by the option ``donate``."""
        return tuple(sorted(self._donatable_inputs()))

    def _donatable_inputs(self) -> set[int]:
        found = self._donatable()
        if found is None:
            return set()
        return {*found.updated, *found.given} & self.interface.arrays - {*self._static_inputs()}
