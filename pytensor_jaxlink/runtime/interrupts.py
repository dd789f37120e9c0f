"""Ctrl-C, while something is done that must be done whole."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from _thread import interrupt_main, start_new_thread
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from itertools import repeat
from operator import setitem
from typing import Any


def store(cells: Sequence[list[object]], values: Iterable[object]) -> None:
    """Put values into cells, all or none: there is no bytecode between them to interrupt.

    An error in getting the first value leaves all as it was.
    """
    if len(cells) == 1:
        [cells[0][0]] = values
        return
    deque(map(setitem, cells, repeat(0), values), maxlen=0)


@contextlib.contextmanager
def interrupts_wait() -> Generator[None, None, None]:
    """Deliver a Ctrl-C that comes inside the block when the call has returned."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts are delivered to the main thread alone
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        yield
        return
    came = False

    def wait(*_: Any) -> None:
        nonlocal came
        came = True

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            # No `threading.Thread`: when one is freed, a callback in Python runs, in which an
            # interrupt would be lost.
            start_new_thread(_interrupt_soon, ())


def _interrupt_soon() -> None:
    time.sleep(0.001)
    interrupt_main()
