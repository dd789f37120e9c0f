"""Loops and branches executed by the host, around bodies that have regions of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Sharding

from pytensor_jaxlink.plan import HostLoop
from pytensor_jaxlink.runtime.devices import detached, place_for, to_numpy
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import device_put
from pytensor_jaxlink.runtime.waiting import end_if_false

Body = Callable[..., Result]
"""A plan as a function of the values of its inputs."""

_LARGE = 4096  # bytes; what is larger and the same in every step is moved to the device once


def run_branch(
    bodies: Sequence[Body], condition: object, arguments: Sequence[object]
) -> tuple[list[object], Sequence[object]]:
    """Run the first body if the condition holds, else the second."""
    result = bodies[0 if np.asarray(condition) else 1](*arguments)
    return result.outputs, result.conditions


class LoopRun:
    """One run of a loop, step by step.

    It raises `IndexError` or `ValueError` where the inputs do not fit together.  PyTensor's own
    loop then says it in its own words.
    """

    def __init__(
        self, step: HostLoop, body: Body, arguments: Sequence[object], stats: Stats
    ) -> None:
        self.step, self.layout, self.body, self.stats = step, step.layout, body, stats
        parts = self.layout.sort_inputs(arguments)
        self.steps = int(np.asarray(parts.steps))
        self.sequences = [to_numpy(sequence, stats) for sequence in parts.sequences]
        if self.steps < 0 or any(len(sequence) < self.steps for sequence in self.sequences):
            raise IndexError(f"a loop of {self.steps} steps, or a sequence that is shorter")
        self.scattered = [to_numpy(buffer, stats).copy() for buffer in parts.scattered]
        self.buffers = [to_numpy(buffer, stats) for buffer in parts.buffers]
        self.carried = parts.carried
        self.kept = [int(np.asarray(kept)) for kept in parts.kept]
        place = place_for(arguments)
        self.constants = [_moved(value, place) for value in parts.constants]

    def run(self) -> tuple[list[object], list[object]]:
        """The outputs of the loop and the lengths of the measured ones, and the conditions."""
        layout = self.layout
        conditions: list[object] = []
        # A history keeps no more than the buffer has room for, and what the next step reads.
        histories: list[deque[object]] = [
            deque(map(np.array, buffer[:depth]), maxlen=max(len(buffer), depth))
            for buffer, depth in zip(self.buffers, layout.history_lengths, strict=True)
        ]
        emitted: list[deque[object]] = [deque(maxlen=kept) for kept in self.kept]
        made = 0
        while made < self.steps:
            try:
                outputs, found, _ = self.body(*self._arguments(made, histories))
            except Exception as error:
                end_if_false(error, *conditions)  # of the steps before
                raise
            conditions += found
            parts = layout.sort_outputs(outputs)
            for buffer, places, values in zip(
                self.scattered, layout.scattered_writes, parts.scattered, strict=True
            ):
                for place, value in zip(places, values, strict=True):
                    buffer[made + place] = to_numpy(value, self.stats)
            for history, value, buffer in zip(histories, parts.states, self.buffers, strict=True):
                if np.shape(value) != buffer.shape[1:]:
                    raise ValueError(f"a state changed its shape to {np.shape(value)}")
                history.append(value)
            for history, value in zip(emitted, parts.emitted, strict=True):
                history.append(value)
            self.carried = parts.carried
            made += 1
            if layout.conditional and (np.asarray(parts.stop) or not all(map(bool, found))):
                break
        results = [
            *self.scattered,
            *(
                self._result(history, len(buffer), made)
                for history, buffer in zip(histories, self.buffers, strict=True)
            ),
            *(
                self._result(history, kept, made)
                for history, kept in zip(emitted, self.kept, strict=True)
                if self.steps or not self.step.emitted
            ),
        ]
        if not self.steps:  # PyTensor's loop does not know the other lengths either
            results += [np.zeros((0,) * rank, dtype) for dtype, rank in self.step.emitted]
        measured = self.step.measured
        lengths = [np.asarray(len(results[position]), dtype="int64") for position in measured]
        return [*results, *self.carried, *lengths], conditions

    def _arguments(self, step: int, histories: Sequence[deque[object]]) -> list[object]:
        """The inputs of one step.  Entries of buffers that are written later are copied."""
        arguments = [sequence[step] for sequence in self.sequences]
        for buffer, places in zip(self.scattered, self.layout.scattered_reads, strict=True):
            arguments += [buffer[step + place].copy() for place in places]
        arguments += self.layout.seen(histories)
        return [*map(_array, arguments), *self.carried, *self.constants]

    def _result(self, history: deque[object], length: int, made: int) -> Any:
        """The last entries of a history; where there are fewer the rest is zero, as in PyTensor."""
        entries = [to_numpy(entry, self.stats) for entry in history]
        if not entries:
            raise IndexError("a loop without steps has outputs of unknown shape")
        result = np.stack(entries)[-length:]
        if made == self.steps and len(result) < length:
            rest = np.zeros((length - len(result), *result.shape[1:]), result.dtype)
            result = np.concatenate([result, rest])
        return result


def _array(value: object) -> object:
    """NumPy's scalars as arrays, which is what regions take."""
    array = value
    return np.asarray(array) if isinstance(value, np.generic) else array


def _moved(value: Any, place: Sharding | None) -> object:
    moved: Any = value
    if isinstance(value, np.ndarray) and value.nbytes > _LARGE:
        moved = device_put(detached(value), place)
    return moved
