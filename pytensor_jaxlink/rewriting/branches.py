"""How a selection passes through a branch: both sides select by the same masks."""

from __future__ import annotations

from pytensor.graph.basic import Apply

from pytensor_jaxlink.compat import IfElse
from pytensor_jaxlink.rewriting.selections import Known, Results, Selection, Tensor, follow


@follow.register(IfElse)
def _follow_branch(op: object, node: Apply, known: Known) -> Results:
    """``ifelse(c, x[:k], y[:k])`` is ``ifelse(c, x, y)[:k]``, where both are as long."""
    condition, *sides = node.inputs
    count = len(node.outputs)
    found = []
    for one, two in zip(sides[:count], sides[count:], strict=True):
        pair = _together(one, two, known)
        if pair is None:
            return None
        found.append(pair)
    then, other = ([pair[side].full for pair in found] for side in (0, 1))
    outputs = node.op.make_node(known.new(condition), *then, *other).outputs
    masks = [pair[0].masks for pair in found]
    return [Selection(output, each) for output, each in zip(outputs, masks, strict=True)]


def _together(one: Tensor, two: Tensor, known: Known) -> tuple[Selection, Selection] | None:
    """The two sides of an output by the same masks, if they are known to be equally long."""
    if one not in known.selections and two not in known.selections:
        return Selection(known.new(one), ()), Selection(known.new(two), ())
    here, there = known.plain(one), known.plain(two)
    for axis, (mask, own) in enumerate(zip(here.masks, there.masks, strict=True)):
        if mask is None and own is None:
            continue
        if mask is None or own is None or not known.as_many(mask, own):
            return None
        moved = known.aligned(there, axis, mask)
        if moved is None:
            return None
        there = moved
    return here, there
