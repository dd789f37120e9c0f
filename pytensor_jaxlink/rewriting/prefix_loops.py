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
    given, first = list(map(known.new, node.inputs)), 1 + op.info.n_seqs
    states = node.inputs[first : len(given) - op.info.n_non_seqs]
    read = [*op.outer_seqs(node.inputs), *op.outer_mitmot(node.inputs)]
    if mask is not None and _has_masks(read, known):
        longer = _longer(node, sequences, mask, known)
        if longer is not None:
            return longer
    if any(v in known.selections for v in states) or (mask is not None and measured_outputs(node)):
        return None
    given[1:first] = [part.full for part in sequences]
    return _outputs(node, given, sequences, known)


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
        # Integers may be indices, and a further step must not raise: 0 is in range.
        full = part.masked(0, part.axes[:1]) if _goes_on(part) else part.full
        found.append(Selection(full, (None, *part.masks[1:])))
    return found


def _goes_on(part: Selection) -> bool:
    """Return True for integers after which a sequence goes on, for steps that are cut."""
    return part.masks[0] is not None and part.full.type.dtype in discrete_dtypes


def _as_long(array: Tensor, mask: object, known: Known) -> Selection | None:
    """A sequence with an entry for each step; it may have more of them."""
    part = known.plain(array)
    if not known.as_many(part.masks[0], mask):
        part = known.sliceable(array, [0])
        first = known.part(part, 0, None, known.count(mask))
        part = Selection(part.full, (first, *part.masks[1:]))
    return known.aligned(part, 0, mask)


def _longer(node: Apply, sequences: Sequence[Selection], mask: object, known: Known) -> Results:
    """The outputs of a loop that makes as many steps as there are entries, true or not."""
    op: Any = node.op
    carried = op.outer_untraced_sit_sot(node.inputs)
    if any(not isinstance(v.type, TensorType) or v in known.selections for v in carried):
        return None
    if any(isinstance(inner.op, CheckAndRaise) for inner in op.fgraph.apply_nodes):
        return None
    emitted = zip(op.outer_nitsot(node.inputs), op.outer_nitsot_outs(node.outputs), strict=True)
    traces = [
        *_traces(node, mask, known),
        *(_Trace.without_state(kept, output.type.ndim, mask, known) for kept, output in emitted),
    ]
    buffers, steps = [], Shape_i(0)(mask)
    for trace in traces:
        if trace is None:
            return None
        buffers.append(steps if trace.buffer is None else trace.buffer)
    free = len(traces) - op.info.n_nit_sot
    given = [steps, *(part.full for part in sequences), *buffers[:free], *map(known.new, carried)]
    given += [*buffers[free:], *map(known.new, op.outer_non_seqs(node.inputs))]
    held = bool(carried) or any(min(w) < depth for w, depth in zip(*_writes(op), strict=True))
    outputs = _outputs(node, given, sequences, known, mask if held else None)
    if outputs is None:
        return None
    outputs = [
        known.allocated(output, node.inputs[0]) if isinstance(output.type, TensorType) else output
        for output in outputs
    ]
    pairs = zip(outputs, traces, strict=False)
    return [*(trace.of(output, known) for output, trace in pairs), *outputs[len(traces) :]]


def _writes(op: Scan) -> tuple[Sequence[Sequence[int]], list[int]]:
    """For each trace of a gradient the entries that a step writes, and the last that it uses."""
    read, written = op.info.normalized_mit_mot_in_slices, op.info.normalized_mit_mot_out_slices
    return written, [max(*one, *other) for one, other in zip(read, written, strict=True)]


