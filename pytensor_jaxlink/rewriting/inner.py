"""Our rewrites in the graphs of loops, where what counts the steps is not known on the host."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.scan.op import Scan
from pytensor.tensor.basic import ARange, Eye
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type import integer_dtypes

from pytensor_jaxlink.analysis.polynomials import (
    Polynomial,
    Polynomials,
    constant_value,
    difference,
)
from pytensor_jaxlink.compat import mutable
from pytensor_jaxlink.rewriting.database import rewrite_again
from pytensor_jaxlink.rewriting.notes import Avoided

_CONCERNED = (AdvancedSubtensor, ARange, Eye, IncSubtensor, Reshape, Subtensor)


@dataclass(frozen=True)
class Offset:
    """That an inner input is always another one plus a number."""

    position: int
    other: int
    number: int


def offsets(node: Apply) -> tuple[Offset, ...]:
    """The sequences of a loop that differ by a number.

    PyTensor computes ``t + 3`` outside of a loop over ``t``, and a slice from ``t`` to ``t + 3``
    inside has unrelated bounds then.
    """
    op = getattr(node.op, "scan", node.op)
    if not isinstance(op, Scan):
        return ()
    inner_inputs = op.fgraph.inputs
    terms, found = Polynomials(), []
    met: list[tuple[int, Polynomial]] = []
    sequences = zip(op.inner_seqs(inner_inputs), op.outer_seqs(node.inputs), strict=True)
    for inner, outer in sequences:
        if inner.type.ndim or inner.type.dtype not in integer_dtypes:
            continue
        position, polynomial = inner_inputs.index(inner), terms.of(outer)
        for other, known in met:
            number = constant_value(difference(polynomial, known))
            if number is not None:
                found.append(Offset(position, other, number))
                break
        else:
            met.append((position, polynomial))
    return tuple(found)


def rewrite_inner(
    fgraph: AbstractFunctionGraph,
    changing: Collection[int],
    enabled: Collection[str],
    related: Collection[Offset] = (),
) -> tuple[AbstractFunctionGraph, tuple[Avoided, ...]]:
    """An inner graph with fewer breaks, and what has been removed.

    PyTensor rewrites inner graphs as it does outer ones, and an integer is a size there.

    Parameters
    ----------
    changing
        The positions of the inputs that change from run to run.
    enabled
        The names of the rewrites that the mode includes.
    related
        What is known of the inputs.
    """
    if not changing or not any(isinstance(node.op, _CONCERNED) for node in fgraph.apply_nodes):
        return fgraph, ()
    graph = mutable(fgraph)
    inputs: list[Any] = graph.inputs
    for offset in related:
        old, other = inputs[offset.position], inputs[offset.other]
        same = (other + offset.number).astype(old.type.dtype)
        graph.replace_all([(old, same)], import_missing=True)
    return graph, rewrite_again(graph, changing, enabled)
