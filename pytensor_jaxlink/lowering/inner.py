"""Rules for Ops that run a graph of their own: `OpFromGraph` and `Scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.scan.op import Scan

from pytensor_jaxlink.lowering.checks import collecting, conjunction, require
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule

Step = Callable[..., Sequence[Any]]


@jax_rule.register(OpFromGraph)
def _op_from_graph(op: OpFromGraph, node: Apply, context: Context) -> JaxFunction:
    assert context.inner is not None
    return context.lower_inner(context.inner)


@jax_rule.register(Scan)
def _scan(op: Scan, node: Apply, context: Context) -> JaxFunction:
    """`jax.lax.scan`, with the constant inputs of the loop closed over.

    What the loop keeps follows PyTensor's buffers: a buffer of length L gives the last L entries
    of the initial values followed by the trace.  Where that is no more than the state that is
    carried from step to step, the trace is never stacked.
    """
    assert context.inner is not None
    step = context.lower_inner(context.inner)
    return lambda *inputs: _Loop(op, step, list(inputs)).run()


class _Loop:
    """One run of a scan, with its outer inputs sorted by their role."""

    def __init__(self, op: Scan, step: Step, inputs: list[Any]) -> None:
        self.op, self.info, self.step = op, op.info, step
        self.length = int(inputs[0])
        if self.length < 0:
            raise ValueError(f"Scan was asked to run for negative number of step {self.length}")
        self.sequences = [jnp.asarray(s)[: self.length] for s in op.outer_seqs(inputs)]
        for sequence in self.sequences:
            if sequence.shape[0] < self.length:
                raise ValueError("a sequence of the scan is shorter than its number of steps")
        self.mit_mot = [jnp.asarray(buffer) for buffer in op.outer_mitmot(inputs)]
        self.buffers = [*op.outer_mitsot(inputs), *op.outer_sitsot(inputs)]
        self.windows = [
            -min(taps) for taps in (*self.info.mit_sot_in_slices, *self.info.sit_sot_in_slices)
        ]
        self.initial = [
            jnp.asarray(buffer)[:window]
            for buffer, window in zip(self.buffers, self.windows, strict=True)
        ]
        self.untraced = list(op.outer_untraced_sit_sot(inputs))
        self.kept = [int(length) for length in op.outer_nitsot(inputs)]
        self.constant = list(op.outer_non_seqs(inputs))

    def run(self) -> Any:
        stacked = [
            np.shape(buffer)[0] > window
            for buffer, window in zip(self.buffers, self.windows, strict=True)
        ]

        def body(carry: Any, elements: Any) -> Any:
            with collecting() as conditions:
                outputs = list(self.step(*self._arguments(carry, elements)))
            new_carry, entries, emitted = self._split(carry, outputs)
            traces = [entry for entry, keep in zip(entries, stacked, strict=True) if keep]
            return new_carry, (traces, emitted, conjunction(conditions))

        start = (
            jnp.zeros((), dtype="int64" if jax.config.jax_enable_x64 else "int32"),
            self.mit_mot,
            self.initial,
            self.untraced,
        )
        final, (traces, emitted, conditions) = jax.lax.scan(
            body, start, self.sequences, length=self.length
        )
        for condition in conditions:
            require(condition)
        _, mit_mot, windows, untraced = final
        remaining = iter(traces)
        recurrent = [
            self._last(jnp.concatenate([initial, next(remaining)]), np.shape(buffer)[0])
            if keep
            else self._last(window, np.shape(buffer)[0])
            for initial, window, buffer, keep in zip(
                self.initial, windows, self.buffers, stacked, strict=True
            )
        ]
        free = [self._last(trace, kept) for trace, kept in zip(emitted, self.kept, strict=True)]
        outputs = [*mit_mot, *recurrent, *free, *untraced]
        return outputs[0] if len(outputs) == 1 else outputs

    @staticmethod
    def _last(array: Any, length: int) -> Any:
        return array if array.shape[0] <= length else array[array.shape[0] - length :]

    def _arguments(self, carry: Any, elements: Any) -> list[Any]:
        """The inner inputs of one step, in the order of the inner graph."""
        counter, mit_mot, windows, untraced = carry
        arguments = list(elements)
        for buffer, taps in zip(mit_mot, self.info.normalized_mit_mot_in_slices, strict=True):
            arguments += [buffer[counter + tap] for tap in taps]
        slices = (*self.info.mit_sot_in_slices, *self.info.sit_sot_in_slices)
        for window, taps in zip(windows, slices, strict=True):
            # Taps count back from the entry that this step computes.
            arguments += [window[window.shape[0] + tap] for tap in taps]
        return [*arguments, *untraced, *self.constant]

    def _split(self, carry: Any, outputs: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        """The state after one step, and the entries that it adds to the traces."""
        op, (counter, mit_mot, windows, _) = self.op, carry
        written = [
            self._write(buffer, counter, taps, values)
            for buffer, taps, values in zip(
                mit_mot,
                self.info.normalized_mit_mot_out_slices,
                op.inner_mitmot_outs_grouped(outputs),
                strict=True,
            )
        ]
        entries = [*op.inner_mitsot_outs(outputs), *op.inner_sitsot_outs(outputs)]
        entries = [
            jnp.asarray(entry, dtype=window.dtype)
            for entry, window in zip(entries, windows, strict=True)
        ]
        moved = [
            jnp.concatenate([window[1:], entry[None]])
            for window, entry in zip(windows, entries, strict=True)
        ]
        untraced = list(op.inner_untraced_sit_sot_outs(outputs))
        emitted = list(op.inner_nitsot_outs(outputs))
        return (counter + 1, written, moved, untraced), entries, emitted

    @staticmethod
    def _write(buffer: Any, counter: Any, taps: Sequence[int], values: Sequence[Any]) -> Any:
        for tap, value in zip(taps, values, strict=True):
            buffer = buffer.at[counter + tap].set(value)
        return buffer
