"""Times taken side by side.

A figure of one run is worth little on a machine that others use too, a ratio of two runs less: a
candidate may have had the quiet minute.  So the candidates take turns, in rounds of some
milliseconds, and the ratio is the median of the ratios that the rounds found.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

Action = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes
    ----------
    rounds
        How many.
    seconds
        Of each candidate in a round.
    settle
        Of rest before each candidate's turn: the threads of OpenBLAS spin for some 20 ms after
        they were needed, and take the cores from whoever comes next.
    """

    rounds: int = 61
    seconds: float = 0.01
    settle: float = 0.0


THOROUGH, QUICK = Effort(), Effort(rounds=11, seconds=0.003)


@dataclass(frozen=True)
class Timing:
    """Seconds a call, for each candidate the median of each round.

    Examples
    --------
    >>> timing = Timing({"a": (1.0, 4.0, 3.0), "b": (2.0, 4.0, 9.0)})
    >>> timing.median("a"), timing.ratio("b", "a")
    (3.0, 2.0)
    """

    rounds: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        """Seconds a call."""
        return float(np.median(self.rounds[name]))

    def ratio(self, name: str, reference: str) -> float:
        """How much longer than the reference: the median over the rounds."""
        return float(np.median(np.divide(self.rounds[name], self.rounds[reference])))


def interleave(candidates: Mapping[str, Action], effort: Effort = THOROUGH) -> Timing:
    """Time the candidates round robin; each call is waited for.

    Each candidate is called twice before, so that nothing is compiled while the clock runs, and
    each round has another order: what follows a candidate that fills the cache, or whose threads
    still spin, should not always be the same one.
    """
    waited = {name: _waiting(action) for name, action in candidates.items()}
    calls = {name: _calls_in(action, effort.seconds) for name, action in waited.items()}
    names, order = list(candidates), np.random.default_rng(0)
    rounds: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for _ in range(effort.rounds):
            for name in order.permutation(names):
                rounds[name].append(_turn(waited[name], calls[name], effort.settle))
    finally:
        gc.enable()
    return Timing({name: tuple(found) for name, found in rounds.items()})


def _turn(action: Action, calls: int, settle: float) -> float:
    """The median of some calls."""
    if settle:
        time.sleep(settle)
        action()  # the cores may have gone to sleep too
    return float(np.median([seconds(action) for _ in range(calls)]))


def seconds(action: Action) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _waiting(action: Action) -> Action:
    """The action, until its result is there.  NumPy's results are: nothing is added for them."""
    found = jax.tree.leaves(jax.block_until_ready(action()))
    if not any(isinstance(leaf, jax.Array) for leaf in found):
        return action
    return lambda: jax.block_until_ready(action())


def _calls_in(action: Action, limit: float) -> int:
    """How many calls fill the time, at least one."""
    action()
    return max(1, round(limit / min(seconds(action) for _ in range(3))))
