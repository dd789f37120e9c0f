"""How much a program computes: the entries of its arrays, counted while JAX traces it.

Those of inner graphs count too, once for each step of a loop and for both sides of a branch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from pytensor_jaxlink.lowering.checks import in_this_block


class Work(threading.local):
    """The entries that have been computed in a thread, and how often a block is run."""

    def __init__(self) -> None:
        self.entries, self.times = 0, 1


_work = Work()


@contextmanager
def counting() -> Iterator[Work]:
    """Count what is computed in the block, from 0 on."""
    with in_this_block(_work, "entries", 0), in_this_block(_work, "times", 1):
        yield _work


def repeated(times: object) -> AbstractContextManager[None]:
    """The block is the body of a loop; once for a number of steps that is not known."""
    known = max(times, 1) if isinstance(times, int) else 1
    return in_this_block(_work, "times", _work.times * known)


def count(values: Iterable[object]) -> None:
    """Count some values; one that is no array is one entry."""
    _work.entries += _work.times * sum(getattr(value, "size", 1) for value in values)
