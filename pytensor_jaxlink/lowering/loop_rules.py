"""Rules for loops: `jax.lax.scan` for known numbers of steps, `jax.lax.while_loop` for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.core import Tracer
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.scan.op import Scan

from pytensor_jaxlink.lowering.checks import collect, collecting, conjunction, repeated, require
from pytensor_jaxlink.lowering.coercion import canonical_dtype, given_to_graph, hidden
from pytensor_jaxlink.lowering.histories import (
    History,
    Strip,
    joined_history,
    last_entries,
    moved_history,
    ring_of,
    split_history,
    unrolled_ring,
)
from pytensor_jaxlink.lowering.orders import goes_backward
from pytensor_jaxlink.lowering.rule import Context, JaxFunction, jax_rule
from pytensor_jaxlink.lowering.summed_entries import summed_buffers
from pytensor_jaxlink.ops import WhileLoop
from pytensor_jaxlink.plan import LoopLayout, StepOutputs
from pytensor_jaxlink.size_functions import as_integer

Step = Callable[..., Sequence[jax.Array]]

Tree = TypeVar("Tree")

Carry = tuple[list[tuple[jax.Array, ...]], list[History], list[jax.Array]]
"""The registers of strips, the states, and the values that are carried."""

Entries = tuple[list[jax.Array], list[jax.Array], jax.Array | None]
"""The entries of the sequences, those that arrive at strips, and one that counts the steps."""

Outputs = tuple[list[jax.Array], list[jax.Array], list[jax.Array], tuple[jax.Array, ...]]
"""The entries that leave the strips, of the states, of other outputs, and the condition."""

State = tuple[jax.Array, list[jax.Array], list[History], list[jax.Array]]
"""How many steps were made, the buffers that steps write to, the states, and what is carried."""

Values = tuple[State, list[jax.Array | None], list[jax.Array], jax.Array, jax.Array]
"""The state, outputs of which the last entries are kept, others, and whether to stop."""


def layout_of(op: Op) -> LoopLayout | None:
    """Which part each input and output of a loop plays, or None if ``op`` is no loop."""
    if isinstance(op, WhileLoop):
        return layout_of(op.scan)
    if not isinstance(op, Scan):
        return None
    info = op.info
    return LoopLayout(
        info.n_seqs,
        tuple(map(tuple, info.normalized_mit_mot_in_slices)),
        tuple(map(tuple, info.normalized_mit_mot_out_slices)),
        tuple(map(tuple, (*info.mit_sot_in_slices, *info.sit_sot_in_slices))),
        info.n_untraced_sit_sot,
        info.n_nit_sot,
        bool(info.as_while),
    )


@jax_rule.register(Scan)
def _scan(op: Scan, node: Apply, context: Context) -> JaxFunction:
    """`jax.lax.scan`, with the constant inputs of the loop closed over.

    What the loop keeps follows PyTensor's buffers: a buffer of length L gives the last L entries
    of the initial values and the stacked outputs.  Where that is no more than the history that is
    carried from step to step, nothing is stacked.
    """
    [inner] = context.inner
    layout, step = layout_of(op), context.lower_inner(inner)
    assert layout is not None
    backward, summed = goes_backward(node), summed_buffers(node, layout)
    return lambda *inputs: _Loop(layout, step, inputs, node, backward, summed).scan()


@jax_rule.register(WhileLoop)
def _while_loop(op: WhileLoop, node: Apply, context: Context) -> JaxFunction:
    """`jax.lax.while_loop`, on stacked outputs as long as PyTensor's buffers."""
    [inner] = context.inner
    layout, step = layout_of(op), context.lower_inner(inner)
    assert layout is not None
    return lambda *inputs: _Loop(layout, step, inputs, node).loop(op.measured)


