"""Counters of what a function did."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import local
from typing import Any

this_thread = local()
"""Its ``kind`` says what a region that this thread runs is, where it is no mere call.

Counters do not tell it: other threads count too.
"""

_TOTALS = (
    "host_steps",
    "bytes_to_host",
    "bytes_to_device",
    "arrays_gathered",
    "donated_bytes",
    "fallbacks",
    "failures",
    "dynamic_sizes",
    "padded_calls",
)
"""The counters that are neither of calls nor of regions."""


@dataclass(slots=True)  # a counter costs half as much so
class Stats:
    """Counters of a function since it was built.

    Counters are not locked: under many threads they are approximate.

    Attributes
    ----------
    calls
        Calls of the function.
    region_calls
        For each region, how often it ran.
    compilations
        For each region, how often JAX traced and compiled it; see also `equal_code`.  JAX compiles
        also for each new sharding of arguments; that is not counted, and has no limit.
    host_steps
        Host steps run, size arithmetic not counted.
    host_region_calls
        For each region, how often it ran on the host, because it would have been compiled more
        often than `recompile_limit` allows.
    bytes_to_host
        Bytes copied to the host, for fetches, host steps, fallbacks, and results as NumPy arrays.
    bytes_to_device
        Bytes of NumPy arrays given to regions.
    arrays_gathered
        Arrays copied to the host that were spread over several devices.
    donated_bytes
        Bytes of arguments whose memory was reused.
    signatures
        For each region, the static values and arguments that it was traced for.
    fallbacks
        Calls that PyTensor's own implementation had to finish, because a region failed.
    failures
        JAX implementations and rewrites that failed.  The plan does without them; `explain` names
        each.
    slow_calls
        Calls whose fast path failed where the slow path gave a result: a defect of this library,
        which costs time and no more.  `explain` names the last such error.
    dynamic_sizes
        Sizes that became data, because a second value came.
    padded_calls
        Calls with a further value of a size that is data only beyond `recompile_limit`, and calls
        whose arguments were padded.
    padded
        The counters of the plan for padded arguments, None where there is none.  Its regions are
        compiled once for each bucket.
    equal_code
        Compilations that were none, because the code of a function of an equal graph was there.
    start_up_cache
        What became of the function in the start-up cache: ``"off"``, ``"hit"`` (it was there),
        ``"miss"`` (it is there now), or ``"not kept: "`` and why, with a code of the catalogue.
    direct
        Calls that went straight to the function that JAX compiled of the one region.  The others
        are ``general_calls``, so that each call counts once: counting takes time.
    padded_direct
        Those of them whose arguments were padded.
    """

    general_calls: int = 0
    general_region_calls: list[int] = field(default_factory=list)
    direct: int = 0
    padded_direct: int = 0
    compilations: list[int] = field(default_factory=list)
    host_steps: int = 0
    host_region_calls: list[int] = field(default_factory=list)
    bytes_to_host: int = 0
    bytes_to_device: int = 0
    arrays_gathered: int = 0
    donated_bytes: int = 0
    fallbacks: int = 0
    failures: int = 0
    slow_calls: int = 0
    dynamic_sizes: int = 0
    padded_calls: int = 0
    padded: Stats | None = field(default=None, repr=False)
    slow_call_error: str = field(default="", repr=False)
    signatures: list[list[Any]] = field(default_factory=list, repr=False)
    start_up_cache: str = "off"
    # Functions that do the same have equal counters, whichever of them was the first.
    equal_code: int = field(default=0, compare=False, repr=False)

    def with_regions(self, count: int) -> None:
        """Start counting for a plan with ``count`` regions."""
        self.general_calls, self.direct, self.padded_direct = self.calls, 0, 0
        self.collected().padded = None
        self.general_region_calls = [0] * count
        self.compilations = [0] * count
        self.host_region_calls = [0] * count
        self.signatures = [[] for _ in range(count)]

    def go_on_from(self, earlier: Stats) -> None:
        """Count on from where another function left off, which this one takes the place of.

        What is counted by region starts anew.
        """
        self.start_up_cache = earlier.start_up_cache
        self.general_calls += earlier.collected().calls
        for name in _TOTALS:
            setattr(self, name, getattr(self, name) + getattr(earlier, name))
        self.note_slow_calls(earlier.slow_calls, earlier.slow_call_error)

    def collected(self) -> Stats:
        """Itself, with what was counted for padded arguments, beside what is counted by region."""
        padded = self.padded
        if padded is not None:
            for name in _TOTALS:
                setattr(self, name, getattr(self, name) + getattr(padded, name))
                setattr(padded, name, 0)
        return self

    def note_slow_calls(self, count: int, error: str) -> None:
        """Count calls whose fast path failed, the last of them with this error."""
        self.slow_calls += count
        self.slow_call_error = error or self.slow_call_error

    @property
    def calls(self) -> int:
        """Calls of the function."""
        return self.general_calls + self.direct

    @property
    def region_calls(self) -> list[int]:
        """How often each region ran."""
        direct = self.direct - self.padded_direct
        return [count + direct for count in self.general_region_calls]

    @property
    def host_regions(self) -> int:
        """How often regions ran on the host, because of `recompile_limit`."""
        of_padded = 0 if self.padded is None else self.padded.host_regions
        return sum(self.host_region_calls) + of_padded

    @property
    def cache_hits(self) -> list[int]:
        """For each region, the calls that needed no compilation."""
        return [
            max(0, ran - compiled)  # `compile` runs nothing
            for ran, compiled in zip(self.region_calls, self.compilations, strict=True)
        ]
