"""All operations of a call that raise: the Python linker, which goes on after the first."""

from __future__ import annotations

from typing import Any

from pytensor.compile.mode import Mode
from pytensor.link.basic import PerformLinker, WrapLinker


class FailuresError(Exception):
    """What the operations of one call raise."""

    def __init__(self, raised: list[Exception]) -> None:
        super().__init__(*raised)
        self.raised = raised


_NOTHING = object()
"""The value of what could not be computed."""


def patient_mode(mode: Mode) -> Mode:
    """A mode whose functions raise `FailuresError` when each node that can be run has run.

    A node whose arguments could not be computed does not run.
    """
    raised: list[Exception] = []

    def step(fgraph: Any, index: int, node: Any, *thunks: Any) -> None:
        if index == 0:
            raised.clear()
        for thunk in thunks:
            if any(cell[0] is _NOTHING for cell in thunk.inputs):
                _lose(thunk)
                continue
            try:
                thunk()
            except Exception as error:
                raised.append(error)
                _lose(thunk)
        if raised and index == len(fgraph.apply_nodes) - 1:
            raise FailuresError(list(raised))

    return Mode(linker=WrapLinker([PerformLinker()], step), optimizer=mode.provided_optimizer)


def _lose(thunk: Any) -> None:
    for cell in thunk.outputs:
        cell[0] = _NOTHING


def is_a_failure_of_pytensor(outcome: Any) -> bool:
    """Whether PyTensor fails to evaluate a graph that has a value."""
    return isinstance(outcome, Exception) and (
        # A rewrite to work in place asks NumPy for a conversion that it refuses.
        type(outcome).__name__ == "UFuncTypeError"
        # NumPy knows no bits of a uint64 and a signed integer, which PyTensor declares a float64.
        or "was found for ufunc bitwise_" in str(outcome)
        # The angle of a real number writes into an array that NumPy gives to read.
        or "assignment destination is read-only" in str(outcome)
        # A batch of medians.
        or "'NoneType' object is not subscriptable" in str(outcome)
        # `numpy.vectorize`, which Blockwise uses, cannot take an empty batch.
        or "vectorize with zero size" in str(outcome)
        # PyTensor 3.0 makes a Python integer of a number before it casts it, and each version
        # computes with Python's integers where an elementwise operation has three arguments.
        or (isinstance(outcome, OverflowError) and _is_of_a_type(str(outcome)))
        or "cannot convert float" in str(outcome)
        # PyTensor 3.0 compiles some Ops in C, which knows no float16.
        or (isinstance(outcome, NotImplementedError) and str(outcome) == "float16")
        # PyTensor 3.0 sets no single row of several: `x[:, [0]] = y`.
        or "AdvancedIncSubtensor1 was asked to broadcast" in str(outcome)
    )


def _is_of_a_type(text: str) -> bool:
    """Whether an integer of Python's did not fit into an array."""
    return "out of bounds for " in text or "too large to convert to C long" in text
