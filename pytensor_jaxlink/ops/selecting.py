"""Selections that rewriting makes, of which the entries outside of a mask leave no derivative.

They are Ops of their own, because the `switch` of a user has the derivatives that JAX gives it.  A
mark on a node would not do: the graphs of loops keep none.
"""

from __future__ import annotations

from pytensor.graph.basic import Apply, Variable
from pytensor.scalar.basic import Identity, Switch, same_out
from pytensor.tensor.elemwise import Elemwise


class ReplaceOthers(Switch):
    """The entries of an array where a mask is true, and a filler elsewhere."""


class OfTrueSteps(ReplaceOthers):
    """The entries that a loop reads or makes in its true steps, and a filler for later ones.

    Results are never computed from the filler, so it is left out where nobody differentiates.
    """


class GradientOfOp(Identity):
    """A value whose gradient an Op declares of which only the graph is left.

    The graph of the Op reads a selection, and is written out for the whole array.
    """

    nfunc_spec = ("positive", 1, 1)


def replacing_others(mask: Variable, value: Variable, filler: Variable) -> Variable:
    """The value where the mask is true, and the filler elsewhere."""
    return Elemwise(ReplaceOthers(name="switch")).make_node(mask, value, filler).outputs[0]


def in_true_steps(mask: Variable, value: Variable, filler: Variable) -> Variable:
    """The same, where it does not matter what is elsewhere."""
    return Elemwise(OfTrueSteps(name="switch")).make_node(mask, value, filler).outputs[0]


def without_its_gradient(value: Variable) -> Variable:
    """The value, which JAX must not differentiate."""
    return Elemwise(GradientOfOp(same_out, name="identity")).make_node(value).outputs[0]


def replaces_others(node: Apply) -> bool:
    """Return True for a node that one of these functions has made."""
    return isinstance(getattr(node.op, "scalar_op", None), ReplaceOthers)
