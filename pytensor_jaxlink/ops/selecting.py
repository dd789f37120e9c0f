"""Selections that rewriting makes, of which the entries outside of a mask leave no derivative.

They are Ops of their own, because the `switch` of a user has the derivatives that JAX gives it.  A
mark on a node would not do: the graphs of loops keep none.
"""

from __future__ import annotations

from pytensor.graph.basic import Apply, Variable
from pytensor.scalar.basic import Switch
from pytensor.tensor.elemwise import Elemwise


class ReplaceOthers(Switch):
    """The entries of an array where a mask is true, and a filler elsewhere."""


class OfTrueSteps(ReplaceOthers):
    """The entries that a loop reads or makes in its true steps, and a filler for later ones.

    Results are never computed from the filler, so it is left out where nobody differentiates.
    """


def replacing_others(mask: Variable, value: Variable, filler: Variable) -> Variable:
    """The value where the mask is true, and the filler elsewhere."""
    return Elemwise(ReplaceOthers(name="switch")).make_node(mask, value, filler).outputs[0]


def in_true_steps(mask: Variable, value: Variable, filler: Variable) -> Variable:
    """The same, where it does not matter what is elsewhere."""
    return Elemwise(OfTrueSteps(name="switch")).make_node(mask, value, filler).outputs[0]


def replaces_others(node: Apply) -> bool:
    """Return True for a node that one of these functions has made."""
    return isinstance(getattr(node.op, "scalar_op", None), ReplaceOthers)