def _before(op: Scan, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[int, Tensor]:
    """By their places, the outputs of a loop's graph that are written over what a step finds."""
    given, found = iter(op.inner_mitmot(inputs)), {}
    for read, written in zip(
        op.info.normalized_mit_mot_in_slices, op.info.normalized_mit_mot_out_slices, strict=True
    ):
        there = dict(zip(read, given, strict=False))
        for entry in written:
            found[len(found)] = there.get(entry)
    carried = op.inner_untraced_sit_sot(inputs)
    return found | dict(enumerate(carried, start=len(outputs) - len(carried)))


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
        part = known.chosen(buffer)
        if part.axes != (0,) or not part.is_plain:
            return None
        moved = known.aligned(part, 0, mask)
        return None if moved is None else cls(moved.full, mask)

    @classmethod
    def of_state(cls, buffer: object, reach: int, mask: object, known: Known) -> _Trace | None:
        """The trace of a state, of which a step sees entries before it as far as the reach."""
        part = known.chosen(buffer)
        own, full = part.masks[0], part.full
        if own is not None and known.as_many(own, mask):
            return cls.scattered(buffer, mask, known)
        if part.axes not in ((), (0,)) or not (own is None or known.is_prefix(own)):
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
        if counted is None:
            return cls(None, mask, known.new(length), counted=needed)
        if known.as_many(counted, mask):
            return cls(None, mask, counted=needed)
        front = known.front(counted)
        return cls(None, mask, known.count(front), front, needed)

    def of(self, output: Tensor, known: Known) -> Tensor:
        """The part of a loop's trace that PyTensor keeps; zeros where there is less."""
        whole = [None] * (output.type.ndim - 1)
        if self.counted is not None:
            there = Assumption(ValueError, "of no step the shape of an entry is not known")
            output = there(output, pt.gt(self.counted, 0))
        if self.kept is None:
            return Selection(output, (self.mask, *whole))
        count = known.count(self.mask)
        length = self.kept if self.kept_mask is None else Shape_i(0)(self.kept_mask)
        places = pt.arange(length)
        first = pt.maximum(count - self.kept, 0)
        taken = output[pt.clip(places + first, 0, output.shape[0] - 1)]
        there = pt.lt(places, count).dimshuffle([0, *["x"] * len(whole)])
        found = pt.switch(there, taken, pt.zeros((), output.type.dtype))
        return found if self.kept_mask is None else Selection(found, (self.kept_mask, *whole))


def _outputs(
    node: Apply,
    given: list[Tensor],
    sequences: Sequence[Selection],
    known: Known,
    true: Tensor = None,
) -> list[Tensor] | None:
    """The outputs of a loop with other inputs.

    What is selected of an entry, or of what each step reads, is selected inside.

    Parameters
    ----------
    node, known
        The loop, and the facts about its graph.
    given
        Its inputs now.
    sequences
        The first of these, with what is selected of their entries.
    true
        The mask of the steps that change what is carried without a trace, and the traces of a
        gradient; None for all.
    """
    op: Any = node.op
    fixed = [known.plain(v) for v in op.outer_non_seqs(node.inputs)]
    first, last = 1 + len(sequences), len(given) - len(fixed)
    chosen = {
        **{k: part.masks[1:] for k, part in enumerate(sequences)},
        **{k - len(fixed): part.masks for k, part in enumerate(fixed)},
    }
    chosen = {place: masks for place, masks in chosen.items() if any(m is not None for m in masks)}
    given = [*given[:last], *(part.full for part in fixed)]
    if not chosen and true is None:
        return op.make_node(*given).outputs
    inner = mutable(op.fgraph)
    inputs: list[Tensor] = list(inner.inputs)
    selecting: dict[Tensor, Tensor] = {}
    for place, masks in chosen.items():
        old = inputs[place]
        inputs[place], part = _selected_inside(old, masks, selecting)
        inner.replace_all([(old, part)], import_missing=True)
    outputs, more = list(inner.outputs), []
    if true is not None:
        more = [true.type.clone(shape=())()]
        for place, old in _before(op, inputs, outputs).items():
            if old is None:
                return None  # a step writes where it does not read
            outputs[place] = old.type.filter_variable(pt.switch(more[0], outputs[place], old))
    loop = with_graph(
        op,
        [*inputs[: len(sequences)], *more, *inputs[len(sequences) :], *selecting.values()],
        outputs,
        n_seqs=len(sequences) + len(more),
        n_non_seqs=len(fixed) + len(selecting),
    )
    steps = [] if true is None else [true]
    return loop.make_node(*given[:first], *steps, *given[first:], *selecting).outputs


def _selected_inside(
    old: object, masks: Sequence[Tensor], selecting: dict[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """An input of a loop's graph in full, and what masks that come with it select."""
    lengths = zip(masks, old.type.shape, strict=True)
    whole: Tensor = old.type.clone(
        shape=tuple(n if mask is None else None for mask, n in lengths)
    )()
    part = whole
    for axis, mask in enumerate(masks):
        if mask is not None:
            inside = selecting.setdefault(mask, mask.type())
            part = part[(*[slice(None)] * axis, inside)]
    return whole, part
