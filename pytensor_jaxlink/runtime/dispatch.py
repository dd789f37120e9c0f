"""Which programs serve a call: those for its own lengths, or the one of its bucket.

The programs for one length are those of the plan as it was built, the *own* ones.  The padded
graph has a plan of its own, and a program of it serves every length up to a bucket
(`runtime.padding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pytensor_jaxlink.errors import NewSizeError, NotAcceptedError
from pytensor_jaxlink.runtime.boundary import Boundary
from pytensor_jaxlink.runtime.clocks import PADDED, Function, Recorder
from pytensor_jaxlink.runtime.ending import as_jax_array
from pytensor_jaxlink.runtime.executor import Executor
from pytensor_jaxlink.runtime.fast_path import FastPath
from pytensor_jaxlink.runtime.padding import (
    FOR_MANY_AXES,
    MANY,
    Padding,
    Place,
    Programs,
    Work,
    bucket_of,
)
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of
from pytensor_jaxlink.runtime.waiting import all_hold

_OFTEN = 32
"""Calls; a length that comes more rarely has no program of its own."""

_FAR_TOO_MUCH, _TOO_MUCH = 64, 4
"""Times as much as programs of the true lengths compute; the latter of as many as `_HUGE`."""

_HUGE = 1 << 26

_SHARE = 16
"""One call in so many has a length that comes often."""

_OTHERS = 64
"""For so many combinations of the lengths that are not padded JAX traces to learn the buckets."""


class PaddedGraph(Protocol):
    """The compiled graph of padded arguments and their lengths."""

    @property
    def executor(self) -> Any:
        """The function that runs it."""
        ...

    @property
    def stats(self) -> Stats:
        """Its counters."""
        ...


class Suit(Protocol):
    """Gives the padding that suits the arguments of a call.

    What a program computes depends on the lengths that are not padded, too.  So each combination of
    these has buckets and programs of its own.
    """

    @property
    def others(self) -> Sequence[Place]:
        """The dimensions of arguments that are not padded, and whose lengths are open."""
        ...

    def __call__(self, inputs: Sequence[object], /) -> Padding:
        """The padding."""
        ...


@dataclass(frozen=True)
class _Suited:
    """The padding and the programs of calls in which the other lengths are the same.

    ``costly`` says for buckets whether their program computes far too much.
    """

    padding: Padding
    programs: Programs
    costly: dict[tuple[int, ...], bool] = field(default_factory=dict)


class Dispatch:
    """Sends a call to the programs for its own lengths, or to the one of its bucket.

    A length that comes back in many of the calls gets a program of its own, as long as there are
    fewer than ``limit`` of these: the padded one computes up to twice as much.

    Parameters
    ----------
    own
        Runs arguments of the lengths that are compiled for.
    padded
        The graph of padded arguments.
    padding
        Its arguments and outputs.
    suit
        Gives the buckets.
    stats
        The counters of the function.
    kept
        The lengths that are compiled for.
    limit
        How many these may be.
    specialises
        Whether a length that comes often gets a program of its own.
    unequal
        Finishes a call whose arguments are not as long as each other.
    regroup
        Finishes a call in which further lengths have changed.
    """

    def __init__(  # noqa: PLR0913 -- one for each way of a call
        self,
        own: Executor,
        padded: PaddedGraph,
        padding: Padding,
        suit: Suit,
        stats: Stats,
        *,
        kept: set[tuple[int, ...]],
        limit: int,
        specialises: bool,
        unequal: Callable[[Sequence[object]], Sequence[object]],
        regroup: Callable[[Sequence[object], NewSizeError], Sequence[object]],
    ) -> None:
        self.own, self._padded, self._padding, self._stats = own, padded, padding, stats
        self._kept, self._limit, self._unequal, self._regroup = kept, limit, unequal, regroup
        self._specialises = specialises
        self._pad, self._suit, self._others = padding.pad, suit, tuple(suit.others)
        self._suited: dict[tuple[int, ...], _Suited] = {}
        self._counts: Counter[tuple[int, ...]] = Counter()
        self._noted: set[tuple[int, ...]] = set()

    def __call__(self, inputs: Sequence[object]) -> list[object]:
        """Run the plan.  Returns outputs and updates, as they come: on the device or not."""
        try:
            lengths = self._padding.lengths(inputs)
            programs = None if lengths is None else self._programs(lengths, inputs)
        except NotAcceptedError:  # of `trust_input`: the own plan takes what Python takes
            return self.own(inputs)
        if lengths is None:
            return self._finish_unequal(inputs)
        if programs is None:
            return self.own(inputs)
        stats = self._stats
        stats.general_calls += 1
        stats.padded_calls += 1
        try:
            padded = self._pad(inputs, lengths, programs.serving(lengths), stats)
            return self._padded.executor(padded)
        except NewSizeError as error:
            stats.general_calls -= 1  # the plan that finishes the call counts it
            stats.padded_calls -= 1
            return list(self._regroup(inputs, error))

    def finish(self, inputs: Sequence[object], error: BaseException | None = None) -> list[object]:
        """Finish a call in which a condition was false; see `Executor.finish`."""
        if self._padding.lengths(inputs) is None:
            return self._finish_unequal(inputs)
        return self.own.finish(inputs, error)

    def _finish_unequal(self, inputs: Sequence[object]) -> list[object]:
        self._stats.general_calls += 1
        return list(self._unequal(inputs))

    def record(self, recorder: Recorder | None) -> None:
        """Have clocks take the times of calls from now on; see `Executor.record`."""
        self._pad = self._padding.pad
        if recorder is not None:
            self._pad = recorder.timed(PADDED, self._pad)
        self.own.record(recorder)
        if isinstance(self._padded.executor, Executor):  # and no refusal to run
            self._padded.executor.record(recorder)

    def _is_own(self, lengths: tuple[int, ...], values: Sequence[object]) -> bool:
        if lengths in self._kept:
            return True
        counts = self._counts
        count = counts[lengths] = counts[lengths] + 1
        if count == 1 and len(self._noted) < self._limit:
            self._note(lengths, values)
        often = self._specialises and count >= _OFTEN and count * _SHARE >= self._stats.calls
        if often and len(self._kept) < self._limit:
            self._kept.add(lengths)
            return True
        if len(counts) > _SHARE * _OFTEN:  # each of them is rare
            counts.clear()
        return False

    def _programs(self, lengths: tuple[int, ...], values: Sequence[object]) -> Programs | None:
        """The padded programs that serve a call; None if its own program does."""
        if self._is_own(lengths, values) or not self._padding.can_pad(values, lengths):
            return None
        suited = self._suited_for(values)
        return None if self._is_costly(suited, lengths, values) else suited.programs

    def _suited_for(self, values: Sequence[object]) -> _Suited:
        try:
            others = tuple([getattr(values[k], "shape", ())[axis] for k, axis in self._others])
        except IndexError:
            raise NotAcceptedError from None
        found = self._suited.get(others)
        if found is not None:
            return found
        if len(self._suited) >= _OTHERS:  # they run on the host, and to trace takes longer
            return self._unsuited
        padding = self._suit(values)
        return self._suited.setdefault(others, _Suited(padding, Programs(padding)))

    @cached_property
    def _unsuited(self) -> _Suited:
        """The same with short buckets, whatever is computed."""
        padding = self._padding
        if padding.work is not None:  # and no buckets of the user's
            short = bucket_of(None, lambda: FOR_MANY_AXES)
            padding = replace(padding, bucket=short, work=None)
        return _Suited(padding, Programs(padding))

    def _is_costly(
        self, suited: _Suited, lengths: tuple[int, ...], values: Sequence[object]
    ) -> bool:
        """Return True if the padded program computes far too much.

        A bucket is up to twice as long as a long argument, and the product of some may be; but not
        where the graph takes the last few entries.  A short argument of several axes may become a
        huge one.
        """
        padding, costly = suited.padding, suited.costly
        work = padding.work
        if work is None or not work.is_asked(padding.bounded(lengths)):
            return False  # where the user knows the buckets, too
        buckets = padding.buckets(lengths)
        if buckets not in costly:
            costly[buckets] = self._computes_too_much(work, buckets, lengths, values)
        return costly[buckets]

    def _computes_too_much(
        self,
        work: Work,
        buckets: tuple[int, ...],
        lengths: tuple[int, ...],
        values: Sequence[object],
    ) -> bool:
        if work.is_at_most(MANY, buckets):
            return False
        padded, given = (self._padding.entries(values, each) for each in (buckets, lengths))
        entries = work.at(buckets)
        if max(entries or 0, padded) <= MANY:
            return False
        own = self.own.measure(values)
        if entries is None or own is None:  # the arguments alone are known
            entries = own = 0
        entries = max(entries, padded)
        return entries > (_FAR_TOO_MUCH if entries < _HUGE else _TOO_MUCH) * max(own, given)

    def _note(self, lengths: tuple[int, ...], values: Sequence[object]) -> None:
        """Note lengths and sizes for which the own plan may be saved, if it is one region."""
        plan, signatures = self.own.plan, self._stats.signatures
        if lengths in self._noted or len(plan.regions) != 1:
            return
        self._noted.add(lengths)
        [region] = plan.regions
        if (kinds := self.own.kinds_of(region, values)) is not None:
            signatures[0].append(kinds)

    def fast(
        self, own: FastPath, boundary: Boundary, pack: Callable[[list[object]], object] | None
    ) -> FastPath | None:
        """The dispatch as a function that goes straight to compiled code; see `Executor.fast`.

        ``own`` are the programs for their own lengths in that form, with how they take arguments
        and make their answer.
        """
        padded = self._padded.executor.fast(
            self._without_lengths(boundary), None, None, repeatable=False
        )
        if padded is None:
            return None
        kept, forms = list(boundary.kept.values()), boundary.leave
        padding, stats = self._padding, self._stats

        def dispatching(own_call: Function, padded_call: Function) -> Function:
            def call(*args: object) -> object:
                values = [*args, *[one.cell[0] for one in kept]]
                lengths = padding.lengths(values)
                if lengths is None:
                    return Result(None, (False,))  # `finish` says why
                if (programs := self._programs(lengths, values)) is None:
                    return own_call(*args)
                values[len(args) :] = [one() for one in kept]
                values = self._pad(values, lengths, programs.serving(lengths), stats)
                result = _as_result(padded, padded_call(*values), values)
                if result.conditions and not all_hold(*result.conditions):
                    return Result(None, (False,))
                outputs = [
                    value if type(value) is ARRAY and not forms else _left(forms.get(k), value)
                    for k, value in enumerate(result.outputs)
                ]
                stats.padded_calls += 1
                stats.padded_direct += 1
                self._padded.stats.direct += 1
                return Result(pack(outputs) if own.packed and pack is not None else outputs)

            return call

        def timed(recorder: Recorder) -> Function:
            return dispatching(own.timed(recorder), padded.timed(recorder))

        def compile_for(values: list[object]) -> None:
            lengths = padding.lengths(values)
            if (
                lengths is None
                or lengths in self._kept
                or not self._padding.can_pad(values, lengths)
            ):
                own.compile(values)
            else:
                buckets = self._suited_for(values).programs.compiled_for(lengths)
                padded.compile(padding.pad(values, lengths, buckets, stats))

        call = dispatching(own.call, padded.call)
        return FastPath(call, compile_for, timed, stats, own.packed, own.holds)

    def _without_lengths(self, boundary: Boundary) -> Boundary:
        """The boundary of the padded graph, all of whose inputs are arguments."""
        count = len(self.own.plan.inputs)

        def accepts(position: int, value: object) -> bool:
            return position >= count or boundary.accepts(position, value)

        def convert(position: int, value: object) -> Any:
            is_given = position < count and position not in boundary.kept
            return boundary.convert(position, value) if is_given else value

        return Boundary(accepts, convert, {}, {})


def _as_result(path: FastPath, found: Any, values: Sequence[object]) -> Result:
    kind = class_of(found)
    if kind is tuple and path.holds is not None:
        outputs, condition = found
        return Result(outputs, () if path.holds(condition, values) else (False,))
    return found if kind is Result else Result(found)


def _left(form: Callable[[object], object] | None, value: Any) -> object:
    if form is not None:
        return form(value)
    return as_jax_array(value) if isinstance(value, np.ndarray | np.generic) else value
