"""The mark of a node that replaces the entries of an array outside of a mask.

Rewriting makes these nodes of `pytensor.tensor.switch`, which users write as well.  Where the user
differentiates, the entries that are replaced must leave no trace in a derivative.
"""

from __future__ import annotations

from pytensor.graph.basic import Apply, Variable


def replacing_others(result: Variable) -> Variable:
    """A selection between entries and a filler, with the mark."""
    result.tag.replaces_others = True
    return result


def replaces_others(node: Apply) -> bool:
    """Return True for a node with the mark."""
    return getattr(node.outputs[0].tag, "replaces_others", False)
