"""Indexing as users write it."""

from __future__ import annotations

from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Nonzero
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pytensor_jaxlink.graph.expressions import MOST_OPERANDS, Text, without_parentheses, written
from pytensor_jaxlink.graph.types import indices_of


@written.register(Subtensor)
@written.register(AdvancedSubtensor)
def _indexed(op: object, node: Apply, text: Text) -> str:
    return f"{text(node.inputs[0])}[{_indices(op, node, text)}]"


@written.register(IncSubtensor)
@written.register(AdvancedIncSubtensor)
def _written_to(op: Any, node: Apply, text: Text) -> str:
    array, value = node.inputs[:2]
    name = "set" if op.set_instead_of_inc else "inc"
    return f"{text(array)}[{_indices(op, node, text)}].{name}({without_parentheses(text(value))})"


def _indices(op: Any, node: Apply, text: Text) -> str:
    return ", ".join(_index(entry, text) for entry in indices_of(node)[:MOST_OPERANDS])


def _index(entry: Any, text: Text) -> str:
    if isinstance(entry, slice):
        start, stop, step = (_bound(part, text) for part in (entry.start, entry.stop, entry.step))
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    if not isinstance(entry, Variable):
        return str(entry)
    if entry.owner is not None and isinstance(entry.owner.op, Nonzero) and entry.name is None:
        entry = entry.owner.inputs[0]  # x[mask] was written so
    return without_parentheses(text(entry))


def _bound(part: object, text: Text) -> str:
    found = (
        ""
        if part is None
        else without_parentheses(text(part) if isinstance(part, Variable) else str(part))
    )
    return "" if found == "None" else found


for _name, _rule in (("AdvancedSubtensor1", _indexed), ("AdvancedIncSubtensor1", _written_to)):
    if hasattr(subtensor, _name):  # until PyTensor 3.2
        written.register(getattr(subtensor, _name), _rule)
