"""Calls of functions that go straight to compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import is_not
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.errors import (
    FAILED_NODE,
    FAILED_ON_HOST,
    FalseConditionError,
    NotAcceptedError,
    NotJittableError,
    is_of_node,
)
from pytensor_jaxlink.frames import running_line
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.runtime.clocks import Recorder
from pytensor_jaxlink.runtime.devices import COPIED_FAST, detached
from pytensor_jaxlink.runtime.dispatch import Dispatch
from pytensor_jaxlink.runtime.ending import Interface
from pytensor_jaxlink.runtime.executor import Executor
from pytensor_jaxlink.runtime.fast_path import FastPath
from pytensor_jaxlink.runtime.forks import from_parent, replace_in_forked_child
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import (
    ARRAY,
    IS_TRACED,
    FailureOfXLA,
    Tracer,
    class_of,
    device_put,
)
from pytensor_jaxlink.runtime.waiting import all_hold, when_ready
from pytensor_jaxlink.trees import is_traced

_NUMPY_ARRAY = np.ndarray  # looked up once, not in each call

_SMALL = 2**20
"""Bytes; in the time that `jax.device_put` takes longer than `jax.jit`, as many are moved twice."""

_NUMBERS = (float, int)
"""The classes of arguments of which the converted array is nobody else's."""

_SEVERAL = (tuple, list, Result)
"""The classes of answers that begin with an output, or with a list of them."""

_MOST_REJECTIONS = 4
"""Calls that JAX stops while it traces, before it is asked no more or arguments are looked at."""


