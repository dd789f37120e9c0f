"""Selections of the entries of a loop: of its states, and of what it keeps of each step.

Pattern::

    scan(lambda b, s: b * s, sequences=[b], outputs_info=[x[:k]])

Replacement: the state is as long as ``x``, and a step computes it for what is selected of it::

    scan(lambda b, s, mask: set(s[mask], b * s[mask]), sequences=[b], outputs_info=[x])[:, :k]

The graphs of loops are rewritten too, and make ``where(mask, b * s, s)`` of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType, discrete_dtypes

from pytensor_jaxlink.ops import in_true_steps, replacing_others
from pytensor_jaxlink.rewriting.selections import Known, Selection, Tensor

Masks = tuple[Tensor, ...]


@dataclass(frozen=True)
class LoopOutput:
    """An output of a loop, and what is selected of each of its entries.

    Attributes
    ----------
    given
        The input that the loop begins with, in full, or the length of the output.
    masks
        For each dimension of an entry the mask, or None.
    seen
        The places of the entries that a step reads, among the inputs of the loop's graph.
    made
        The places of the entries that a step makes, among the outputs of the loop's graph, each
        with the place of the input that it replaces, or None.
    is_traced
        Whether the output has one dimension more, of the steps.
    """

    given: Tensor
    masks: Masks
    seen: tuple[int, ...]
    made: tuple[tuple[int, int | None], ...]
    is_traced: bool = True

    @property
    def is_selected(self) -> bool:
        """Return True if a mask selects from the entries."""
        return any(mask is not None for mask in self.masks)

    def of(self, output: Tensor) -> Tensor:
        """The output as a selection, if one of the masks selects."""
        steps = [None] if self.is_traced else []
        return Selection(output, (*steps, *self.masks)) if self.is_selected else output


def loop_outputs(node: Apply[Scan], known: Known) -> list[LoopOutput]:
    """The outputs of a loop."""
    return [
        *_written_in_places(node, known),
        *_states(node, known),
        *_kept(node, known),
        *_untraced(node, known),
    ]


def _written_in_places(node: Apply[Scan], known: Known) -> Iterator[LoopOutput]:
    op, info, seen, made = node.op, node.op.info, node.op.info.n_seqs, 0
    slices = zip(info.normalized_mit_mot_in_slices, info.normalized_mit_mot_out_slices, strict=True)
    for buffer, (read, written) in zip(op.outer_mitmot(node.inputs), slices, strict=True):
        part = known.plain(buffer)
        there = {entry: seen + k for k, entry in enumerate(read)}
        places = [(made + k, there.get(entry)) for k, entry in enumerate(written)]
        yield LoopOutput(part.full, part.masks[1:], (*there.values(),), (*places,))
        seen, made = seen + len(read), made + len(written)


def _states(node: Apply[Scan], known: Known) -> Iterator[LoopOutput]:
    op, info = node.op, node.op.info
    seen = info.n_seqs + sum(map(len, info.mit_mot_in_slices))
    made = sum(map(len, info.mit_mot_out_slices))
    buffers = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    for buffer, places in zip(buffers, taps, strict=True):
        part = known.plain(buffer)
        read = tuple(range(seen, seen + len(places)))
        yield LoopOutput(part.full, part.masks[1:], read, ((made, read[-1]),))
        seen, made = seen + len(places), made + 1


def _kept(node: Apply[Scan], known: Known) -> Iterator[LoopOutput]:
    """The outputs without a state: masks that count the lengths that PyTensor knows of an entry."""
    op, info = node.op, node.op.info
    made = sum(map(len, info.mit_mot_out_slices)) + info.n_mit_sot + info.n_sit_sot
    lengths = op.outer_nitsot(node.inputs)
    outputs = op.outer_nitsot_outs(node.outputs)
    for k, (length, output) in enumerate(zip(lengths, outputs, strict=True)):
        masks = tuple(known.mask_along(output, axis) for axis in range(1, output.type.ndim))
        yield LoopOutput(known.new(length), masks, (), ((made + k, None),))


def _untraced(node: Apply[Scan], known: Known) -> Iterator[LoopOutput]:
    op, info = node.op, node.op.info
    seen = len(op.fgraph.inputs) - info.n_non_seqs - info.n_untraced_sit_sot
    made = len(op.fgraph.outputs) - info.n_untraced_sit_sot
    for k, value in enumerate(op.outer_untraced_sit_sot(node.inputs)):
        masks: Masks = ()
        given = known.new(value)
        if isinstance(value.type, TensorType):
            part = known.plain(value)
            given, masks = part.full, part.masks
        here = seen + k
        yield LoopOutput(given, masks, (here,), ((made + k, here),), is_traced=False)


@dataclass
class Inside:
    """The graph of a loop, which is being changed.

    Attributes
    ----------
    graph
        The graph.
    inputs, outputs
        Its inputs now, None for those that are read no more, and its outputs.
    selecting
        For each mask of the graph outside the input that it is.
    """

    graph: FunctionGraph
    inputs: list[Tensor]
    outputs: list[Tensor]
    selecting: dict[Tensor, Tensor] = field(default_factory=dict)

    def replace(self, place: int, new: Tensor) -> None:
        """Read something else in the place of an input."""
        self.graph.replace_all([(self.inputs[place], new)], import_missing=True)
        self.inputs[place] = None

    def select(self, place: int, masks: Sequence[Tensor]) -> None:
        """Give an input in full, and select inside what masks select of it."""
        if any(mask is not None for mask in masks):
            whole, part = _selected_inside(self.inputs[place], masks, self.selecting)
            self.replace(place, part)
            self.inputs[place] = whole

    def put_back(self, entry: LoopOutput) -> None:
        """Make what a step makes of a selection an entry in full."""
        if not entry.is_selected:
            return
        masks = [
            None if mask is None else self.selecting.setdefault(mask, mask.type())
            for mask in entry.masks
        ]
        for place, base in entry.made:
            made = self.outputs[place]
            room = _room_for(made, masks) if base is None else self.inputs[base]
            self.outputs[place] = _put_back(room, masks, made)

    def hold(self, going: Tensor, place: int, base: int | None) -> bool:
        """Leave an output what a step found where it does not go on; False if it read nothing."""
        if base is None:
            return False
        old = self.inputs[base]
        held = replacing_others(going, self.outputs[place], old)
        self.outputs[place] = old.type.filter_variable(held)
        return True

    def mark(self, going: Tensor, place: int, base: int | None) -> bool:
        """Have an output leave no trace in a derivative where a step does not go on."""
        new = self.outputs[place]
        if new.type.dtype not in discrete_dtypes:
            filler = pt.zeros((), dtype=new.type.dtype)
            marked = in_true_steps(going, new, filler)
            self.outputs[place] = new.type.filter_variable(marked)
        return True


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


def _put_back(base: Tensor, masks: Sequence[Tensor], value: Tensor) -> Tensor:
    """An array with a value in the place of what masks select of it, one mask after the other."""
    axis = next((k for k, mask in enumerate(masks) if mask is not None), None)
    if axis is None:
        return value
    part = base[(*[slice(None)] * axis, masks[axis])]
    rest = [*masks[:axis], None, *masks[axis + 1 :]]
    return pt.set_subtensor(part, _put_back(part, rest, value))


def _room_for(value: Tensor, masks: Sequence[Tensor]) -> Tensor:
    """Zeros, as long as the masks, in which a value is put back."""
    lengths = [
        value.shape[axis] if mask is None else mask.shape[0] for axis, mask in enumerate(masks)
    ]
    return pt.zeros(lengths, dtype=value.type.dtype)
