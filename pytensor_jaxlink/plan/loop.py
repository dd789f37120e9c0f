"""The layout of a loop: which of its values plays which part.  Pure data, as the plan is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

Taps = tuple[int, ...]
Value = TypeVar("Value")

Entry_co = TypeVar("Entry_co", covariant=True)


class Entries(Protocol[Entry_co]):
    """The entries of a state: a tuple of them, or one array."""

    def __len__(self) -> int:
        """The number of entries."""
        ...

    def __getitem__(self, place: int, /) -> Entry_co:
        """One of them."""
        ...


@dataclass
class LoopInputs(Generic[Value]):
    """The inputs of a loop, by their part."""

    steps: Value
    sequences: list[Value]
    scattered: list[Value]
    buffers: list[Value]
    carried: list[Value]
    kept: list[Value]
    constants: list[Value]


@dataclass
class StepOutputs(Generic[Value]):
    """The outputs of one step of a loop, by part."""

    scattered: list[list[Value]]
    states: list[Value]
    emitted: list[Value]
    carried: list[Value]
    stop: Value | bool


@dataclass(frozen=True)
class LoopLayout:
    """How the inputs and outputs of a `Scan` are laid out.

    PyTensor's own words for the parts are in brackets.

    Attributes
    ----------
    sequences
        How many arrays the loop goes through, one entry a step.
    scattered_reads, scattered_writes
        For each buffer that a step reads and writes in several places (mit-mot), the places, as
        distances from the number of the step.
    taps
        For each state that looks back (mit-sot, sit-sot), how far: -1 is the step before.
    carried
        How many values go from step to step and are not stacked (untraced sit-sot).
    emitted
        How many outputs no step reads (nit-sot).
    conditional
        Whether a step says if it is the last.
    """

    sequences: int
    scattered_reads: tuple[Taps, ...]
    scattered_writes: tuple[Taps, ...]
    taps: tuple[Taps, ...]
    carried: int
    emitted: int
    conditional: bool

    def __post_init__(self) -> None:
        assert min(self.sequences, self.carried, self.emitted) >= 0, f"{self} has negative counts"
        assert all(taps and max(taps) < 0 for taps in self.taps), f"no step reads {self.taps}"

    def counts(self, arguments: int) -> tuple[int, int, int]:
        """How many inputs and outputs a step has, and how many outputs the loop."""
        kept = self.carried + self.emitted
        states = len(self.scattered_reads) + len(self.taps)
        constants = arguments - 1 - self.sequences - states - kept
        assert constants >= 0, f"{arguments} arguments are too few for {self}"
        reads = sum(map(len, (*self.scattered_reads, *self.taps)))
        writes = sum(map(len, self.scattered_writes)) + len(self.taps)
        inputs = self.sequences + reads + self.carried + constants
        return inputs, writes + kept + self.conditional, states + kept

    @property
    def history_lengths(self) -> tuple[int, ...]:
        """How many entries of each state a step can see."""
        return tuple(-min(taps) for taps in self.taps)

    @property
    def scattered_places(self) -> tuple[Taps, ...]:
        """For each buffer that a step reads and writes in several places, all of them."""
        pairs = zip(self.scattered_reads, self.scattered_writes, strict=True)
        return tuple(reads + writes for reads, writes in pairs)

    def sort_inputs(self, values: Sequence[Value]) -> LoopInputs[Value]:
        """The inputs of the loop by their part."""
        steps, *rest = values
        take = iter(rest)
        return LoopInputs(
            steps,
            list(islice(take, self.sequences)),
            list(islice(take, len(self.scattered_reads))),
            list(islice(take, len(self.taps))),
            list(islice(take, self.carried)),
            list(islice(take, self.emitted)),
            list(take),
        )

    def sort_outputs(self, values: Sequence[Value]) -> StepOutputs[Value]:
        """Sort the outputs of a step by part."""
        take = iter(values)
        return StepOutputs(
            [list(islice(take, len(places))) for places in self.scattered_writes],
            list(islice(take, len(self.taps))),
            list(islice(take, self.emitted)),
            list(islice(take, self.carried)),
            next(take) if self.conditional else False,
        )

    def seen(self, histories: Sequence[Entries[Value]]) -> Iterator[Value]:
        """The states that a step reads, given the last entries of each, oldest first."""
        for history, taps in zip(histories, self.taps, strict=True):
            for tap in taps:
                yield history[len(history) + tap]