class FastCall:
    """A function whose calls go to compiled code, past conversions and storage.

    JAX tells arguments of other types apart, and finds those that are not accepted while it traces.
    Such arguments are converted where the declared types allow it.  What they do not allow, a false
    condition or an error starts the call again on the slow path.

    Attributes
    ----------
    interface : Interface
        What it takes and gives.
    _fast : FastPath or None
        The fast path, None where a call has to take the slow one.  A call reads it once: another
        thread may change the plan meanwhile.
    _path : FastPath or None
        The same without clocks.
    """

    interface: Interface
    _fast: FastPath | None = None
    _path: FastPath | None = None
    _rejections = _conversions = 0
    _stats: Stats

    def __call__(self, *args: Any, **kwargs: object) -> Any:  # noqa: C901, PLR0912 -- one frame a call
        """Evaluate the function.  A `jax.Array` never visits the host."""
        path = self._fast
        if path is None or kwargs:
            return self._first_or_named(args, kwargs)
        moved = in_place = 0
        all_converted = self._conversions > _MOST_REJECTIONS
        is_typed = not all_converted
        for value in args:
            kind = class_of(value)
            if kind is _NUMPY_ARRAY:
                moved += value.nbytes
                if not value.dtype.isnative:  # once JAX has compiled, it reads the bytes as native
                    is_typed = False
            elif kind is not ARRAY:
                is_typed = False
        given: Sequence[object] = args
        if not is_typed:
            converted = self._convert_all(args, arrays=all_converted)
            if converted is None:
                return self._slow(args)
            args, given, moved = converted
        elif moved < path.in_place:
            in_place = moved
        elif moved >= COPIED_FAST:
            given = self._detached(args, moved)
        elif moved:  # the same, in this frame
            given = [v.copy() if class_of(v) is _NUMPY_ARRAY else v for v in args]
        if moved:
            path.stats.bytes_to_device += moved
        try:
            found = path.call(*given)
        except (Exception, NotAcceptedError) as error:
            if hasattr(error, FAILED_ON_HOST) and self._is_final(error):
                raise
            return self._again(args, error)
        path.stats.direct += 1
        if type(found) is ARRAY and (not in_place or found.is_ready()):
            return found
        try:
            if in_place:
                found = _settled(found, args, path)
            return self._finished(found, args, path)
        except (*IS_TRACED, FailureOfXLA) as error:  # of conditions that JAX traces, or computes
            return self._again(args, error)

    def _finished(self, found: Any, args: tuple[object, ...], path: FastPath) -> object:
        """The answer of a call on a path, when its conditions hold and its updates are stored."""
        kind = class_of(found)
        if kind is Result:
            holds = not found.conditions or all_hold(*found.conditions)
        elif kind is tuple and path.holds is not None:
            found, condition = found
            holds = path.holds(condition, args)
        else:
            holds = True
        if not holds:
            self._stats.direct -= 1
            del found  # what it holds could not be donated
            return self._failed(args)
        if path.packed:
            return found.outputs if kind is Result else found
        result = found if kind is Result else Result(found)
        return self.interface.answer(result, args, self._stats)

    def _convert_all(
        self, args: tuple[object, ...], *, arrays: bool
    ) -> tuple[tuple[object, ...], Sequence[object], int] | None:
        """The arguments in the declared types; None where the slow path says what is wrong.

        They are followed by what JAX may read when the call has returned, and by the bytes of
        NumPy's among them.

        JAX would compile once more for a number than for an array, and takes a list for a tree.
        Unless ``arrays``, it is left to JAX to find arrays of other types.
        """
        converters = self.interface.converters
        if len(args) != len(converters):
            return None
        found: list[Any] = list(args)
        given = list(args)
        moved = 0
        for position, value in enumerate(args):
            kind = class_of(value)
            if kind is ARRAY and not arrays:
                continue
            array: Any = value
            if arrays or kind is not _NUMPY_ARRAY or not array.dtype.isnative:
                array = converters[position](value)
                if array is None:
                    if not isinstance(value, Tracer):
                        return None
                    continue
                found[position] = given[position] = array
            if issubclass(class_of(array), _NUMPY_ARRAY):
                moved += array.nbytes
                if array.nbytes < COPIED_FAST and kind not in _NUMBERS:
                    given[position] = array.copy()
        if moved >= COPIED_FAST:
            given = self._detached(found, moved)
        return tuple(found), given, moved

    def _convert_always(self) -> None:
        """Convert all arguments before each call: JAX would find those of other types too late."""
        self._conversions = _MOST_REJECTIONS + 1

    def _detached(self, args: Sequence[object], moved: int) -> list[object]:
        """The arguments as JAX may read them when the call has returned.

        A large array that is given several times goes to the device once.
        """
        if moved <= _SMALL or len({*map(id, args)}) == len(args):
            return [*map(detached, args)]
        found: dict[int, object] = {}
        for value in args:
            if id(value) in found:
                self._stats.bytes_to_device -= bytes_of_numpy((value,))
            elif bytes_of_numpy((value,)):
                found[id(value)] = device_put(detached(value))
        return [found.get(id(value), value) for value in args]

    def _first_or_named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """A call before there is a fast path, or with keywords."""
        raise NotImplementedError

    def _again(self, args: tuple[object, ...], error: BaseException) -> object:
        """The call after the fast path has failed."""
        if isinstance(error, FalseConditionError):
            return self._failed(args)
        if any(map(is_traced, args)) and len(args) == len(self.interface.given):
            return self._traced(args)
        if isinstance(error, (NotJittableError, *IS_TRACED)):
            with jax.ensure_compile_time_eval():  # somebody's trace, in which all is known here
                return self._slow(args)
        return self._once_more(args, error)

    def _traced(self, args: tuple[object, ...]) -> object:
        """The call where JAX traces an argument, as the pure function for JAX has it.

        No size becomes data there: arguments cannot be padded, nor results be cut.  Nor could
        a condition be looked at.
        """
        raise NotImplementedError

    def _once_more(self, args: tuple[object, ...], error: BaseException) -> object:
        """The call with values of which the fast path has failed."""
        accepted = not isinstance(error, NotAcceptedError)
        if not accepted:
            converted = self._convert_all(args, arrays=True)
            if converted is not None and any(map(is_not, converted[0], args)):
                self._conversions += 1
                self._stats.bytes_to_device -= bytes_of_numpy(args)  # JAX only traced
                return FastCall.__call__(self, *converted[0])
            self._rejections += 1
            if self._rejections > _MOST_REJECTIONS:
                self._fast = None  # the slow path is faster than failing
        answer = self._slow(args)
        if accepted and not is_of_node(error):
            text = f"{type(error).__name__}: {error}"
            self._stats.note_slow_calls(1, text)
            Topic.SLOW_CALLS.log(lambda: f"the fast path of a call at {running_line()}: {text}")
        return answer

    def _is_final(self, error: BaseException) -> bool:
        """Return True for an exception of an Op on the host that is the user's to see."""
        return not hasattr(error, FAILED_NODE)

    def _slow(self, args: tuple[object, ...]) -> object:
        """The call on the slow path, from the start."""
        raise NotImplementedError

    def _failed(self, args: tuple[object, ...]) -> object:
        """The call after a condition was false on the fast path, from the start."""
        return self._slow(args)

    def _find_fast(self) -> object:
        """Find the fast path, if there is one."""
        raise NotImplementedError

    def use_clocks(self, recorder: Recorder | None) -> None:
        """Run the plan as it is now with clocks, or without; what happens in a call changes it."""
        runs, path = self._runs(), self._path
        if isinstance(runs, Executor | Dispatch):  # and no refusal to run
            runs.record(recorder)
        fast = self._fast
        if path is None or fast is None or (recorder is not None and fast is not path):
            return
        new = path if recorder is None else replace(path, call=path.timed(recorder))
        if self._fast is fast:  # or another thread has found another path meanwhile
            self._fast = new

    def _runs(self) -> object:
        """The `Executor` or `Dispatch` that runs the function now."""
        raise NotImplementedError

    # -- in a forked process -------------------------------------------------------------------

    def call_in_child(self, *args: object, **kwargs: object) -> object:
        """A call in a process that was forked from one in which JAX has run."""
        for cell in self.interface.storage:
            cell[0] = from_parent(cell[0])
        named = {name: from_parent(value) for name, value in kwargs.items()}
        return self._without_jax(tuple(map(from_parent, args)), named)

    def _without_jax(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """The call, run by PyTensor."""
        raise NotImplementedError

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
        return self.interface.updates

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
        found = self.interface.donatable()
        if found is None:
            return set()
        return {*found.updated, *found.given} & self.interface.arrays - {*self._static_inputs()}


def _settled(found: Any, args: Sequence[object], path: FastPath) -> object:
    """The result of a call that got arrays of NumPy's as they are, when nothing reads them.

    JAX computes small programs before their call returns, and may read arrays in place for them:
    a copy takes longer than a look at the result.  A program that a thread of JAX's computes is
    waited for; after a few such calls arrays are copied.
    """
    value = found
    while class_of(value) in _SEVERAL:
        value = value[0]
    if type(value) is not ARRAY:  # JAX traces this call, and keeps the arrays as constants
        return path.call(*map(detached, args))
    if not value.is_ready():
        path.patience -= 1
        if path.patience <= 0:
            path.in_place = 0
        with suppress(FailureOfXLA):  # who reads the result gets it
            when_ready(value)
    return found


def bytes_of_numpy(args: tuple[object, ...]) -> int:
    """The bytes that a call with these arguments moves to the device."""
    return sum([value.nbytes for value in args if isinstance(value, np.ndarray)])


replace_in_forked_child(FastCall, __call__=FastCall.call_in_child)