class _Loop:
    """One loop, with its outer inputs sorted by their part."""

    def __init__(
        self,
        layout: LoopLayout,
        step: Step,
        inputs: Sequence[jax.Array],
        node: Apply,
        backward: bool = False,
        summed: tuple[bool, ...] | None = None,
    ) -> None:
        self.layout, self.step, self.node, self.backward = layout, step, node, backward
        self.summed = summed or (False,) * len(layout.scattered_reads)
        parts = layout.sort_inputs(inputs)
        self.steps, self.carried = parts.steps, parts.carried
        constants = layout.sort_inputs(node.inputs).constants
        self.constants = given_to_graph(parts.constants, constants)
        self.sequences = [jnp.asarray(sequence) for sequence in parts.sequences]
        self.scattered = [jnp.asarray(buffer) for buffer in parts.scattered]
        self.lengths = [buffer.shape[0] for buffer in parts.buffers]
        self.initial = [
            jnp.asarray(buffer)[:depth]
            for buffer, depth in zip(parts.buffers, layout.history_lengths, strict=True)
        ]
        self.kept = list(map(as_integer, parts.kept))
        self.zero = jnp.zeros((), canonical_dtype("int64"))

    # -- a known number of steps ----------------------------------------------------------------

    def scan(self) -> list[jax.Array]:
        """The outputs, where the number of steps is known."""
        steps = as_integer(self.steps)
        if steps < 0:
            raise ValueError(f"Scan was asked to run for negative number of step {steps}")
        if any(sequence.shape[0] < steps for sequence in self.sequences):
            raise ValueError("a sequence of the scan is shorter than its number of steps")
        if steps == 0:
            return self._of_no_steps()
        is_stacked = [
            length > depth
            for length, depth in zip(self.lengths, self.layout.history_lengths, strict=True)
        ]
        strips = [
            Strip.of(buffer, places, steps, summed=summed)
            for buffer, places, summed in zip(
                self.scattered, self.layout.scattered_places, self.summed, strict=True
            )
        ]

        def body(state: Carry, entries: Entries) -> tuple[Carry, Outputs]:
            registers, histories, carried = state
            sequences, arriving, _ = entries
            seen = [
                strip.seen(known, new)
                for strip, known, new in zip(strips, registers, arriving, strict=True)
            ]
            read = [
                [strip.at(values, place) for place in places]
                for strip, values, places in zip(
                    strips, seen, self.layout.scattered_reads, strict=True
                )
            ]
            parts, states, conditions = self._evaluate(sequences, read, histories, carried)
            for strip, values, places, new in zip(
                strips, seen, self.layout.scattered_writes, parts.scattered, strict=True
            ):
                for place, value in zip(places, new, strict=True):
                    strip.put(values, place, value)
            stacked = [entry for entry, keep in zip(states, is_stacked, strict=True) if keep]
            leaving = [values[0] for values in seen]
            moved = list(map(moved_history, histories, states))
            after = ([tuple(values[1:]) for values in seen], moved, parts.carried)
            return after, (leaving, stacked, list(map(jnp.asarray, parts.emitted)), conditions)

        start = (
            [strip.registers for strip in strips],
            [split_history(history) for history in self.initial],
            self.carried,
        )
        if isinstance(steps, int) and steps == 1:
            # XLA replaces the loop by its step, and then 0.0 + x by x, which may be -0.0.
            start = hidden(start)
        sequences = [sequence[:steps] for sequence in self.sequences]
        entries = self._in_order((sequences, [strip.arriving for strip in strips]))
        length = steps if isinstance(steps, int) else None
        # An open length is only known by a sequence of that many entries, and be they empty.
        counted = jnp.zeros((steps, 0)) if length is None else None
        with repeated(length):
            final, outputs = jax.lax.scan(
                body, start, (*entries, counted), length=length, reverse=self.backward
            )
        leaving, stacked, emitted, conditions = self._in_order(outputs)
        for condition in conditions:
            collect(condition)
        registers, histories, carried = final
        scattered = [
            strip.whole(left, kept)
            for strip, left, kept in zip(strips, leaving, registers, strict=True)
        ]
        remaining = iter(stacked)
        states = [
            last_entries(
                jnp.concatenate([initial, next(remaining)]) if keep else joined_history(history),
                length,
            )
            for initial, history, length, keep in zip(
                self.initial, histories, self.lengths, is_stacked, strict=True
            )
        ]
        free = [last_entries(output, kept) for output, kept in zip(emitted, self.kept, strict=True)]
        return [*scattered, *states, *free, *carried]

    def _in_order(self, arrays: Tree) -> Tree:
        """Arrays as `jax.lax.scan` takes and gives them: what it does from the end is turned."""
        return jax.tree.map(lambda a: jax.lax.rev(a, (0,)), arrays) if self.backward else arrays

    def _of_no_steps(self) -> list[jax.Array]:
        """The outputs of a loop without a step.

        Nothing tells how long an entry would be, and PyTensor makes all lengths 0.
        """
        states = [
            last_entries(initial, length)
            for initial, length in zip(self.initial, self.lengths, strict=True)
        ]
        first = len(self.scattered) + len(states)
        free = [v.type for v in self.node.outputs[first : first + len(self.kept)]]
        emitted = [jnp.zeros((0,) * kind.ndim, canonical_dtype(kind.dtype)) for kind in free]
        return [*self.scattered, *states, *emitted, *self.carried]

    def _reads_nothing(self, limit: jax.Array) -> bool:
        """Return True if a sequence is empty; no step may go beyond one."""
        for sequence in self.sequences:
            require(limit <= sequence.shape[0])
        if all(sequence.shape[:1] != (0,) for sequence in self.sequences):
            return False
        require(limit >= 0)
        return True

    def _without_entries(self, measured: Sequence[int]) -> list[jax.Array]:
        """The outputs of a loop without a step, and the lengths of the ``measured`` ones.

        Its step may have no value for these shapes: the first row of an array that has none.
        """
        outputs, first = self._of_no_steps(), len(self.scattered)
        made = [*map(min, map(len, self.initial), self.lengths), *(0 for _ in self.kept)]
        lengths = [
            jnp.asarray(length, self.zero.dtype)
            for position, length in enumerate(made, first)
            if position in measured
        ]
        return [*outputs, *lengths]

    # -- as many steps as it takes --------------------------------------------------------------

    def loop(self, measured: Sequence[int]) -> list[jax.Array]:
        """The outputs with room for all entries, and the lengths of the ``measured`` ones."""
        if not self.layout.conditional and not isinstance(self.steps, Tracer):
            return self.scan()  # which JAX can also differentiate backward
        layout, first = self.layout, len(self.scattered)
        limit = jnp.asarray(self.steps, dtype=self.zero.dtype)
        if self._reads_nothing(limit):
            return self._without_entries(measured)
        # A loop of no steps has outputs of unknown shape: PyTensor decides.
        require(limit >= (1 if self.kept else 0))
        is_measured = [first + position in measured for position in range(len(self.lengths))]
        rings = [
            ring_of(initial, length) if measure else None
            for initial, length, measure in zip(
                self.initial, self.lengths, is_measured, strict=True
            )
        ]
        entries = jax.eval_shape(
            lambda: self._step(
                (self.zero, self.scattered, [*self.initial], self.carried), self._entries(self.zero)
            )[2]
        )
        free = [
            jnp.zeros((kept, *entry.shape), entry.dtype)
            for entry, kept in zip(entries, self.kept, strict=True)
        ]

        def goes_on(values: Values) -> jax.Array:
            (step, *_), _, _, stop, holds = values
            return (step < limit) & ~stop & holds

        def body(values: Values) -> Values:
            state, rings, free, _, holds = values
            step = state[0]
            state, states, emitted, stop, conditions = self._step(state, self._entries(step))
            rings = [
                None if ring is None else ring.at[(step + depth) % ring.shape[0]].set(entry)
                for ring, entry, depth in zip(rings, states, layout.history_lengths, strict=True)
            ]
            free = [
                output.at[step % output.shape[0]].set(entry) if output.shape[0] else output
                for output, entry in zip(free, emitted, strict=True)
            ]
            for condition in conditions:
                holds = holds & condition
            return state, rings, free, jnp.asarray(stop) != 0, holds

        start = (self.zero, self.scattered, list(map(split_history, self.initial)), self.carried)
        false, true = jnp.asarray(False), jnp.asarray(True)
        with repeated(max((n for n in self.lengths if isinstance(n, int)), default=1)):
            state, rings, free, _, holds = jax.lax.while_loop(
                goes_on, body, (start, rings, free, false, true)
            )
        collect(holds)
        made, scattered, histories, carried = state
        states, lengths = [], []
        for ring, history, length in zip(rings, histories, self.lengths, strict=True):
            if ring is None:
                states.append(last_entries(joined_history(history), length))
            else:
                filled = made + len(history)
                states.append(unrolled_ring(ring, filled))
                lengths.append(jnp.minimum(filled, length))
        position = first + len(states)
        for output in free:
            if position in measured:
                lengths.append(jnp.minimum(made, output.shape[0]))
            position += 1
        return [*scattered, *states, *(unrolled_ring(t, made) for t in free), *carried, *lengths]

    def _entries(self, step: jax.Array) -> list[jax.Array]:
        """The entries of the sequences at a step."""
        return [
            jax.lax.dynamic_index_in_dim(sequence, step, keepdims=False)
            for sequence in self.sequences
        ]

    # -- one step ---------------------------------------------------------------------------------

    def _step(
        self, state: State, entries: Sequence[jax.Array]
    ) -> tuple[State, list[jax.Array], list[jax.Array], jax.Array | bool, tuple[jax.Array, ...]]:
        """The state after one step, its entries of the outputs, whether it is the last, checks.

        Buffers are written where they are: the number of steps is not known.
        """
        counter, scattered, histories, carried = state
        read = [
            [buffer[counter + place] for place in places]
            for buffer, places in zip(scattered, self.layout.scattered_reads, strict=True)
        ]
        parts, states, conditions = self._evaluate(entries, read, histories, carried)
        written = [
            _write(buffer, counter, places, values)
            for buffer, places, values in zip(
                scattered, self.layout.scattered_writes, parts.scattered, strict=True
            )
        ]
        moved = list(map(moved_history, histories, states))
        emitted = list(map(jnp.asarray, parts.emitted))
        return (counter + 1, written, moved, parts.carried), states, emitted, parts.stop, conditions

    def _evaluate(
        self,
        entries: Sequence[jax.Array],
        read: Sequence[Sequence[jax.Array]],
        histories: Sequence[History],
        carried: Sequence[jax.Array],
    ) -> tuple[StepOutputs[jax.Array], list[jax.Array], tuple[jax.Array, ...]]:
        """One step: its outputs by part, the new entries of the states, and its condition."""
        arguments = [*entries, *(value for values in read for value in values)]
        arguments += self.layout.seen(histories)
        with collecting() as conditions:
            outputs = list(self.step(*arguments, *carried, *self.constants))
        parts = self.layout.sort_outputs(outputs)
        states = [
            jnp.asarray(entry, dtype=history[0].dtype)
            for entry, history in zip(parts.states, histories, strict=True)
        ]
        return parts, states, conjunction(conditions)


def _write(
    buffer: jax.Array, counter: jax.Array, places: Sequence[int], values: Sequence[jax.Array]
) -> jax.Array:
    for place, value in zip(places, values, strict=True):
        buffer = buffer.at[counter + place].set(value)
    return buffer
