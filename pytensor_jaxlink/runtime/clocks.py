"""Clocks: they take the time of each step of a call, for functions that somebody profiles.

A function that is profiled runs the function that was generated for its plan; the names in that are
bound to the same functions behind clocks.  XLA computes while Python goes on, so a clock waits for
the results of a region: else the time would show in a later step, or in none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from threading import Lock, get_ident, local
from time import perf_counter_ns
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from pytensor_jaxlink.plan import Fetch, HostBranch, HostLoop, HostStep, Plan, Region, Step
from pytensor_jaxlink.runtime.devices import place_for
from pytensor_jaxlink.runtime.stats import this_thread
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of, device_put, trace_annotation
from pytensor_jaxlink.runtime.waiting import when_ready

Function = Callable[..., Any]
Titles = Mapping[int, tuple[str, str]]
"""The title and the user's line of steps, by the `id` of the step."""

_LARGE = 1 << 16
"""Bytes from which on an argument is transferred before its region is called: JAX takes longer to
move a small one alone than with the call."""


class Row(NamedTuple):
    """One row of a table: the time of a step.

    Attributes
    ----------
    kind, title
        The step, as an explanation names it.
    where
        ``file:line`` of the user's code, where it is known.
    inside
        The loop or branch that the step is a part of.
    """

    kind: str
    title: str = ""
    where: str = ""
    inside: Row | None = None

    @property
    def name(self) -> str:
        """The row in words."""
        return f"{self.kind} {self.title}".rstrip()

    @property
    def depth(self) -> int:
        """In how many loops and branches the step is."""
        return 0 if self.inside is None else self.inside.depth + 1


CALL, ARGUMENTS, OUTPUTS = Row("call"), Row("arguments"), Row("outputs")
SLOW_PATH = Row("arguments and updates", "of the slow path")
FALLBACK = Row("PyTensor's own implementation")
OTHER_PLAN = Row("the plan for further sizes")
PADDED = Row("padding", "arguments")
TO_DEVICE = "transfer to device"


@dataclass
class Total:
    """The sums of a row.

    Attributes
    ----------
    first
        How long after the beginning of a call a run began at the earliest, in nanoseconds.
    count
        The number of runs.
    time
        Their time, without that of other rows inside of them and of their clocks.
    bytes
        What they moved.
    """

    first: int
    count: int = 0
    time: int = 0
    bytes: int = 0


class Event(NamedTuple):
    """One run of a step, in nanoseconds."""

    row: Row
    start: int
    time: int
    bytes: int
    thread: int


class Times:
    """The times that clocks have taken, as sums, and one by one as long as there is room."""

    def __init__(self, most_events: int = 0) -> None:
        self.events: list[Event] = []
        self._totals: dict[Row, Total] = {}
        self._most, self._lock = most_events, Lock()

    def add(self, event: Event, time: int, after: int) -> None:
        """Add a run that took so much time of its own, so long after the beginning of a call."""
        with self._lock:
            total = self._totals.get(event.row)
            if total is None:
                total = self._totals[event.row] = Total(after)
            total.first = min(total.first, after)
            total.count += 1
            total.time += time
            total.bytes += event.bytes
            if len(self.events) < self._most:
                self.events.append(event)

    def totals(self, *, anew: bool = False) -> dict[Row, Total]:
        """The sums; they may begin anew."""
        with self._lock:
            found = dict(self._totals)
            if anew:
                self._totals.clear()
        return found


class _OfThread(local):
    def __init__(self) -> None:
        self.open: list[Span] = []


class Recorder:
    """Hands the times of the clocks of one function to all who want them."""

    def __init__(self) -> None:
        self.wanted_by: tuple[Times, ...] = ()
        self._of_thread = _OfThread()

    @property
    def open(self) -> list[Span]:
        """The spans of this thread that have begun and not ended."""
        return self._of_thread.open

    def timed(self, row: Row, function: Function) -> Function:
        """A function behind a clock."""

        def call(*args: object) -> object:
            with Span(self, row):
                return function(*args)

        return call


class Span:
    """One run of a step; JAX's own traces show it too."""

    def __init__(self, recorder: Recorder, row: Row) -> None:
        self._made = perf_counter_ns()
        self.row, self.bytes = row, 0
        self._wanted_by, self._open, self._inside = recorder.wanted_by, recorder.open, 0
        self._annotation = trace_annotation(row.name)

    def __enter__(self) -> Span:
        self._open.append(self)
        self._annotation.__enter__()
        self._start = perf_counter_ns()
        return self

    def __exit__(self, *error: object) -> None:
        end = perf_counter_ns()
        self._annotation.__exit__(None, None, None)
        after = self._start - self._open[0]._start
        self._open.pop()
        event = Event(self.row, self._start, end - self._start, self.bytes, get_ident())
        for times in self._wanted_by:
            times.add(event, event.time - self._inside, after)
        if self._open:  # what the clock takes is no part of any row
            self._open[-1]._inside += perf_counter_ns() - self._made


