"""The identity of a graph: equal for graphs of whose regions XLA makes the same code here.

PyTensor's `Op.__eq__` says that two Ops compute the same, and its own rewrites merge nodes by it.
Where a function of the user takes part (`wrap_jax`, Ops of other packages, rules that they have
registered), equal objects may compute something else once the user has changed what they read, so
graphs with one in a region have no identity.  What the host runs is no part of any code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict
from functools import partial
from types import FunctionType, MethodType

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch.basic import jax_funcify

from pytensor_jaxlink.analysis import has_callbacks
from pytensor_jaxlink.graph import GraphView
from pytensor_jaxlink.link.form import Form
from pytensor_jaxlink.link.options import PLACES, Options
from pytensor_jaxlink.lowering import Lowered, is_known_draw
from pytensor_jaxlink.ops import is_foreign_module

_LARGEST = 1 << 24  # bytes of constants that are read


class _UnknownError(Exception):
    """Something has no identity."""


class Identity:
    """The parts that equal graphs have in common, with their hash, which takes time."""

    def __init__(self, parts: tuple[object, ...]) -> None:
        self._parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is Identity and self._hash == other._hash and self._parts == other._parts


def identity_of(form: Form, lowered: Lowered, options: Options) -> Identity | None:
    """The identity of a form of a graph that has been lowered; None where it has none.

    It has none where sizes are data, because several programs belong together then, and where JAX
    calls the host.
    Cost: a hash of each Op, and the constants are read once.
    """
    if form.dynamic or has_callbacks(form.facts):
        return None
    view, plan = lowered.view, lowered.plan
    traced = {node for region in form.partition.regions for node in region.traced}

    def described_op(node: int) -> object:
        op = view.nodes[node].op
        return _known(op) if node in traced else op

    try:
        described = described_graph(view, described_op, _content)
        kinds = tuple(variable.type for variable in view.variables)
        chosen = tuple(
            (name, repr(value)) for name, value in asdict(options).items() if name not in PLACES
        )
        planned = plan.inputs, plan.outputs, plan.constants, plan.steps
        rules = tuple(jax_funcify.registry.values())
        return Identity((*described, kinds, view.inputs, *planned, chosen, rules))
    except (_UnknownError, TypeError):  # an Op that cannot be hashed
        return None


def described_graph(
    view: GraphView, of_node: Callable[[int], object], of_data: Callable[[object], object]
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """A graph in numbers: its nodes, and its constants."""
    reads_and_writes = zip(view.node_inputs, view.node_outputs, strict=True)
    nodes = tuple((of_node(k), *both) for k, both in enumerate(reads_and_writes))
    return nodes, tuple((number, of_data(data)) for number, data in view.constants.items())


def _known(op: Op) -> tuple[Op, tuple[Hashable, ...]]:
    """The Op and its inner constants, if all of its code is PyTensor's or ours.

    A distribution of PyMC's that our sampler draws counts as ours.  To PyTensor's comparison of
    inner graphs 0.0 is -0.0.
    """
    constants: list[Hashable] = []
    for part in _parts(op, set()):
        if is_foreign_module(type(part).__module__) and not is_known_draw(part):
            raise _UnknownError
        for value in vars(part).values():
            if isinstance(value, partial | MethodType) or _is_foreign(value):
                raise _UnknownError
        constants += map(_content, _inner_constants(part))
    return op, tuple(constants)


def _inner_constants(op: object) -> Iterator[object]:
    graph = getattr(op, "fgraph", None)
    if graph is not None:
        read = [v for node in graph.toposort() for v in node.inputs]
        yield from (v.data for v in (*read, *graph.outputs) if isinstance(v, Constant))


def _is_foreign(value: object) -> bool:
    return isinstance(value, FunctionType) and is_foreign_module(value.__module__)


def _parts(op: object, seen: set[int]) -> Iterator[object]:
    """An Op, and those that it is made of."""
    if id(op) in seen:
        return
    seen.add(id(op))
    yield op
    for value in vars(op).values():
        if isinstance(value, Op):
            yield from _parts(value, seen)
    graph = getattr(op, "fgraph", None)
    for node in getattr(graph, "apply_nodes", ()):
        yield from _parts(node.op, seen)


def _content(data: object) -> Hashable:
    if isinstance(data, np.ndarray | np.generic):
        if data.nbytes > _LARGEST or data.dtype == object:
            raise _UnknownError
        return data.dtype.str, data.shape, hashlib.blake2b(data.tobytes()).digest()
    if data is None or isinstance(data, int | float | str | slice):
        return repr(data)
    raise _UnknownError
