"""Runs a plan on values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.errors import (
    FalseConditionError,
    NewSizeError,
    OtherCodeError,
    is_of_node,
)
from pytensor_jaxlink.plan import Executable, HostStep, Region
from pytensor_jaxlink.runtime.bindings import Run, checked, fast
from pytensor_jaxlink.runtime.boundary import Boundary
from pytensor_jaxlink.runtime.clocks import FALLBACK, OTHER_PLAN, Clock, Function, Recorder, Titles
from pytensor_jaxlink.runtime.devices import (
    COPIED_FAST,
    as_jax_takes_it,
    explicit_mesh,
    note_explicit_axes,
    run_in_auto,
)
from pytensor_jaxlink.runtime.ending import as_jax_gives
from pytensor_jaxlink.runtime.fast_path import FastPath
from pytensor_jaxlink.runtime.forks import (
    from_parent,
    refused,
    replace_in_forked_child,
    warn_once,
)
from pytensor_jaxlink.runtime.resizing import PutsOff, Resizing
from pytensor_jaxlink.runtime.reuse import Donatable, Reuse
from pytensor_jaxlink.runtime.runnable import Runnable, static_of
from pytensor_jaxlink.runtime.specialisation import CompiledRegion, Policy, kind_of
from pytensor_jaxlink.runtime.static_values import hashable
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import is_out_of_memory
from pytensor_jaxlink.runtime.waiting import all_hold
from pytensor_jaxlink.runtime.whole import SharedCode, Whole
from pytensor_jaxlink.validity import only_where

Signature = tuple[tuple[object, ...], list[jax.ShapeDtypeStruct]]
"""The static values of a region, and the kinds of its arguments."""

Fallback = Callable[[Sequence[object], BaseException | None], Sequence[object]]


class Executor:
    """A plan with its functions: call it with the values of the inputs.

    Parameters
    ----------
    executable
        The plan.  The constants that regions take are moved to the device once.
    stats
        What counts; it starts anew.
    jit
        Whether regions are compiled, or run operation by operation.
    fallback
        Called with the inputs, and the exception where there is one, when a region cannot be
        traced or one of its conditions is false; it finishes the call or raises.
    policy
        How often a region is compiled, and what happens beyond that.
    resizing
        The way with a second value of a size; None where each is compiled for.
    titles
        Gives the titles of the steps, where more is known than the plan says.
    identity
        Gives what plans that are equal to this one have in common; see `SharedCode`.

    Attributes
    ----------
    codes
        For each region without static values its code, if equal plans may have it too.
    """

    def __init__(  # noqa: PLR0913 -- one for each part of a plan that runs
        self,
        executable: Executable,
        stats: Stats,
        *,
        jit: bool,
        fallback: Fallback | None,
        policy: Policy | None = None,
        resizing: Resizing | None = None,
        titles: Callable[[], Titles] = dict[int, tuple[str, str]],
        identity: Callable[[], Hashable | None] | None = None,
    ) -> None:
        self.plan, self.stats, self._fallback = executable.plan, stats, fallback
        stats.with_regions(len(self.plan.regions))
        self.policy = policy = policy or Policy()
        self._finish = None if resizing is None else resizing.finish
        self._titles, self._untimed = titles, (fallback, self._finish)
        self._recorder: Recorder | None = None
        self.codes: dict[int, SharedCode] = {}
        if identity is not None:
            shared = [region.index for region in self.plan.own_regions if not region.static]
            identity = cache(identity)
            self.codes = {index: SharedCode(identity, index) for index in shared}
        self._late: PutsOff | None = None
        if resizing is not None and len(self.plan.steps) > 1 and resizing.has_effects:
            self._late = PutsOff(resizing)
        self._ready = Runnable.of(
            executable, stats, policy, jit=jit, resizing=resizing, late=self._late
        )

    @cached_property
    def _run(self) -> Run:
        recorder = self._recorder
        return checked(self._ready, clock=None if recorder is None else self.clock(recorder))

    def clock(self, recorder: Recorder) -> Clock:
        """The clocks of the plan."""
        return Clock(recorder, self.plan, self._titles())

    def record(self, recorder: Recorder | None) -> None:
        """Have clocks take the times of calls from now on, but for those of `fast`."""
        if recorder is self._recorder:
            return
        self._recorder = recorder
        self._fallback, self._finish = self._untimed
        if recorder is not None:
            self._fallback = self._fallback and recorder.timed(FALLBACK, self._fallback)
            self._finish = self._finish and recorder.timed(OTHER_PLAN, self._finish)
        vars(self).pop("_run", None)

    @cached_property
    def _traced(self) -> Run:
        return checked(self._ready, keys=True)

    @property
    def entries(self) -> int:
        """How many entries the regions compute, the largest program of each."""
        return sum(getattr(function, "entries", 0) for function in self._ready.functions)

    def measure(self, inputs: Sequence[Any]) -> int | None:
        """The entries that a plan of one region computes for such values; JAX only traces it.

        Returns
        -------
        int or None
            None where that shows only when the plan runs: of several regions, of one with static
            values, and of what takes other values than arrays.  A program that JAX cannot trace
            computes more than any other.
        """
        plan = self.plan
        if not plan.takes_arrays:
            return None
        values = dict(zip(plan.inputs, inputs, strict=True))
        values |= self._ready.constants.data
        [region] = plan.regions
        function = self._ready.functions[plan.steps.index(region)]
        arrays = [values[number] for number in region.arguments]
        try:
            with jax.enable_x64(True):
                return function.measure(list(map(kind_of, arrays)))
        except Exception:  # arrays of more bytes than can be counted; a call would say so
            return 1 << 62

    @property
    def static(self) -> set[int]:
        """The values from which specialisations are selected."""
        return static_of(self._ready)

    def kinds_of(self, region: Region, values: Sequence[object]) -> Signature | None:
        """The signature of a region in a call; None if it takes what another step computes.

        Sizes are computed here, from inputs and constants.
        """
        known = dict(zip(self.plan.inputs, values, strict=True)) | {**self._ready.constants.data}
        for step, function in zip(self.plan.steps, self._ready.functions, strict=True):
            if isinstance(step, HostStep) and step.folded and known.keys() >= {*step.reads}:
                try:
                    sizes = function(*[known[number] for number in step.reads])
                except Exception:  # the call fails in the same way, and says so
                    return None
                known.update(zip(step.results, sizes, strict=True))
        taken = map(known.get, region.reads)
        if not all(isinstance(value, np.ndarray | np.generic | jax.Array) for value in taken):
            return None
        static = tuple(hashable(np.asarray(known[number])) for number in region.static)
        return static, [kind_of(known[number]) for number in region.arguments]

    def __call__(self, inputs: Sequence[Any]) -> list[object]:
        """Run the plan.  Returns outputs and updates, as they come: on the device or not."""
        mesh = explicit_mesh(inputs)
        if mesh is not None:
            return run_in_auto(self, inputs, mesh)
        values = list(map(as_jax_takes_it, inputs))
        if self.policy.has_types() and self.policy.device is None:
            return self._guarded(values)
        with self.policy.types(), self.policy.here():
            return self._guarded(values)

    def _guarded(self, inputs: Sequence[object]) -> list[object]:
        if self._late is not None and (change := self._late.take()) is not None:
            assert self._finish is not None, "there is a way to change"
            return list(self._finish(inputs, change))
        self.stats.general_calls += 1
        counted = [*self.stats.general_region_calls]
        try:
            outputs, conditions, _ = self._run(*inputs)
            holds = self._fallback is None or not conditions or all_hold(*conditions)
        except NewSizeError as error:
            if self._finish is None:
                raise
            # The plan that finishes the call counts it.
            self.stats.general_calls -= 1
            self.stats.general_region_calls = counted
            return list(self._finish(inputs, error))
        except FalseConditionError:
            if self._fallback is None:
                raise
            return list(self._fallback(inputs, None))
        except Exception as error:
            # PyTensor may need less memory.
            if self._fallback is None or not (is_of_node(error) or is_out_of_memory(error)):
                raise
            return list(self._fallback(inputs, error))
        if self._fallback is not None and not holds:
            return list(self._fallback(inputs, None))
        return outputs

    def finish(self, inputs: Sequence[object], error: BaseException | None = None) -> list[object]:
        """Finish a call in which a condition was false, or a region has failed with an error."""
        assert self._fallback is not None, "somebody has to know what the condition stands for"
        self.stats.general_calls += 1
        return list(self._fallback(list(map(as_jax_takes_it, inputs)), error))

    def follow(self, other: OtherCodeError) -> None:
        """Have a plan of one region run the code that an error names, or code of its own."""
        code = self.codes.get(0) if self.plan.is_one_region else None
        if code is None or (other.code is not None and other.taker is not code):
            return  # it was for the plan that another thread has replaced
        [region] = [f for f in self._ready.functions if isinstance(f, CompiledRegion)]
        code.follow(other, region)

    def trace(self, inputs: Sequence[object]) -> list[object]:
        """Run the plan on values that may be traced by JAX, in the types that JAX now has.

        Saved code gives conditions here, too.  Where one is false, real results are NaN.  What is
        known, as all is where nobody traces, was computed by NumPy: in a trace it stays known.
        """
        try:
            outputs, conditions, _ = self._traced(*inputs)
            holds: list[Any] = [*conditions]
            found = only_where(reduce(jnp.logical_and, holds), outputs) if holds else outputs
            return [*map(as_jax_gives, found)]
        except FalseConditionError as signal:
            raise signal.__cause__ or signal from None  # nobody looks at conditions here
        except Exception as error:
            note_explicit_axes(error, inputs)
            raise

    def fast(
        self,
        boundary: Boundary,
        pack: Callable[[list[object]], object] | None,
        donatable: Donatable | None,
        *,
        repeatable: bool,
    ) -> FastPath | None:
        """The plan as a function that goes straight to compiled code; None if nothing is compiled.

        Parameters
        ----------
        boundary
            How the function takes its arguments.
        pack
            Makes the answer of the list of outputs, where that is all that is left to do.
        donatable
            The values that a call may overwrite.
        repeatable
            Whether the same arguments give the same conditions; see `Condition`.
        """
        ready = self._ready
        if not ready.jit:
            return None
        reuse = None if donatable is None else self._reuse(donatable)
        if reuse is None and ready.plan.is_whole:
            code = self.codes.get(0)
            whole = Whole(ready, boundary, pack or list, repeatable=repeatable, code=code)
            path = self._path(whole.call, whole.compile, whole.timed)
            path.packed, path.holds = pack is not None, whole.condition.holds
            path.in_place = COPIED_FAST if ready.plan.outputs and not boundary.leave else 0
            return path
        function = fast(ready, boundary, reuse, {} if reuse else self.codes)
        call = function()
        compiles_last = reuse is not None or ready.plan.is_one_region
        compiling = function(ahead=True) if compiles_last else call
        path = self._path(call, partial(_run_on, compiling, boundary), function)
        if (late := self._late) is None:
            return path

        def timed(recorder: Recorder) -> Function:
            return late.before(path.timed(recorder))

        return replace(path, call=late.before(path.call), timed=timed)

    def _reuse(self, donatable: Donatable) -> Reuse | None:
        """The memory that the last region may reuse: not that of values which the host reads."""
        plan = self.plan
        if plan.generators or plan.sparse:
            return None
        static = self.static
        kept = {k for k, number in enumerate(plan.inputs) if number in static}
        return Reuse.at_the_end(plan, replace(donatable, given=donatable.given - kept))

    def _path(
        self,
        call: Function,
        ahead: Callable[[list[Any]], None],
        timed: Callable[[Clock], Function],
    ) -> FastPath:
        """A fast path with its types, and on the device that was asked for, if any."""

        def within(function: Function) -> Function:
            def there(*args: object) -> object:
                with self.policy.types(), self.policy.here():
                    return function(*args)

            return function if self.policy.device is None and self.policy.has_types() else there

        return FastPath(within(call), ahead, lambda to: within(timed(self.clock(to))), self.stats)

    # -- in a forked process -------------------------------------------------------------------

    def call_in_child(self, inputs: Sequence[object]) -> list[object]:
        """Run the plan by PyTensor's own implementation."""
        if self._fallback is None:
            raise refused("a function cannot run")
        warn_once()
        return list(self._fallback(list(map(from_parent, inputs)), None))

    def measure_in_child(self, inputs: Sequence[object]) -> int | None:
        """Nothing is known: JAX may compute constants while it traces."""

    def trace_in_child(self, inputs: Sequence[object]) -> list[object]:
        """Refuse: JAX cannot run here."""
        raise refused("a function of JAX cannot run")


replace_in_forked_child(
    Executor,
    __call__=Executor.call_in_child,
    trace=Executor.trace_in_child,
    measure=Executor.measure_in_child,
)


def _run_on(run: Run, boundary: Boundary, values: Sequence[object]) -> None:
    """Run the steps of a plan for their compilation, on values of all inputs."""
    run(*(value for position, value in enumerate(values) if position not in boundary.kept))
