"""`profile`: where the time of the calls of a function goes.

A function that is profiled is of another class for that time, whose calls and methods are behind
clocks.  So a function that is not has nothing to ask when it is called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from functools import cache
from os import PathLike, getpid
from pathlib import Path
from threading import RLock

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.runtime.clocks import (
    ARGUMENTS,
    CALL,
    OUTPUTS,
    SLOW_PATH,
    TO_DEVICE,
    Function,
    Recorder,
    Row,
    Span,
    Times,
)
from pytensor_jaxlink.runtime.fast_call import FastCall
from pytensor_jaxlink.runtime.profile_table import ProfileRow, as_text, rows_of, table_as_html

MOST_EVENTS = 200_000
"""Runs of steps in a trace; some 30 MB."""

_METHODS = {
    "_convert_all": ARGUMENTS,
    "_values": ARGUMENTS,
    "_detached": Row(TO_DEVICE, "copies of arguments"),
    "_checked": SLOW_PATH,
    "_finished": OUTPUTS,
}
"""The methods of functions that are behind clocks, beside the steps of their plans."""

_FIND, _RECORDER = "_find_fast", "_recorder"
_lock = RLock()


class Profile:
    """Where the time of the calls of a function went; `profile` makes it.

    ``print`` shows a table, a notebook the same as HTML, and `export_chrome_trace` writes each run
    of each step.

    Examples
    --------
    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink import profile
    >>> x = pt.vector("x", dtype="float64")
    >>> f = pytensor.function([x], pt.exp(x).sum(), mode="JAXSELECTIVE")
    >>> with profile(f) as found:
    ...     _ = f(np.ones(3))
    >>> [(row.name, row.bytes) for row in found.rows if row.bytes]
    [('compilation of region 0: 2 operations', 24)]
    """

    def __init__(self, name: str, times: Times) -> None:
        self._name, self._times = name, times

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(each.count for row, each in self._times.totals().items() if row is CALL)

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        """The steps, in the order in which they begin; their times add up to that of the calls."""
        return rows_of(self._times.totals())

    def to_dict(self) -> dict[str, object]:
        """The profile as plain lists, dicts, strings and numbers."""
        rows = [dict(zip(ProfileRow.__annotations__, row, strict=True)) for row in self.rows]
        return {"name": self._name, "calls": self.calls, "rows": rows}

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write each run of each step to a file that ui.perfetto.dev and chrome://tracing open.

        There are no more than the first 200,000.
        """
        events, here = self._times.events[:], {"pid": getpid()}
        threads = {thread: n for n, thread in enumerate(dict.fromkeys(e.thread for e in events))}
        named = {"ph": "M", "name": "process_name", "tid": 0, "args": {"name": self._name}}
        runs = [
            {
                "ph": "X",
                "name": event.row.name,
                "cat": event.row.kind,
                "tid": threads[event.thread],
                "ts": event.start / 1e3,
                "dur": event.time / 1e3,
                "args": {"line": event.row.where, "bytes": event.bytes},
            }
            for event in events
        ]
        trace = {"traceEvents": [here | each for each in (named, *runs)], "displayTimeUnit": "ns"}
        Path(path).write_text(json.dumps(trace))

    def __repr__(self) -> str:
        return as_text(self._name, self.calls, self.rows)

    def _repr_html_(self) -> str:
        return table_as_html(self._name, self.calls, self.rows)


@contextmanager
def profile(f: FastCall) -> Generator[Profile, None, None]:
    """Say where the time of the calls of a function goes, while a block is entered.

    The function gives the same values, updates and errors as ever.  It waits for each region, so
    a call takes longer than without clocks, where Python goes on while XLA computes, and each clock
    takes some 3 µs.  Calls in all threads count.

    Parameters
    ----------
    f : JAXFunction, or a function that `load` gave
        The function.  Nested blocks profile several.

    Yields
    ------
    Profile
        The times so far; it can be looked at inside of the block and after it.

    Raises
    ------
    TypeError
        If it is another function.

    Examples
    --------
    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> from pytensor_jaxlink import profile
    >>> x = pt.vector("x", dtype="float64")
    >>> f = pytensor.function([x], pt.unique(pt.exp(x)) * 2, mode="JAXSELECTIVE")
    >>> with profile(f) as found:
    ...     for _ in range(3):
    ...         _ = f(np.zeros(3))
    >>> found.calls
    3
    """
    times = Times(MOST_EVENTS)
    stop = take_times(f, times)
    try:
        yield Profile(getattr(f, "name", None) or "function", times)
    finally:
        stop()


def take_times(f: object, times: Times) -> Callable[[], None]:
    """Have the times of the calls of a function taken; gives a function that ends it."""
    if not isinstance(f, FastCall):
        text = f"a function of mode JAXSELECTIVE or one that load gave can be profiled, not {f!r}"
        raise TypeError(Code.NOT_PROFILED.mark(text))
    with _lock:
        recorder = _recorder_of(f)
        if recorder is None:
            recorder = vars(f)[_RECORDER] = Recorder()
            f.__class__ = _timed_class(type(f))
        recorder.wanted_by += (times,)

    def stop() -> None:
        with _lock:
            recorder.wanted_by = tuple(each for each in recorder.wanted_by if each is not times)
            if not recorder.wanted_by:
                del vars(f)[_RECORDER]
                f.__class__ = type(f).__bases__[0]
                _use_clocks(f)

    return stop


def _recorder_of(f: FastCall) -> Recorder | None:
    """The recorder of a function; None if nobody takes its times, perhaps not any more."""
    return vars(f).get(_RECORDER)


def _use_clocks(f: FastCall) -> None:
    with _lock:
        f.use_clocks(_recorder_of(f))


@cache
def _timed_class(kind: type[FastCall]) -> type[FastCall]:
    """The class of functions of a class that are behind clocks.

    A call in another thread goes on while a function gets its own class back, so the methods ask
    for nothing that is not there then.
    """

    def call(self: FastCall, *args: object, **kwargs: object) -> object:
        recorder = _recorder_of(self)
        if recorder is None or (recorder.open and recorder.open[-1].row is CALL):
            return kind.__call__(self, *args, **kwargs)  # the same call, on another path
        _use_clocks(self)
        with Span(recorder, CALL):
            return kind.__call__(self, *args, **kwargs)

    def find_fast(self: FastCall) -> object:
        found = getattr(kind, _FIND)(self)
        _use_clocks(self)
        return found

    rows = {name: row for name, row in _METHODS.items() if hasattr(kind, name)}
    members = {name: _method(kind, name, row) for name, row in rows.items()}
    members |= {"__call__": call, _FIND: find_fast}
    return type(kind.__name__, (kind,), {**members, "__module__": kind.__module__})


def _method(kind: type[FastCall], name: str, row: Row) -> Function:
    def method(self: FastCall, *args: object, **kwargs: object) -> object:
        recorder = _recorder_of(self)
        with nullcontext() if recorder is None else Span(recorder, row):
            return getattr(kind, name)(self, *args, **kwargs)

    return method
