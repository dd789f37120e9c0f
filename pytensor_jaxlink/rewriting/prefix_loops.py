"""How a selection passes through a loop: as many steps as the full arrays have entries.

Pattern::

    scan(step, sequences=[x[:k]])           n_steps = k, traces of k + 1 entries

Replacement::

    scan(step, sequences=[x])[: k + 1]      n_steps = len(x), traces of len(x) + 1 entries

What a loop computes after its last true step is cut from its traces and reaches nothing.  Where a
gradient adds to several entries of one trace, a step more would reach true ones: it leaves them as
they are.  A loop that draws or checks, and keeps no trace, makes k steps.  The selections are moved
to the front first, so a gradient, which goes from the last step to the first, has its true steps
first as well.

What a step reads as a whole (``x[:k]`` in each step) is selected inside: the graphs of loops are
rewritten too.

It must not fire where a step more would show: a loop that ends itself, or keeps a trace and draws
or checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.type import TensorType, discrete_dtypes

from pytensor_jaxlink.compat import mutable
from pytensor_jaxlink.ops import Assumption, measured_outputs
from pytensor_jaxlink.rewriting.loop_entries import Inside, LoopOutput, loop_outputs
from pytensor_jaxlink.rewriting.loops import with_graph
from pytensor_jaxlink.rewriting.selections import Known, Results, Selection, Tensor, follow


@follow.register(Scan)
def _follow_loop(op: Any, node: Apply, known: Known) -> Results:
    if op.info.as_while:
        return None
    mask = known.mask_counted_by(node.inputs[0])
    mask = None if mask is None else known.front(mask)
    sequences = _sequences(node, mask, known)
    if sequences is None:
        return None
    entries = loop_outputs(node, known)
    read = [*op.outer_seqs(node.inputs), *op.outer_mitmot(node.inputs)]
    if mask is not None and _has_masks(read, known):
        longer = _longer(node, sequences, entries, mask, known)
        if longer is not None:
            return longer
    traced = [*op.outer_mitmot(node.inputs), *op.outer_mitsot(node.inputs)]
    traced += op.outer_sitsot(node.inputs)
    if any(known.chosen(buffer).masks[0] is not None for buffer in traced):
        return None
    if mask is not None and measured_outputs(node):
        return None
    given = [entry.given for entry in entries]
    outputs = _outputs(node, known.new(node.inputs[0]), sequences, given, entries, known)
    if outputs is None:
        return None
    return [entry.of(output) for entry, output in zip(entries, outputs, strict=True)]


def _has_masks(read: Sequence[Tensor], known: Known) -> bool:
    """Return True where a loop reads arrays, and entries are selected from all."""
    masks = [known.chosen(array).masks[0] for array in read]
    return bool(masks) and all(mask is not None for mask in masks)


def _sequences(node: Apply, mask: object, known: Known) -> list[Selection] | None:
    """The full arrays that a loop goes through, with what is selected of their entries."""
    found = []
    for array in node.op.outer_seqs(node.inputs):
        part: Selection | None = known.plain(array)
        if part.masks[0] is not None:
            part = None if mask is None else _as_long(array, mask, known)
        if part is None:
            return None
        full = part.full
        if part.masks[0] is not None:
            # Integers may be indices, and a further step must not raise: 0 is in range.
            is_integer = full.type.dtype in discrete_dtypes
            full = part.masked(0, part.axes[:1]) if is_integer else part.marked(part.axes[:1])
        found.append(Selection(full, (None, *part.masks[1:])))
    return found


def _as_long(array: Tensor, mask: object, known: Known) -> Selection | None:
    """A sequence with an entry for each step; it may have more of them."""
    part = known.plain(array)
    if not known.as_many(part.masks[0], mask):
        part = known.sliceable(array, [0])
        first = known.part(part, 0, None, known.count(mask))
        part = Selection(part.full, (first, *part.masks[1:]))
    return known.aligned(part, 0, mask)


def _longer(
    node: Apply,
    sequences: Sequence[Selection],
    entries: Sequence[LoopOutput],
    mask: object,
    known: Known,
) -> Results:
    """The outputs of a loop that makes as many steps as there are entries, true or not."""
    op: Any = node.op
    carried = op.outer_untraced_sit_sot(node.inputs)
    if any(not isinstance(v.type, TensorType) for v in carried):
        return None
    if any(isinstance(inner.op, CheckAndRaise) for inner in op.fgraph.apply_nodes):
        return None
    emitted = zip(op.outer_nitsot(node.inputs), op.outer_nitsot_outs(node.outputs), strict=True)
    traces = [
        *_traces(node, mask, known),
        *(_Trace.without_state(kept, output.type.ndim, mask, known) for kept, output in emitted),
    ]
    given, steps = [], Shape_i(0)(mask)
    for trace in traces:
        if trace is None:
            return None
        given.append(steps if trace.buffer is None else trace.buffer)
    given += [entry.given for entry in entries[len(traces) :]]
    kept = any(min(w) < depth for w, depth in zip(*_writes(op), strict=True))
    changed = [*(entries[: op.info.n_mit_mot] if kept else ()), *entries[len(traces) :]]
    outputs = _outputs(node, steps, sequences, given, entries, known, _TrueSteps(mask, changed))
    if outputs is None:
        return None
    outputs = [
        known.allocated(output, node.inputs[0]) if isinstance(output.type, TensorType) else output
        for output in outputs
    ]
    cut = [
        trace.of(output, entry.masks, known)
        for output, entry, trace in zip(outputs, entries, traces, strict=False)
    ]
    rest = zip(entries[len(cut) :], outputs[len(cut) :], strict=True)
    return [*cut, *(entry.of(output) for entry, output in rest)]


def _writes(op: Scan) -> tuple[Sequence[Sequence[int]], list[int]]:
    """For each trace of a gradient the entries that a step writes, and the last that it uses."""
    read, written = op.info.normalized_mit_mot_in_slices, op.info.normalized_mit_mot_out_slices
    return written, [max(*one, *other) for one, other in zip(read, written, strict=True)]


def _traces(node: Apply, mask: object, known: Known) -> list[_Trace | None]:
    """The traces of the states of a loop; None for those that cannot be longer."""
    op, info = node.op, node.op.info
    found = [
        _Trace.scattered(buffer, known.longer(mask, depth), known)
        for buffer, depth in zip(op.outer_mitmot(node.inputs), _writes(op)[1], strict=True)
    ]
    buffers = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    for buffer, taps in zip(
        buffers, (*info.mit_sot_in_slices, *info.sit_sot_in_slices), strict=True
    ):
        reach = -min(taps)
        found.append(_Trace.of_state(buffer, reach, known.longer(mask, reach), known))
    return found


@dataclass(frozen=True)
class _Trace:
    """A trace with room for all steps.

    Attributes
    ----------
    buffer
        The array that the loop begins with; None where there is no state.
    mask
        The mask of the true entries.
    kept
        How many entries PyTensor keeps, the last ones; None for all of them.
    kept_mask
        The mask of as many entries, where their number is not known early.
    counted
        The number of true entries, where there has to be one: of no step PyTensor does not know
        how long an entry would be.
    """

    buffer: Tensor
    mask: Tensor
    kept: Tensor = None
    kept_mask: Tensor = None
    counted: Tensor = None

    @classmethod
    def scattered(cls, buffer: object, mask: object, known: Known) -> _Trace | None:
        """A buffer that steps read and write in several places."""
        part = known.plain(buffer)
        if part.masks[0] is None:
            return None
        moved = known.aligned(part, 0, mask)
        return None if moved is None else cls(moved.full, mask)

    @classmethod
    def of_state(cls, buffer: object, reach: int, mask: object, known: Known) -> _Trace | None:
        """The trace of a state, of which a step sees entries before it as far as the reach."""
        part = known.plain(buffer)
        own, full = part.masks[0], part.full
        if own is not None and known.as_many(own, mask):
            return cls.scattered(buffer, mask, known)
        if not (own is None or known.is_prefix(own)):
            return None
        lengths = (Shape_i(k)(full) for k in range(1, full.type.ndim))
        room: Tensor = pt.zeros((Shape_i(0)(mask), *lengths), dtype=full.type.dtype)
        begin = pt.set_subtensor(room[:reach], full[:reach])
        kept = Shape_i(0)(full) if own is None else known.count(own)
        return cls(begin, mask, kept, own)

    @classmethod
    def without_state(cls, length: object, ndim: int, mask: object, known: Known) -> _Trace:
        """The trace of what no step reads."""
        needed = known.count(mask) if ndim > 1 else None
        counted = known.mask_counted_by(length)
        if counted is None:  # no step leaves no entry, and fewer steps than entries leave them all
            kept = known.new(length)
            steps: Tensor = known.count(mask)
            made = known.derived("kept", (mask, kept), lambda: pt.alloc(pt.gt(steps, 0), kept))
            return cls(None, mask, kept, known.front(made), needed)
        if known.as_many(counted, mask):
            return cls(None, mask, counted=needed)
        front = known.front(counted)
        return cls(None, mask, known.count(front), front, needed)

    def of(self, output: Tensor, masks: Sequence[Tensor], known: Known) -> Tensor:
        """The part of a loop's trace that PyTensor keeps; zeros where there is less.

        Masks select from its entries.
        """
        if self.counted is not None:
            there = Assumption(ValueError, "of no step the shape of an entry is not known")
            output = there(output, pt.gt(self.counted, 0))
        if self.kept is None:
            return Selection(output, (self.mask, *masks))
        count = known.count(self.mask)
        length = self.kept if self.kept_mask is None else Shape_i(0)(self.kept_mask)
        places = pt.arange(length)
        first = pt.maximum(count - self.kept, 0)
        taken = output[pt.clip(places + first, 0, output.shape[0] - 1)]
        there = pt.lt(places, count).dimshuffle([0, *["x"] * len(masks)])
        found = pt.switch(there, taken, pt.zeros((), output.type.dtype))
        return Selection(found, (self.kept_mask, *masks))


@dataclass(frozen=True)
class _TrueSteps:
    """The steps of a loop that count.

    Attributes
    ----------
    mask
        Their mask.
    changed
        The outputs that further steps must not change: what is carried without a trace, and the
        traces of a gradient.  The others are cut.
    """

    mask: Tensor
    changed: Sequence[LoopOutput]


def _outputs(
    node: Apply,
    steps: Tensor,
    sequences: Sequence[Selection],
    given: Sequence[Tensor],
    entries: Sequence[LoopOutput],
    known: Known,
    true: _TrueSteps | None = None,
) -> list[Tensor] | None:
    """The outputs of a loop with other inputs.

    What is selected of an entry, or of what each step reads, is selected inside.

    Parameters
    ----------
    node, known
        The loop, and the facts about its graph.
    steps, sequences
        The number of steps, and the arrays that it goes through, with what is selected of their
        entries.
    given, entries
        The array, the state or the length of each output, and what is selected of its entries.
    true
        The true steps; None for all.
    """
    op: Any = node.op
    fixed = [known.plain(v) for v in op.outer_non_seqs(node.inputs)]
    last = len(given) - op.info.n_untraced_sit_sot
    free = last - op.info.n_nit_sot
    given = [*given[:free], *given[last:], *given[free:last]]
    read = [part.full for part in sequences]
    parts = [*(part.masks[1:] for part in sequences), *(e.masks for e in entries)]
    parts += [part.masks for part in fixed]
    if true is None and all(mask is None for masks in parts for mask in masks):
        return op.make_node(steps, *read, *given, *(part.full for part in fixed)).outputs
    inner = mutable(op.fgraph)
    loop = Inside(inner, list(inner.inputs), list(inner.outputs))
    first = len(loop.inputs) - len(fixed)
    for place, part in enumerate(sequences):
        loop.select(place, part.masks[1:])
    for entry in entries:
        for place in entry.seen:
            loop.select(place, entry.masks)
    for place, part in enumerate(fixed, start=first):
        loop.select(place, part.masks)
    further = _late_numbers(node, loop, first, steps, known)
    loop.outputs = list(inner.outputs)
    for entry in entries:
        loop.put_back(entry)
    if true is not None:
        going = true.mask.type.clone(shape=())()
        for entry in entries:
            hold = loop.hold if any(entry is each for each in true.changed) else loop.mark
            if not all(hold(going, *each) for each in entry.made):
                return None
        further[going] = true.mask
    left = [k for k in range(first, len(loop.inputs)) if loop.inputs[k] is not None]
    remade = with_graph(
        op,
        [
            *loop.inputs[: len(sequences)],
            *further,
            *loop.inputs[len(sequences) : first],
            *(loop.inputs[k] for k in left),
            *loop.selecting.values(),
        ],
        loop.outputs,
        n_seqs=len(sequences) + len(further),
        n_non_seqs=len(left) + len(loop.selecting),
    )
    rest = [*(fixed[k - first].full for k in left), *loop.selecting]
    return remade.make_node(steps, *read, *further.values(), *given, *rest).outputs


def _late_numbers(
    node: Apply, loop: Inside, first: int, steps: Tensor, known: Known
) -> dict[Tensor, Tensor]:
    """The numbers known late that each step reads, in place: new sequences of the loop.

    Inside, a number that does not change is a size.  One that a mask counts is counted there; of
    another one each step gets a copy.
    """
    further: dict[Tensor, Tensor] = {}
    for place, number in enumerate(node.op.outer_non_seqs(node.inputs), start=first):
        if not known.is_late_number(number):
            continue
        inside, value = loop.selecting.get(known.mask_counted_by(number)), known.new(number)
        if inside is None:
            copies = pt.full((steps,), pt.as_tensor(value), dtype=number.type.dtype)
            copy: Tensor = copies.type.clone(shape=())()
            further[copy] = copies
        else:
            copy = inside.sum(dtype="int64").astype(number.type.dtype)
        is_array = isinstance(number.type, TensorType)
        loop.replace(place, copy if is_array else pt.scalar_from_tensor(copy))
    return further