@dataclass(frozen=True)
class Clock:
    """The clocks of one plan, which is a part of a loop or branch where it is ``inside`` of one."""

    recorder: Recorder
    plan: Plan
    titles: Titles
    inside: Row | None = None

    def part(self, step: HostLoop | HostBranch, which: int) -> Clock:
        """The clocks of a plan inside of a step."""
        return Clock(self.recorder, step.inner[which], self.titles, self._row_of(step))

    def timed(self, row: Row, function: Function) -> Function:
        """A function behind a clock."""
        return self.recorder.timed(row._replace(inside=self.inside), function)

    def _row_of(self, step: Step) -> Row:
        title, where = self.titles.get(id(step), (step.title, ""))
        return Row(step.kind, title, where, self.inside)

    def step(self, step: Step, function: Function) -> Function:
        """A step of the host."""
        folded = isinstance(step, HostStep) and step.folded
        return self.timed(Row("arithmetic on sizes") if folded else self._row_of(step), function)

    def region(self, region: Region, function: Function, takes: Sequence[int] = ()) -> Function:
        """A region, what is transferred to the device for it, and the time until XLA is done.

        The function ``takes`` some values last, of which large ones are transferred before.
        """
        row, names = self._row_of(region), [self.plan.names[number] for number in takes]
        wait = Row("wait", f"for region {region.index}", inside=self.inside)

        def call(*given: object) -> object:
            first, place = len(given) - len(takes), place_for(given)
            # On several devices JAX would compile anew for arguments that are there already.
            if takes and first >= 0 and not isinstance(place, NamedSharding):
                moved = map(self._moved, names, given[first:], repeat(place))
                given = (*given[:first], *moved)
            span = Span(self.recorder, row)
            span.bytes = sum(value.nbytes for value in given if type(value) is np.ndarray)
            this_thread.kind = row.kind
            with span:
                try:
                    found = function(*given)
                finally:
                    span.row = row._replace(kind=this_thread.kind)
            with Span(self.recorder, wait):
                _wait_for(found)
            return found

        return call

    def _moved(self, name: str, value: object, place: Sharding | None) -> object:
        """An argument on the device, where it is worth a transfer of its own."""
        if type(value) is not np.ndarray or value.nbytes < _LARGE:
            return value
        return self.crossing(name, _put)(value, place)

    def host(self, function: Function) -> Function:
        """The function that gives a value, by its number, as the host reads it."""
        fetched = {step.value: step for step in self.plan.steps if isinstance(step, Fetch)}

        def crossing(number: int) -> Function:
            where = self._row_of(fetched[number]).where if number in fetched else ""
            return self.crossing(self.plan.names[number], function, where)

        functions = [crossing(number) for number in range(len(self.plan.names))]

        def call(value: object, number: int) -> object:
            return value if class_of(value) is np.ndarray else functions[number](value, number)

        return call

    def moved(self, function: Function) -> Function:
        """The function that transfers an argument which several regions take."""
        crossing = self.crossing("an argument", function)

        def call(value: object, place: object) -> object:
            return crossing(value, place) if class_of(value) is np.ndarray else value

        return call

    def crossing(self, name: str, function: Function, where: str = "") -> Function:
        """A function that may transfer a value, for the code of the user's at a line."""
        kinds = ("transfer to host", TO_DEVICE, OUTPUTS.kind)
        to_host, to_device, other = [Row(kind, name, where, self.inside) for kind in kinds]

        def call(value: object, *rest: object) -> object:
            from_device = class_of(value) is ARRAY
            with Span(self.recorder, to_host if from_device else to_device) as span:
                found = function(value, *rest)
                span.bytes = getattr(found, "nbytes", 0)
                if from_device == (class_of(found) is ARRAY):
                    span.row, span.bytes = other, 0
            return found

        return call


def _put(value: object, place: Sharding | None) -> object:
    found = device_put(value, place)
    _wait_for(found)
    return found


def _wait_for(found: object) -> None:
    """Wait until XLA has computed what a region gives.

    An error shows where it does without clocks: when somebody asks for the value.
    """
    with suppress(Exception):
        for leaf in jax.tree_util.tree_leaves(found):
            if type(leaf) is ARRAY:
                when_ready(leaf)
